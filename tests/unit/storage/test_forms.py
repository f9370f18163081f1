"""From the first release on every version reads form 1: this file is never made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

from editjudge.base.item import Missing
from editjudge.base.verdict import Failure, NoScore
from editjudge.storage.store import FILE, RunStore

FORM_1 = Path(__file__).with_name("form_1.sqlite")


def test_form_1_is_read(tmp_path: Path) -> None:
    shutil.copyfile(FORM_1, tmp_path / FILE)
    with RunStore.open(tmp_path, read_only=True) as store:
        assert store.header.protocol == "core.1"
        verdicts = {(one.item, one.dimension): one for one in store.verdicts()}
        last = verdicts["cup 59", "core.a"]
        assert getattr(last.verdict, "value", None) == 59 / 60
        assert last.versions == "numpy:2.0"
        (said,) = last.replies
        assert said.reply == {"text": '{"score": 4}'}
        assert said.prompt is not None
        prompt = store.ledger.get_prompt(said.prompt)
        assert prompt is not None
        assert prompt.parts[0]["text"] == "Make cup 59 red"
        assert isinstance(verdicts["odd", "core.a"].verdict, NoScore)
        assert isinstance(verdicts["odd", "core.b"].verdict, Failure)
        gone = store.edit("gone", "alpha")
        assert gone is not None
        assert gone.missing == Missing("absent", "no file")
        assert store.content_keys()["odd"] == store.content_keys()["cup 1"]
        assert len(store.file_cache().files) == 62
        assert store.database.query_row("SELECT count(*) FROM dictionaries") == (1,)
