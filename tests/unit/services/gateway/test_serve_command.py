"""`editjudge serve`: what is refused before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from editjudge.cli import main
from editjudge_services.gateway.calls import lock_folder


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """A cache that another service has."""
    with lock_folder(tmp_path / "busy"):
        yield tmp_path / "busy"


WRONG = {
    "a port that is none": (("--address", "127.0.0.1:99999"), "write it as HOST:PORT"),
    "no port": (("--address", "127.0.0.1"), "write it as HOST:PORT"),
    "no port of JSON": (("--http-address", "x:y"), "write it as HOST:PORT"),
    "days of no calendar": (("--keep-days", "1e9"), "is not in the range 0<=x<=36500"),
    "a cache that is busy": (("--cache", "{busy}"), "another Judge service"),
    "an audit that cannot be written": (("--audit", "{busy}"), "Is a directory"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_served_is_told_before_services_start(
    busy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    def starts(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("services are started")

    monkeypatch.setattr("editjudge_services.cli.serve.provide_services", starts)
    flags, told = WRONG[case]
    with pytest.raises(SystemExit) as ended:
        main(["serve", *(flag.format(busy=busy) for flag in flags)])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("judge", [True, False])
def test_whoever_names_a_judge_gets_no_local_stack(monkeypatch: pytest.MonkeyPatch, judge: bool) -> None:
    starts: list[bool] = []

    def provide(*_: Any, roles: tuple[str, ...], **__: Any) -> NoReturn:
        starts.append(bool(roles))
        raise SystemExit(0)

    monkeypatch.setattr("editjudge_services.cli.serve.provide_services", provide)
    with pytest.raises(SystemExit):
        main(["serve", *(["--judge", "http://127.0.0.1:1/v1"] if judge else [])])
    assert starts == [not judge]
