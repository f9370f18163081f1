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
from .conftest import run_in_process
from .test_run import LEVELS, PIXELS, Data, Slow, events
from .test_run import data as data

CLIP = "core.clip.vit_b_32.source.whole"
NOWHERE = "http://127.0.0.1:9/v1"
HASTY = {"EDITJUDGE_DEADLINE": "2"}


@pytest.mark.parametrize("flags", [(), ("--json",)])
async def test_a_judge_that_cannot_be_used_ends_it(data: Data, flags: tuple[str, ...]) -> None:
    data.make(2)
    done = await data.run(LEVELS, by=NOWHERE, flags=flags, code=2, **HASTY)
    assert "generalist.judge cannot be used" in done.err
    assert NOWHERE in done.err
    assert "Traceback" not in done.err


async def test_what_one_judge_said_is_not_anothers(data: Data) -> None:
    data.make(2)
    second = Slow()
    second.models, second.answers_as = ("another",), "another"
    async with Slow().serving() as url:
        await data.run(LEVELS, by=url)
    for _ in range(2):  # however often it is tried
        await data.run(LEVELS, by=NOWHERE, code=2, **HASTY)
    async with second.serving() as url:
        await data.run(LEVELS, by=url)
    assert second.seen > 0


async def test_what_stands_does_so_without_its_service(data: Data) -> None:
    data.make(2)
    async with Slow().serving() as url:
        await data.run(LEVELS, by=url)
    async with ScriptedTriton(models=()).serving() as grpc:
        more = await data.run(LEVELS, CLIP, flags=("--endpoint", grpc), code=3)
    assert "nothing could be judged: 2 verdicts wait" in more.err
    assert "(2/2)" in more.out
    assert "generalist.judge" not in more.out


async def test_nothing_judged_is_no_success(data: Data) -> None:
    data.make(2)
    done = await data.run(LEVELS, code=3)
    assert "nothing could be judged: 2 verdicts wait for a service" in done.err
    assert "no judge is configured" in done.out
    done = await data.run(PIXELS, LEVELS, code=3)
    last = done.err.splitlines()[-1]
    assert last.startswith("incomplete: 1 dimension was not judged: generalist.judge: no judge is configured")
    for _ in range(2):  # begun, and resumed
        everything = await data.run(out=data.folder / "everything")
        assert "incomplete" not in everything.err, "of core without named dimensions nobody expects all"


async def test_what_was_not_served_is_told_by_every_verb(data: Data) -> None:
    data.make(2)
    async with Slow().serving() as url, ScriptedTriton(models=()).serving() as grpc:
        done = await data.run(PIXELS, LEVELS, CLIP, by=url, flags=("--endpoint", grpc), code=3)
    assert "1 dimension needs models that are not served: editjudge summary" in done.out
    assert CLIP not in done.out
    table = run_in_process("summary", data.out, "--json").json
    assert table["models"]["a"][CLIP]["counts"] == {"not_served": 2}
    assert table["models"]["a"][CLIP]["reason"] == "nothing scored"
    assert table["unserved"] is None
    told = run_in_process("summary", data.out).out
    assert "1 number needs models that are not served" in told
    assert CLIP not in told
    assert "quality.piqe" not in told, "no number rests on it"
    named = run_in_process("summary", data.out, "--unserved").out
    assert re.search(rf"- clip\.vit_b_32: .*: {re.escape(CLIP)}\n", named), named
    listed = run_in_process("summary", data.out, "--unserved", "--json").json["unserved"]
    assert list(listed.values()) == [[CLIP]]
    assert list(run_in_process("show", data.out, "set/1", "--json").json["not_served"]) == [CLIP]
    assert f"{CLIP}: not served" in run_in_process("show", data.out, "set/1").out
    file = data.folder / "verdicts.csv"
    assert run_in_process("export", data.out, "--format", "csv", "--out", file).code == 0
    lines = file.read_text().splitlines()
    rows = [one for one in csv.DictReader(lines) if one["status"] == "not_served"]
    assert [(one["dimension"], one["item"]) for one in rows] == [(CLIP, "")]


async def test_why_there_is_no_number_is_told_at_the_end(data: Data) -> None:
    data.make(2)
    server = Slow()
    server.says({"Maybe": 1.0})
    async with server.serving() as url:
        done = await data.run(PIXELS, LEVELS, by=url, code=3)
        assert f"2 verdicts have no number, abstained (first: {LEVELS}: " in done.err
        assert f"no reply of generalist.judge could be used: {LEVELS}: no choice is" in done.err
        assert "no number rests on a reply of generalist.judge" in run_in_process("summary", data.out).out
        again = data.folder / "again"
        as_json = await data.run(PIXELS, LEVELS, by=url, out=again, flags=("--json",), code=3)
    why = events(as_json)[-1]["unscored"]["abstained"]
    assert why["count"] == 2
    assert why["first"].startswith(f"{LEVELS}: ")


async def test_a_wrong_folder_begins_no_run(data: Data) -> None:
    data.make(2)
    (data.folder / "b").mkdir()
    done = await data.run(PIXELS, models="b", code=2)
    assert "holds no output of b" in done.err
    assert not data.out.exists()
    await data.run(PIXELS)


async def test_outputs_that_went_stay_judged(data: Data) -> None:
    data.make(3)
    await data.run(PIXELS)
    data.output(1).unlink()
    done = await data.run(PIXELS)
    assert "a: 1 output is missing" in done.err
    assert "1 were judged before and stay judged" in done.err
    assert "(3/3)" in done.out
    other = await data.run("core.ssim.source.whole")
    assert "stay judged" not in other.err, "on this nothing was"


async def test_outputs_that_cannot_be_read_are_told(data: Data) -> None:
    data.make(3, models="ab")
    data.output(2).write_bytes(b"no picture")
    done = await data.run(PIXELS)
    assert "a: 1 output cannot be read" in done.err
    assert "2.png" in done.err
    assert "(2/3)" in done.out
    other = await data.run(PIXELS, models="b")
    assert "cannot be read" not in other.err, "nobody asked about a"
    data.output(2).unlink()
    gone = await data.run(PIXELS)
    assert "a: 1 output is missing" in gone.err
    assert "cannot be read" not in gone.err


async def test_its_table_can_be_read_at_any_width(data: Data) -> None:
    data.make(2)
    names = [f"core.{m}.source.whole" for m in ("psnr", "ssim", "mse", "aligned_mse")]
    done = await data.run(*names, COLUMNS="60")
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
    first = run_in_process("run", *given, "--root", f"/={os.path.relpath(data)}")
    assert first.code == 0, first.err
    again = run_in_process("run", *given)
    assert again.code == 0, again.err
    assert "nothing was left to judge" in again.err
    assert run_in_process("rescore", out, "--json").code == 0
    same = run_in_process("run", *given, "--root", f"/={data}")
    assert "--root differs" not in same.err
    copy = shutil.copytree(data, tmp_path / "copied")
    assert "--root differs" in run_in_process("run", *given, "--root", f"/={copy}").err
