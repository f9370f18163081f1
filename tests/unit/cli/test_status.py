"""What `editjudge status` says of a stack that is not whole."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from editjudge.base.local_stack import LocalGateway, StackState
from editjudge.cli import main, services


@pytest.mark.parametrize("problem", ["", "port 1 is taken"])
def test_why_the_judge_service_is_away_is_said(
    problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Path("judge.log")
    gateway = LocalGateway(pid=1, url="grpc://a:1", http="http://a:2", log=log, problem=problem)
    state = StackState(
        pid=1, grpc="", http="", metrics="", log=log, started=time.time(), gateway=gateway
    )

    async def nothing() -> tuple[dict[str, str], str]:
        return {}, ""

    monkeypatch.setattr(services, "running_stack", lambda: state)
    monkeypatch.setattr(services, "_find_services", nothing)
    with pytest.raises(SystemExit) as ended:
        main(["status"])
    assert ended.value.code == (1 if problem else 0)
    assert problem in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["status", "--json"])
    assert json.loads(capsys.readouterr().out)["problem"] == (
        f"the Judge service is not running: {problem}" if problem else ""
    )
