"""Thin clients of several teams, through the real door to the Judge service before real Triton."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from editjudge_services.runtime.triton_server import TritonServer

from ..contract.test_gateway import read_verdicts, run_to_error
from ..e2e.conftest import await_run
from ..golden.cases import CASES
from ..golden.run_lines import run_verb
from ..judge_service import teams_of
from .door import Door, open_judging_door

pytestmark = pytest.mark.triton

ASKED = ("--dimension", "core.psnr.*", "--dimension", "core.quality.piqe")


def thin(door: Door, team: str, token: str) -> Path:
    """The settings file of a team's client."""
    folder = door.folder / f"client of {team}"
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(token)
    path = folder / "editjudge.toml"
    path.write_text(
        f'[gateway]\nurl = "{door.server.url}"\nca_file = "{door.authority.certificate}"\n'
        f'api_key = {{ file = "{folder / "token"}" }}\n'
    )
    return path


async def test_teams_judge_side_by_side_and_get_what_direct_calls_give(triton: TritonServer, tmp_path: Path) -> None:
    """One of them hits its limit of calls, and waits."""
    case = next(case for case in CASES if case.name == "core")
    arguments = [*case.arguments(tmp_path), *ASKED, "--limit", 5]
    teams = ("vision", "audio", "busy")
    async with open_judging_door(triton, tmp_path / "door") as (door, served):
        files = {team: thin(door, team, door.token(team)) for team in teams}
        # Whoever knows the key that was made last knows the others too.
        await door.answers(door.token("last"), grpc.StatusCode.OK)
        ended = await asyncio.gather(
            *(await_run("run", *arguments, "--out", tmp_path / t, "--config", files[t]) for t in teams)
        )
        assert [done.code for done in ended] == [0, 0, 0], ended
        assert teams_of(served.service) == set(teams)
        code, found = await asyncio.to_thread(run_verb, "doctor", "--config", files["vision"], "--json")
        assert (code, found[0]["team"]) == (0, "vision")
        limited = [call["team"] for call in door.read_calls() if "rate_limited" in str(call["why"])]
        assert set(limited) == {"busy"}
    direct = tmp_path / "direct"
    assert (await await_run("run", *arguments, "--out", direct, "--endpoint", triton.url)).code == 0
    for team in teams:
        assert read_verdicts(tmp_path / team) == read_verdicts(direct)


async def test_a_token_that_is_not_taken_is_one_line(triton: TritonServer, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "core")
    arguments = [*case.arguments(tmp_path), *ASKED, "--out", tmp_path / "run"]
    async with open_judging_door(triton, tmp_path / "door") as (door, served):
        expired = thin(door, "vision", door.make_expired_token("vision"))
        code, said = await run_to_error("run", *arguments, "--config", expired)
        assert code == 2
        assert "the token has expired" in said
        assert "editjudge doctor --gateway" in said
        assert not teams_of(served.service)
