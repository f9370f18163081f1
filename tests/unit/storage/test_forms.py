"""From the first release on every version reads form 1: this file is never made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

from editjudge.base.item import Missing
from editjudge.storage.store import FILE, RunStore

FORM_1 = Path(__file__).with_name("form_1.sqlite")


def test_form_1_is_read(tmp_path: Path) -> None:
    shutil.copyfile(FORM_1, tmp_path / FILE)
    with RunStore.open(tmp_path, read_only=True) as store:
        assert store.header.protocol == "core.1"
        verdicts = {(one.item, one.dimension): one for one in store.verdicts()}
        last = verdicts["cup 59", "core.a"]
        assert (last.verdict.value, last.versions) == (59 / 60, "numpy:2.0")
        (said,) = last.replies
        assert said.reply == {"text": '{"score": 4}'}
        assert store.ledger.get_prompt(said.prompt).parts[0]["text"] == "Make cup 59 red"
        assert verdicts["odd", "core.a"].verdict.status == "unscored"
        assert verdicts["odd", "core.b"].verdict.status == "failed"
        assert store.edit("gone", "alpha").missing == Missing("absent", "no file")
        assert store.content_keys()["odd"] == store.content_keys()["cup 1"]
        assert len(store.file_cache().files) == 62
        assert store.database.query_row("SELECT count(*) FROM dictionaries") == (1,)
