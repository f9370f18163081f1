"""The chart's own commands of a run, on loopback: shards, one of them evicted, and their merger."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from editjudge.cli import root

from ..e2e.conftest import await_end, process, run_in_process, run_in_thread
from ..e2e.test_run import LEVELS, PIXELS, Data, Slow
from ..patience import until
from . import chart
from .chart import OPTIONS, PARTS, Object, render_parts
from .rules import containers, select_kinds, setting

COUNT = 9
SHARDS = 2
RUN = {
    "outputs": {"a": "a"},
    "arguments": [f"--dimension={PIXELS}", f"--dimension={LEVELS}"],
    "shards": SHARDS,
    "merge": True,
}


ANSWERED = 4


class Hanging(Slow):
    """Answers the first calls, and those to come once it does not hang any more."""

    hanging = False

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.seconds = 30.0 if self.hanging and self.seen >= ANSWERED else 0.0
        return await super()._chat(request)


@pytest.fixture(scope="module")
def things() -> list[Object]:
    alone = {"front.kind": "none", "judge.enabled": False, "triton.servers": {}}
    return render_parts(OPTIONS["vllm"], alone, {"runs.first": PARTS["run"] | RUN})


def pod(things: list[Object], name: str) -> Any:
    (one,) = (job for job in select_kinds(things, "Job") if f"-{name}-" in job["metadata"]["name"])
    return one["spec"]["template"]


def move_paths(words: list[str], places: dict[str, Path], **variables: str) -> list[str]:
    """A container's command with its volumes elsewhere, and variables as the kubelet fills them."""
    told = [re.sub(r"\$\((\w+)\)", lambda m: variables[m[1]], word) for word in words]
    for mounted, place in places.items():
        told = [re.sub(rf"(^|=){mounted}/", rf"\g<1>{place}/", word) for word in told]
    return told


async def test_shards_of_which_one_is_evicted_give_the_table_of_the_whole(things: list[Object], tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("data", "runs", "settings")}
    for folder in folders.values():
        folder.mkdir()
    data = Data(folders["data"])
    data.make(COUNT, missing=(5,))
    places = dict(zip(("/data", "/runs", "/etc/editjudge"), folders.values(), strict=True))
    run, mark = containers(pod(things, "run-first"))
    words = [*run["command"], *run["args"]]

    def shard(index: int) -> list[str]:
        return move_paths(words, places, SHARD=str(index))

    server = Hanging()
    async with server.serving() as url:
        settings = setting(things, "run-first", "editjudge.toml")
        own = re.sub(r'url = "http://judges-vllm-judge[^"]*"', f'url = "{url}"', settings)
        assert own != settings
        (folders["settings"] / "editjudge.toml").write_text(own)

        server.hanging = True
        begun = folders["runs"] / "first" / "0"
        with process(*shard(0)[1:]) as first:
            await until(lambda: server.seen > ANSWERED and bool(data.verdicts(begun)))
            first.send_signal(signal.SIGTERM)
            evicted = await await_end(first)
        server.hanging = False
        assert evicted.code == 130, evicted.err
        kept = data.verdicts(begun)
        assert kept
        whole = [word for word in shard(0) if not word.startswith(("--out=", "--shard="))]
        commands = [*map(shard, range(SHARDS)), [*whole, f"--out={tmp_path / 'whole'}"]]
        done = [await run_in_thread(*words[1:]) for words in commands]
    assert [one.code for one in done] == [0, 0, 0], [one.err for one in done]
    assert kept.items() <= data.verdicts(begun).items()
    marks = [move_paths(mark["command"], places, SHARD=str(index)) for index in range(SHARDS)]
    subprocess.run(marks[0], check=True)
    asked, *steps = containers(pod(things, "merge-first"))
    program, *words = move_paths(asked["command"], places)
    early = chart.run_tool(str(shutil.which(program)), *words)
    assert early.returncode
    assert marks[1][1] in early.stderr
    assert marks[0][1] not in early.stderr
    subprocess.run(marks[1], check=True)
    subprocess.run(move_paths(asked["command"], places), check=True)
    merged = await asyncio.to_thread(here_in, steps, places)
    table = await run_in_thread("summary", tmp_path / "whole")
    assert f"({COUNT - 1}/{COUNT})" in table.out
    assert merged == table.out
    (whole_of_shards,) = (folders["runs"] / "first").glob("whole-*")
    assert data.verdicts(whole_of_shards) == data.verdicts(tmp_path / "whole")
    runs = (whole_of_shards, tmp_path / "whole")
    told = [(await run_in_thread("summary", one, "--json")).json for one in runs]
    assert json.dumps(told[0]["columns"]) == json.dumps(told[1]["columns"])


def here_in(steps: list[Any], places: dict[str, Path]) -> str:
    """What containers print, one after the other; the last one's."""
    for each in steps:
        told = run_in_process(*move_paths(each["command"], places)[1:])
        assert told.code == 0, told.err
    return told.out


def test_a_run_on_ray_has_the_command_that_two_shells_leave() -> None:
    """That of the submitter, and that of the head: `ray job submit` hands on what it is given."""

    def shell(script: str) -> list[str]:
        return subprocess.run(
            ["/bin/bash", "-c", script], capture_output=True, text=True, check=True
        ).stdout.splitlines()

    (job,) = select_kinds(render_parts(OPTIONS["run on Ray"]), "RayJob")
    handed_on = shell(f"printf '%s\\n' {job['spec']['entrypoint']}")
    program, name, *words = shell(f"printf '%s\\n' {subprocess.list2cmdline(handed_on)}")
    assert (program, name) == ("editjudge", "run")
    assert set(OPTIONS["run on Ray"]["runs.far"]["arguments"]) < set(words)
    # Three pods of two whole processors.
    assert words[-2:] == ["--ray=auto", "--workers=1-6"]
    flags = {name for one in (*root.commands[name].params, *root.params) for name in one.opts}
    assert {word.partition("=")[0] for word in words[1:]} <= flags


def test_a_run_on_ray_says_the_version_of_its_image_and_fields_that_kuberay_has() -> None:
    (job,) = select_kinds(render_parts(OPTIONS["run on Ray"]), "RayJob")
    lock = (chart.CHART.parent / "images" / "locks" / "judge.txt").read_text()
    version = re.search(r"^ray==(\S+)", lock, re.MULTILINE)
    assert version is not None
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == version[1]
    del job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["name"]
    job["spec"]["entryPoint"] = "editjudge"
    field, pod = chart.check_schemas([job]).wrong
    assert "entryPoint" in field
    assert "name" in pod


def test_another_number_of_shards_is_written_by_a_job() -> None:
    again = PARTS["run"] | {"merge": {"into": "second", "shards": 3}}
    things = render_parts(OPTIONS["vllm"], {"runs.first": again})
    (step,) = containers(pod(things, "merge-first"))
    folders = [f"/runs/first/{shard}" for shard in range(again["shards"])]
    words = ["editjudge", "merge", *folders, "--out=/runs/second", "--shards=3"]
    assert step["command"] == words
