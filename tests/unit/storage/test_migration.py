"""Files of the two forms before today's become today's, and say the same."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import ConfigError, StoreError
from editjudge.storage import database, version_2, version_3, version_4
from editjudge.storage.codec import dumps
from editjudge.storage.ledger import Ledger
from editjudge.storage.store import FILE, RunStore
from editjudge.storage.tables import VERSION

STORED = Path(__file__).parents[2] / "golden" / "stored"
ARCHIVES = sorted(STORED.glob("v2/*.zip"))


def unpacked(archive: Path, folder: Path) -> Path:
    """The run of an archive; its data lies elsewhere, which nobody here reads."""
    shutil.unpack_archive(archive, folder)
    return folder / "run"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return unpacked(STORED / "v2" / "kris.paper.zip", tmp_path)


@pytest.fixture
def unmasked(tmp_path: Path) -> Path:
    """A run of version 3 by the switch that its signatures did not name."""
    return unpacked(STORED / "v3" / "gie.paper+unmasked_pixels.zip", tmp_path)


def version(run: Path) -> int:
    db = sqlite3.connect(run / FILE)
    (found,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return int(found)


def before(run: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Details of verdicts as version 2 read them, by model, item and dimension."""
    db = sqlite3.connect(run / FILE)
    text = dict(db.execute("SELECT id, text FROM texts"))
    found = {}
    for model, item, of, detail, calls in db.execute(
        "SELECT model, item, dimension, detail, calls FROM verdicts JOIN edits ON id = edit"
    ):
        rows = [_call(db, int(number)) for number in calls.split(",")] if calls else []
        said = version_2.said_by(row for row in rows if row["prompt"])
        found[text[model], text[item], text[of]] = (
            version_2.unpacked(detail, said) if detail else {}
        )
    db.close()
    return found


def _call(db: sqlite3.Connection, number: int) -> dict[str, Any]:
    key, model, prompt, reply, *counts = db.execute(
        "SELECT calls.key, texts.text, prompts.digest, reply, prompt_tokens, cached_tokens,"
        " completion_tokens, cost FROM calls LEFT JOIN texts ON texts.id = model"
        " LEFT JOIN prompts ON prompts.id = prompt WHERE calls.id = ?",
        (number,),
    ).fetchone()
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "cost")
    return {
        "call": f"sha256:{key.hex()}",
        "model": model,
        "prompt": prompt and f"sha256:{prompt.hex()}",
        "reply": version_2.unpacked(reply) if prompt else None,
        **dict(zip(names, counts, strict=True)),
    }


def told(evidence: Mapping[str, Any]) -> set[str]:
    """The calls that evidence of version 2 names."""
    named = [evidence, *evidence.get("readings", {}).values()]
    return {key for one in named for key in one.get("calls", [one.get("call")]) if key}


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda one: one.stem)
def test_verdicts_say_what_they_said(archive: Path, tmp_path: Path) -> None:
    run = unpacked(archive, tmp_path)
    expected = before(run)
    with RunStore.open(run) as store:
        for one in store.verdicts():
            was = expected.pop((one.model, one.item, one.dimension)).get("evidence", {})
            now = getattr(one.verdict, "evidence", {})
            assert told(was) <= {said.call for said in one.said}
            pairs = [(was, now)]
            pairs += [
                (e, now.get("readings", {}).get(n, {})) for n, e in was.get("readings", {}).items()
            ]
            for old, new in pairs:
                for name in old.keys() - new.keys() - {"readings"}:
                    assert _is_in(name, old[name], one.said), (one.dimension, name)
                kept = new.keys() - {"readings"}
                assert {name: old[name] for name in kept} == {name: new[name] for name in kept}
        (intact,) = store.database.one("PRAGMA integrity_check") or ("",)
        assert intact == "ok"
        assert store.database.one("SELECT * FROM pragma_foreign_key_check") is None
        assert not any(
            name.endswith("_2") for (name,) in store.database.each("SELECT name FROM sqlite_master")
        )
    assert not expected
    assert version(run) == VERSION


def _is_in(name: str, value: Any, said: Any) -> bool:
    """Whether what left evidence can be seen in the calls."""
    replies = [one.reply for one in said]
    texts = [reply.get("text", "") for reply in replies]
    match name:
        case "call":
            return value in [one.call for one in said]
        case "calls":
            return set(value) <= {one.call for one in said}
        case "judge":
            return value in [one.model for one in said]
        case "prompt":
            return value in [one.prompt for one in said]
        case "reply":
            return value in texts
        case "replies":
            return set(value) <= set(texts)
        case "reasoning":
            return all(any(json.dumps(p)[1:-1] in t for t in texts) for p in value.split("\n\n"))
        case "usage":
            return bool(value["prompt_tokens"] <= sum(one.prompt_tokens for one in said))
    return any(reply.get(name) == value for reply in replies)


def test_identities_and_missing_outputs_have_their_parts(old: Path) -> None:
    with RunStore.open(old) as store:
        judges = {str(name): one for name, one in store.header.identities.items()}
        assert judges["generalist.judge"].name == "model-judge"
        assert judges["generalist.judge"].facts["temperature"]
        missing = {e.item: e.missing for e in store.edits("ours") if e.missing}
    assert {one.kind for one in missing.values() if one} == {"absent", "unreadable"}
    assert not any(str(one.reason).startswith("unreadable") for one in missing.values() if one)


async def test_what_a_preparation_knows_of_its_services(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    _as_version_2(path)
    db = sqlite3.connect(path)
    text = json.dumps({"generalist.judge": "m(seed=0,server=vllm)"})
    db.executemany(
        "INSERT INTO facts VALUES (?, ?)",
        [("services that prepared, by sha256:1", text), ("choices of m", "logprobs")],
    )
    db.commit()
    db.close()
    with Ledger(path) as ledger:
        known = await ledger.fact("services that prepared, by sha256:1")
        facts = {"seed": "0", "server": "vllm"}
        assert json.loads(known or "") == {"generalist.judge": {"name": "m", "facts": facts}}
        assert await ledger.fact("choices of m") == "logprobs"


def _as_version_2(path: Path) -> None:
    """An empty file of version 2."""
    db = sqlite3.connect(path)
    for statement in version_4.TABLES:
        db.execute(statement)
    db.executescript(
        """
        DROP TABLE verdict_calls; DROP TABLE verdicts; DROP TABLE edits;
        CREATE TABLE edits (id INTEGER PRIMARY KEY, model INTEGER NOT NULL,
            item INTEGER NOT NULL, digest BLOB, missing TEXT, UNIQUE (model, item));
        CREATE TABLE verdicts (edit INTEGER NOT NULL, dimension INTEGER NOT NULL,
            status INTEGER NOT NULL, signature INTEGER NOT NULL, value REAL, kind INTEGER,
            detail BLOB, calls TEXT, PRIMARY KEY (edit, dimension)) WITHOUT ROWID;
        PRAGMA user_version = 2;
        """
    )
    db.close()


def test_evidence_that_says_more_than_its_calls_stays(tmp_path: Path) -> None:
    call = {"call": "k", "model": "m", "prompt": "p", "reply": {"text": '{"score": 3}'}}
    evidence = {"call": "k", "judge": "another", "reply": "I said no such thing", "prompt": "p"}
    whole = version_2.without_replies({"evidence": evidence, "reason": "r"}, [call])
    assert whole == {
        "reason": "r",
        "evidence": {"judge": "another", "reply": "I said no such thing"},
    }
    # Where a call is not there any more, all stays to the letter.
    assert version_2.without_replies({"evidence": evidence}, []) == {"evidence": evidence}


def test_a_migration_that_fails_changes_nothing(old: Path) -> None:
    db = sqlite3.connect(old / FILE)
    last = "(SELECT max(id) FROM calls WHERE prompt IS NOT NULL)"
    db.execute(f"UPDATE calls SET reply = x'01ff' WHERE id = {last}")  # noqa: S608
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="cannot be brought up to date: stored text"):
        RunStore.open(old)
    assert version(old) == 2
    assert before_tables(old)


def before_tables(run: Path) -> bool:
    """Whether the tables are those of version 2, with all rows."""
    db = sqlite3.connect(run / FILE)
    (count,) = db.execute("SELECT count(calls) FROM verdicts").fetchone()
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    db.close()
    return count > 0 and "verdict_calls" not in names and "verdicts_2" not in names


def _killed_within(run: Path) -> None:
    migrate = database.migrate

    def killed(db: sqlite3.Connection, version: int) -> None:
        migrate(db, version)
        os.kill(os.getpid(), signal.SIGKILL)

    database.migrate = killed
    RunStore.open(run)


def test_a_migration_that_is_killed_begins_anew(old: Path) -> None:
    expected = before(old)
    process = multiprocessing.get_context("spawn").Process(target=_killed_within, args=(old,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert version(old) == 2
    assert before(old) == expected
    with RunStore.open(old) as store:
        assert sum(1 for _ in store.verdicts()) == len(expected)


def test_a_reader_is_told_who_brings_it_up_to_date(old: Path) -> None:
    with pytest.raises(ConfigError, match=rf"version 2, this editjudge reads {VERSION}.*open it"):
        RunStore.open(old, read_only=True)
    assert version(old) == 2


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_version_1_is_refused(tmp_path: Path, *, read_only: bool) -> None:
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("PRAGMA user_version = 1")
    db.execute("CREATE TABLE calls (key)")
    db.close()
    with pytest.raises(ConfigError, match=r"of version 1, .* brings 2 up to date; .*commit \w{7}"):
        RunStore.open(tmp_path, read_only=read_only)
    assert version(tmp_path) == 1


@pytest.mark.parametrize("damage", ["cut", "dictionary", "empty"])
def test_damaged_texts_of_version_2_are_told(damage: str) -> None:
    dictionary = version_2._DICTIONARIES[1]
    compressor = zlib.compressobj(9, zdict=dictionary + b"said")
    whole = b"\x01" + compressor.compress(dumps("x" * 50).encode()) + compressor.flush()
    assert version_2.unpacked(whole, b"said") == "x" * 50
    stored = {"cut": whole[:-3], "dictionary": b"\xff" + whole[1:], "empty": b""}[damage]
    with pytest.raises(ValueError, match="stored text"):
        version_2.unpacked(stored, b"said")
    with pytest.raises(ValueError, match="stored text"):
        version_2.unpacked(whole, b"something else")


# From 3 to 4: signatures


def rows_of(run: Path) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Verdicts by edit and dimension, with the text of their signature, before a file is opened."""
    db = sqlite3.connect(run / FILE)
    rows = db.execute(
        "SELECT edit, dimension, status, value, kind, detail, text FROM verdicts"
        " JOIN texts ON id = signature"
    ).fetchall()
    db.close()
    return {(edit, dimension): tuple(rest) for edit, dimension, *rest in rows}


def test_a_signature_says_what_the_switch_of_the_run_had_read(unmasked: Path) -> None:
    """MSE of the whole picture is not MSE outside the mask: the run's header tells which it was."""
    with RunStore.open(unmasked) as store:
        signed = {one.dimension: one.signature for one in store.verdicts()}
    assert "|reads:pixels.mse.whole(" in signed["gie.mse"]
    assert "|reads:pixels.psnr.whole(" in signed["gie.psnr"]
    assert "|reads:pixels.ssim.outside(" in signed["gie.ssim"]


@pytest.mark.parametrize(
    ("protocol", "region"),
    [
        ("gie.paper.2", "outside"),
        ("gie.paper.2+unmasked_pixels", "whole"),
        ("gie.paper.2+exact_match+unmasked_pixels", "whole"),
        ("gie.official.2", "whole"),
        ("gie.official.2-unmasked_pixels", "outside"),
        ("gie.official.2-exact_match", "whole"),
    ],
)
def test_the_field_by_the_protocol_of_the_run(protocol: str, region: str) -> None:
    old = (
        "dimension:gie.mse|protocol:gie.2|variant:mse.rgb.sift|pixels:aligned=True,as_is=False,"
        "plausible=True,reference=source|pillow:13.0.0|numpy:1.26.4|"
        "opencv-python-headless:4.11.0.86|editjudge:0.1.0"
    )
    ((new, versions),) = version_3.carried([old], protocol).values()
    assert new == (
        f"dimension:gie.mse|protocol:gie.2|variant:mse.rgb.sift|reads:pixels.mse.{region}"
        "(aligned=True,as_is=False,plausible=True,reference=source)|by:"
        "align.1(opencv-python-headless 4)+decode.1+fitted.1+"
        + ("" if region == "whole" else "load_mask.1+")
        + "mse.1+pixels.1"
    )
    assert versions == (
        "editjudge:0.1.0|numpy:1.26.4|opencv-python-headless:4.11.0.86|pillow:13.0.0"
    )


def test_what_is_derived_follows_its_parts() -> None:
    part = "dimension:kris.visual_quality|protocol:kris.1|rubric:repeat=0|editjudge:0.1.0"
    digest = hashlib.sha256(part.encode()).hexdigest()[:12]
    whole = (
        "dimension:kris.average|protocol:kris.paper.1|variant:rubric.1to5|of:kris.visual_quality+"
        f"kris.gone|editjudge:0.1.0|parts:{digest}+0123456789ab"
    )
    new = version_3.carried([whole, part], "kris.paper.1")
    assert new[part][0] == (
        "dimension:kris.visual_quality|protocol:kris.1|reads:rubric.quality_score(repeat=0)|"
        "by:rubric.1"
    )
    moved = hashlib.sha256(new[part][0].encode()).hexdigest()[:12]
    assert new[whole][0] == (
        "dimension:kris.average|protocol:kris.1|formula:mean.1|"
        f"parts:kris.visual_quality={moved}+kris.gone=0123456789ab"
    )


def test_a_signature_of_somebody_else_merely_loses_its_versions() -> None:
    old = "dimension:theirs.a|protocol:unversioned|their_scorer:a=1|pillow:13.0.0|editjudge:0.1.0"
    new = version_3.carried([old, "dimension:core.a|v:1"], "core.1")
    assert new[old] == (
        "dimension:theirs.a|protocol:unversioned|their_scorer:a=1",
        "editjudge:0.1.0|pillow:13.0.0",
    )
    assert set(new) == {old, "dimension:core.a|v:1"}


V3 = sorted(STORED.glob("v3/*.zip"))


@pytest.mark.parametrize("archive", V3, ids=lambda one: one.stem)
def test_verdicts_keep_all_but_their_signature(archive: Path, tmp_path: Path) -> None:
    run = unpacked(archive, tmp_path)
    was = rows_of(run)
    assert version(run) == 3
    with RunStore.open(run) as store:
        made_with = {one.versions for one in store.verdicts(evidence=False)}
        assert store.database.one("SELECT * FROM pragma_foreign_key_check") is None
        stale = "SELECT 1 FROM texts WHERE text LIKE 'dimension:%|editjudge:%'"
        assert store.database.one(stale) is None, "a signature of before is left"
    assert version(run) == VERSION
    now = rows_of(run)
    assert {key: row[:-1] for key, row in now.items()} == {k: row[:-1] for k, row in was.items()}
    texts = {now[key][-1]: was[key][-1] for key in now}
    assert len(texts) == len({row[-1] for row in was.values()}), "what was told apart still is"
    assert not [text for text in texts if re.search(r"\|(pillow|numpy|editjudge):", text)]
    assert all("editjudge:0.1.0" in one for one in made_with)


def test_a_killed_migration_leaves_version_3(unmasked: Path) -> None:
    was = rows_of(unmasked)
    process = multiprocessing.get_context("spawn").Process(target=_killed_within, args=(unmasked,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert version(unmasked) == 3
    assert rows_of(unmasked) == was
    with RunStore.open(unmasked) as store:
        assert sum(1 for _ in store.verdicts()) == len(was)


# From 4 to 5: checksums


@pytest.mark.parametrize("name", ["core", "kris.paper"])
def test_rows_get_checksums_and_keep_their_values(name: str, tmp_path: Path) -> None:
    run = unpacked(STORED / "v4" / f"{name}.zip", tmp_path)
    was = all_rows(run)
    assert version(run) == 4
    with RunStore.open(run) as store:
        now = {
            table: sorted(map(repr, store.database.each(f"SELECT {columns} FROM {table}")))  # noqa: S608
            for table, (columns, _) in was.items()
        }
        assert store.database.one("SELECT * FROM pragma_foreign_key_check") is None
        assert store.database.one("SELECT count(*) FROM earlier") == (0,)
    assert version(run) == VERSION
    due = {table: rows for table, (_, rows) in was.items()}
    # When outputs were looked at tells nothing any more: their stats do.
    due["facts"] = [fact for fact in due["facts"] if "looked at" not in fact]
    assert now == due


def all_rows(run: Path) -> dict[str, tuple[str, list[str]]]:
    """By table the names of its columns, and its rows."""
    db = sqlite3.connect(run / FILE)
    found = {}
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        columns = ", ".join(names)
        rows = db.execute(f"SELECT {columns} FROM {table}")  # noqa: S608
        found[table] = columns, sorted(map(repr, rows))
    db.close()
    return found
