"""What `run` and the verbs after it tell of that which could not be judged."""

from __future__ import annotations

import csv
import os
import re
import shutil
from pathlib import Path

import pytest

from ..fakes.triton import ScriptedTriton
from ..golden import cases
from .conftest import here
from .test_run import LEVELS, PIXELS, Data, Slow, _says, command, data, events, judged_by, ran

__all__ = ["data"]

CLIP = "core.clip.vit_b_32.source.whole"
NOWHERE = "http://127.0.0.1:9/v1"


def small(data: Data, count: int = 2) -> None:
    data.items(count)
    data.model("a", count)


@pytest.mark.parametrize("flags", [["--generalist", NOWHERE], ["--generalist", NOWHERE, "--json"]])
def test_a_judge_that_cannot_be_used_ends_it(data: Data, flags: list[str]) -> None:
    small(data)
    done = command("run", *data.arguments(LEVELS), *flags, EDITJUDGE_DEADLINE="2")
    assert done.code == 2
    assert "generalist.judge cannot be used" in done.err
    assert NOWHERE in done.err
    assert "Traceback" not in done.err


async def test_what_one_judge_said_is_not_anothers(data: Data) -> None:
    small(data)
    given = data.arguments(LEVELS)
    first, second = Slow(), Slow()
    second.models, second.answers_as = ("another",), "another"
    async with judged_by(first) as judge:
        assert (await ran("run", *given, *judge)).code == 0
    for _ in range(2):
        dead = await ran("run", *given, "--generalist", NOWHERE, EDITJUDGE_DEADLINE="2")
        assert dead.code == 2, "however often it is tried"
    async with judged_by(second) as judge:
        done = await ran("run", *given, *judge)
    assert (done.code, second.seen > 0) == (0, True)


async def test_what_stands_does_so_without_its_service(data: Data) -> None:
    small(data)
    async with judged_by(Slow()) as judge:
        assert (await ran("run", *data.arguments(LEVELS), *judge)).code == 0
    async with ScriptedTriton(models=()).serving() as grpc:
        more = await ran("run", *data.arguments(LEVELS, CLIP), "--endpoint", grpc)
    assert more.code == 0, more.err
    assert "nothing could be judged: 2 verdicts wait" in more.err
    assert "(2/2)" in more.out
    assert "generalist.judge" not in more.out


def test_nothing_judged_is_no_success(data: Data) -> None:
    small(data)
    done = command("run", *data.arguments(LEVELS))
    assert done.code == 3
    assert "nothing could be judged: 2 verdicts wait for a service" in done.err
    assert "no judge is configured" in done.out


async def test_what_was_not_served_is_told_by_every_verb(data: Data) -> None:
    small(data)
    async with judged_by(Slow()) as judge, ScriptedTriton(models=()).serving() as grpc:
        given = [*data.arguments(PIXELS, LEVELS, CLIP), "--endpoint", grpc]
        done = await ran("run", *given, *judge)
    assert done.code == 0, done.err
    assert "1 dimension needs models that are not served: editjudge summary" in done.out
    assert CLIP not in done.out
    table = here("summary", data.out, "--json")
    assert table.json["models"]["a"][CLIP]["counts"] == {"not_served": 2}
    assert table.json["models"]["a"][CLIP]["reason"] == "nothing scored"
    told = here("summary", data.out)
    assert "1 number needs models that are not served" in told.out
    assert CLIP not in told.out
    named = here("summary", data.out, "--unserved").out
    assert re.search(rf"- clip\.vit_b_32: .*: {re.escape(CLIP)}\n", named), named
    listed = here("summary", data.out, "--unserved", "--json").json["unserved"]
    assert list(listed.values()) == [[CLIP]]
    assert table.json["unserved"] is None
    assert "quality.piqe" not in told.out, "no number rests on it"
    shown = here("show", data.out, "set/1", "--json")
    assert list(shown.json["not_served"]) == [CLIP]
    assert f"{CLIP}: not served" in here("show", data.out, "set/1").out
    file = data.folder / "verdicts.csv"
    assert here("export", data.out, "--format", "csv", "--out", file).code == 0
    lines = file.read_text().splitlines()
    rows = [one for one in csv.DictReader(lines) if one["status"] == "not_served"]
    assert [(one["dimension"], one["item"]) for one in rows] == [(CLIP, "")]


async def test_why_there_is_no_number_is_told_at_the_end(data: Data) -> None:
    small(data)
    server = Slow()
    server.said = lambda: _says(server, {"Maybe": 1.0})  # type: ignore[method-assign]
    async with judged_by(server) as judge:
        done = await ran("run", *data.arguments(PIXELS, LEVELS), *judge)
    assert done.code == 0, done.err
    assert f"2 verdicts have no number, abstained (first: {LEVELS}: " in done.err
    async with judged_by(server) as judge:
        again = data.arguments(PIXELS, LEVELS, out=data.folder / "again")
        finished = events(await ran("run", *again, *judge, "--json"))[-1]
    assert finished["unscored"]["abstained"]["count"] == 2
    assert finished["unscored"]["abstained"]["first"].startswith(f"{LEVELS}: ")


def test_a_wrong_folder_begins_no_run(data: Data) -> None:
    small(data)
    empty = data.folder / "empty"
    empty.mkdir()
    given = data.arguments(PIXELS)
    wrong = [f"a={empty}" if one == f"a={data.folder / 'a'}" else one for one in given]
    done = command("run", *wrong)
    assert (done.code, data.out.exists()) == (2, False)
    assert "holds no output of a" in done.err
    assert command("run", *given).code == 0


def test_outputs_that_went_stay_judged(data: Data) -> None:
    small(data, 3)
    assert command("run", *data.arguments(PIXELS)).code == 0
    (data.folder / "a" / "set" / "1.png").unlink()
    done = command("run", *data.arguments(PIXELS))
    assert done.code == 0, done.err
    assert "a: 1 output is missing" in done.err
    assert "1 were judged before and stay judged" in done.err
    assert "(3/3)" in done.out
    other = command("run", *data.arguments("core.ssim.source.whole"))
    assert "stay judged" not in other.err, "on this nothing was"


def test_outputs_that_cannot_be_read_are_told(data: Data) -> None:
    small(data, 3)
    (data.folder / "a" / "set" / "2.png").write_bytes(b"no picture")
    done = command("run", *data.arguments(PIXELS))
    assert "a: 1 output cannot be read" in done.err
    assert "2.png" in done.err
    assert "(2/3)" in done.out
    data.model("b", 3)
    other = command("run", *data.arguments(PIXELS, models="b"))
    assert "cannot be read" not in other.err, "nobody asked about a"
    (data.folder / "a" / "set" / "2.png").unlink()
    gone = command("run", *data.arguments(PIXELS))
    assert "a: 1 output is missing" in gone.err
    assert "cannot be read" not in gone.err


def test_its_table_can_be_read_at_any_width(data: Data) -> None:
    small(data)
    names = [f"core.{m}.source.whole" for m in ("psnr", "ssim", "mse", "aligned_mse")]
    done = command("run", *data.arguments(*names), COLUMNS="60")
    assert done.code == 0, done.err
    for name in names:
        assert name.removeprefix("core.") in done.out
    assert "…" not in done.out


def test_the_roots_of_a_run_are_kept(tmp_path: Path) -> None:
    made, out = cases.gie(tmp_path), tmp_path / "run"
    data, lists = made.data.parent, tmp_path / "lists"
    lists.mkdir()
    listed = made.data.rename(lists / made.data.name)
    outputs = ("--outputs", f"theirs={tmp_path / 'theirs'}", "--out", out)
    given = ["gie", "--data", listed, *outputs, "--dimension", "gie.ssim"]
    root = os.path.relpath(data)
    first = command("run", *given, "--root", f"/={root}")
    assert first.code == 0, first.err
    again = command("run", *given)
    assert again.code == 0, again.err
    assert "nothing was left to judge" in again.err
    assert here("rescore", out, "--json").code == 0
    same = command("run", *given, "--root", f"/={data}")
    assert "--root differs" not in same.err
    copy = shutil.copytree(data, tmp_path / "copied")
    assert "--root differs" in command("run", *given, "--root", f"/={copy}").err
