from __future__ import annotations

import shutil
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import editjudge
from editjudge.app.merge import merge
from editjudge.app.run import preview_run
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError
from editjudge.base.item import Missing
from editjudge.base.signature import versions
from editjudge.base.verdict import Score, Verdict
from editjudge.benchmarks.dimension import Dimension
from editjudge.benchmarks.registry import load_dimensions
from editjudge.cli import root
from editjudge.engine.content_keys import JudgedEdit
from editjudge.engine.run_header import RunHeader
from editjudge.storage.store import RunStore

from ...replies import count_replies
from ...small_data import PSNR, make_spec, save_picture, stored_run, write_items
from ..storage.small_store import HEADER, LOST, SIGNATURES, UNREAD, ask, header, make_run, make_score, put, reply

command = root.commands["merge"]

ANY = next(iter(load_dimensions().values()))
KNOWN = {"core.a": Dimension("core.a", "?", "", ANY.how, (0, 1), tolerance=0.01)}


def find_dimensions(_: RunHeader) -> dict[str, Dimension]:
    return KNOWN


YESTERDAY = {"core.a": "of yesterday", "core.b": "of yesterday"}


def read_verdicts(folder: Path) -> dict[tuple[str, str, str], Verdict]:
    with RunStore.open(folder, read_only=True) as store:
        return {(one.model, one.item, one.dimension): one.verdict for one in store.verdicts()}


def one(folder: Path, verdict: Verdict, **changed: Any) -> Path:
    with RunStore.open(folder, HEADER) as store:
        put(store, "one", {"core.a": verdict}, **changed)
    return folder


def test_what_no_shard_has_judged_is_told(tmp_path: Path) -> None:
    save_picture(tmp_path / "s.png")
    data = write_items(tmp_path, ({"id": name} for name in ("one", "two")))
    one, two = str(tmp_path / "of one"), str(tmp_path / "of two")
    for name, run in (("one", one), ("two", two)):
        with stored_run(Path(run), make_spec(tmp_path, "a")) as keep:
            keep(name, "a", {PSNR: make_score(5)})
    for out, runs, told in (("part", [one], True), ("whole", [one, two], False)):
        done = CliRunner().invoke(command, [*runs, "--out", str(tmp_path / out)])
        assert ("1 edit is not judged yet, of 2: a run is missing" in done.stderr) is told
        assert done.exit_code == 0
    data.unlink()
    done = CliRunner().invoke(command, [one, two, "--out", str(tmp_path / "again")])
    assert "whether every edit was judged is unknown: " in done.stderr


async def test_shards_become_one(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", one={"core.a": make_score(1, x=1), "core.b": UNREAD})
    call, said = ask(), reply("long reply " * 99)
    more = header(outputs={"beta": "/outputs/beta"}, dimensions=("core.c",))
    with RunStore.open(tmp_path / "b", more) as store:
        await store.ledger.put(call, said)
        await store.ledger.put_fact("judge.method", "logprobs")
        put(store, "one", {"core.a": Score(value=2, calls=(call.key,))}, "beta")
        store.save_edit_now(JudgedEdit("two", "beta", None, Missing("absent", "no file")))
    before = {**read_verdicts(first), **read_verdicts(tmp_path / "b")}
    arguments = [str(first), str(tmp_path / "b"), "--out", str(tmp_path / "all")]
    out = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert "3 verdicts on 3 edits (0 were in several runs)" in out.output
    assert read_verdicts(tmp_path / "all") == before
    with RunStore.open(tmp_path / "all") as store:
        assert store.header.outputs == {"alpha": "/outputs/alpha", "beta": "/outputs/beta"}
        assert store.header.dimensions == ("core.a", "core.b", "core.c")
        assert [edit.model for edit in store.edits() if edit.missing] == ["beta"]
        assert await store.ledger.get(call) is not None
        assert await store.ledger.get_fact("judge.method") == "logprobs"
        (rests,) = [one for one in store.verdicts() if one.replies]
        assert (rests.model, rests.replies[0].reply) == ("beta", said.content)


async def _make_run(folder: Path, item: str, *replies: str) -> Path:
    """A run whose verdicts on an item rest on one reply each, to the same call."""
    call = ask()
    with RunStore.open(folder, HEADER) as store:
        for number, text in enumerate(replies):
            await store.ledger.drop([call.key])
            await store.ledger.put(call, reply(text))
            verdict = Score(value=number, calls=(call.key,))
            put(store, f"{item}{number}", {"core.a": verdict})
    return folder


async def test_a_verdict_keeps_the_reply_that_it_rests_on(tmp_path: Path) -> None:
    first = await _make_run(tmp_path / "a", "a", "left aside", "red")
    second = await _make_run(tmp_path / "b", "b", "red", "blue")
    third = await _make_run(tmp_path / "c", "c", "red")
    merge([first, second, third], tmp_path / "all")
    with RunStore.open(tmp_path / "all") as store:
        said = {one.item: one.replies[0].reply["text"] for one in store.verdicts()}  # type: ignore[index,call-overload]
        assert count_replies(store.ledger) == 1
    assert said == {"a0": "left aside", "a1": "red", "b0": "red", "b1": "blue", "c0": "red"}


def test_a_verdict_keeps_the_versions_that_it_was_made_with(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", one={"core.a": make_score(1)})
    with RunStore.open(first) as store:
        verdicts = {"core.a": make_score(1)}
        store.save_edit_now(JudgedEdit("one", "alpha"), verdicts, SIGNATURES, "numpy:1.26.0")
    second = make_run(tmp_path / "b", two={"core.a": make_score(1)})
    merge([first, second], tmp_path / "all", find_dimensions)
    with RunStore.open(tmp_path / "all", read_only=True) as store:
        there = {one.item: one.versions for one in store.verdicts()}
    assert there == {"one": "numpy:1.26.0", "two": versions()}


def test_the_same_verdict_is_there_once(tmp_path: Path) -> None:
    first, second = one(tmp_path / "a", make_score(0.5)), one(tmp_path / "b", make_score(0.505))
    merged = merge([first, second], tmp_path / "all", dimensions=find_dimensions)
    assert (merged.edits, merged.verdicts, merged.duplicates) == (1, 1, 1)
    assert read_verdicts(tmp_path / "all") == read_verdicts(first)


def test_values_of_a_signature_that_differ_are_told(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    both = [one(runs / "a", make_score(0.5)), one(runs / "b", make_score(0.52))]
    with pytest.raises(ConfigError, match=r"core\.a of alpha for one in .*b is 0\.52, and 0\.5 "):
        merge(both, runs / "all", dimensions=find_dimensions)
    assert {path.name for path in runs.iterdir()} == {"a", "b"}


@pytest.mark.parametrize(
    ("later", "changed", "told"),
    [
        (make_score(0.9), {"signatures": YESTERDAY}, "another signature"),
        (UNREAD, {}, "status unscored"),
        (make_score(0.9), {"output": "another"}, "another output of alpha for one"),
    ],
    ids=["signature", "status", "output"],
)
def test_what_differs_is_refused(tmp_path: Path, later: Verdict, changed: dict[str, Any], told: str) -> None:
    first, second = one(tmp_path / "a", make_score(0.5)), one(tmp_path / "b", later, **changed)
    with pytest.raises(ConfigError, match=told):
        merge([first, second], tmp_path / "none", dimensions=find_dimensions)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("backwards", [False, True])
def test_what_failed_gives_way(tmp_path: Path, backwards: bool) -> None:
    runs = [one(tmp_path / "a", LOST, signatures=YESTERDAY), one(tmp_path / "b", make_score(1))]
    merge(runs[::-1] if backwards else runs, tmp_path / "all", dimensions=find_dimensions)
    assert read_verdicts(tmp_path / "all") == read_verdicts(tmp_path / "b")


def test_runs_of_different_things_are_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first, other, out = make_run(runs / "a"), runs / "b", runs / "all"
    for changed in ({"judges": ("other",)}, {"outputs": {"alpha": "/elsewhere"}}):
        shutil.rmtree(other, ignore_errors=True)
        RunStore.open(other, header(**changed)).close()
        with pytest.raises(ConfigError) as raised:
            merge([first, other], out, dimensions=find_dimensions)
        assert raised.value.fix.startswith(f"leave {other} out: only runs of one benchmark")
    with pytest.raises(ConfigError, match="holds no run"):
        merge([first, runs / "none"], out, dimensions=find_dimensions)
    with pytest.raises(ConfigError, match="exists; give another --out"):
        merge([first, first], other, dimensions=find_dimensions)
    assert {path.name for path in runs.iterdir()} == {"a", "b"}


async def test_a_run_of_three_shards_goes_on_with_two(tmp_path: Path) -> None:
    """Nothing is lost, asked again or counted twice, and none of them may be in use."""
    names = [f"item{number}" for number in range(8)]
    write_items(tmp_path, ({"id": name} for name in names))
    for picture in ("s", *(f"a/{name}" for name in names)):
        save_picture(tmp_path / f"{picture}.png")
    for shard in range(3):
        folder = tmp_path / "3" / str(shard)
        # The last two are left.
        await editjudge.run_async(make_spec(tmp_path, "a", limit=6), out=folder, shard=(shard, 3))
        with RunStore.open(folder) as store:  # of an edit that was under way
            await store.ledger.put(ask(shard), reply(cost=1.0))
    spec = make_spec(tmp_path, "a")
    former, out = [tmp_path / "3" / str(shard) for shard in range(3)], tmp_path / "2"
    with RunStore.open(former[1]), pytest.raises(ConfigError, match="in use by another process"):
        merge(former, out, shards=2)
    arguments = [*map(str, former), "--out", str(out), "--shards", "2"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert "6 verdicts on 6 edits (0 were in several runs)" in done.output
    assert "spent so far: 3; --max-cost of each shard counts its own: 3, 0" in done.output
    assert f"go on with --shard I/2 --out {out}/I" in done.stderr
    for shard in range(2):
        plan = preview_run(spec, out / str(shard), Settings(), shard=(shard, 2))[1]
        pending = compress(plan.ids, plan.todo["a"])
        assert [*pending] == [names[6 + shard]]
        with RunStore.open(out / str(shard)) as store:
            assert count_replies(store.ledger) == 3
    merge([out / "0", out / "1"], tmp_path / "whole")
    merge(former, tmp_path / "former")
    assert read_verdicts(tmp_path / "whole") == read_verdicts(tmp_path / "former")
    with RunStore.open(tmp_path / "whole") as store:
        assert store.costs[0] == 3.0
