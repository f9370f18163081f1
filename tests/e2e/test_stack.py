"""`editjudge up`, `status`, `down`: a background stack that is always cleaned up."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from editjudge_services.runtime.process import reserve_ports

from ..patience import wait_until
from .conftest import Command, process

pytestmark = pytest.mark.triton


@pytest.fixture
def one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not about the models starts with one: it is there sooner."""
    monkeypatch.setenv("EDITJUDGE_STACK__MODELS", '["quality_piqe"]')


@pytest.fixture
def up(command: Command) -> Iterator[dict[str, Any]]:
    ran = command("up", "--json")
    assert ran.code == 0, ran.err
    yield ran.json
    command("down")


def is_open(address: str) -> bool:
    port = urlsplit(address).port
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def processes(name: str, parent: int | None = None) -> list[int]:
    """Those with a name in their command lines, of a parent or any."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it ended meanwhile
            of = parent is None or f"\nPPid:\t{parent}\n" in status.read_text()
            if of and name in status.with_name("cmdline").read_text(errors="replace"):
                found.append(int(status.parent.name))
    return found


def triton_pid(supervisor: int) -> int:
    """0 while there is none."""
    return next(iter(processes("tritonserver", supervisor)), 0)


def test_up_status_down(command: Command, up: dict[str, Any]) -> None:
    status = command("status", "--json")
    assert status.code == 0
    assert status.json["grpc"] == up["grpc"]
    assert set(status.json["services"]) == {"quality.piqe", "ocr.ppocr"}
    assert "running for" in command("status").out

    second = command("up")
    assert second.code == 1
    assert up["grpc"] in second.err

    assert "right" in command("doctor").out

    assert command("down").code == 0
    assert not any(is_open(up[name]) for name in ("grpc", "http", "metrics"))
    assert command("status").code == 1
    assert command("down").out.strip() == "no local stack is running"


@pytest.mark.usefixtures("one_model")
def test_what_dies_is_started_again_at_the_same_address(command: Command, up: dict[str, Any]) -> None:
    server = triton_pid(up["pid"])
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: command("doctor").code == 0, 40)
    assert command("status", "--json").json["grpc"] == up["grpc"]
    again = triton_pid(up["pid"])
    assert again != server

    model, *_ = processes("triton_python_backend_stub", again)
    os.kill(model, signal.SIGKILL)
    wait_until(lambda: triton_pid(up["pid"]) not in {0, again}, 40)
    wait_until(lambda: command("doctor").code == 0, 40)
    assert command("status", "--json").json["grpc"] == up["grpc"]


@pytest.mark.usefixtures("one_model")
def test_a_killed_supervisor_takes_the_server_with_it(command: Command, up: dict[str, Any]) -> None:
    os.kill(up["pid"], signal.SIGKILL)
    wait_until(lambda: not is_open(up["grpc"]))
    assert command("status").code == 1
    again = command("up", "--json")
    assert again.code == 0, again.err
    assert again.json["pid"] != up["pid"]


@pytest.mark.usefixtures("one_model")
def test_a_hanging_server_is_ended_all_the_same(command: Command, up: dict[str, Any]) -> None:
    os.kill(triton_pid(up["pid"]), signal.SIGSTOP)
    assert command("down").code == 0
    assert not is_open(up["grpc"])


def test_a_stack_with_fixed_ports_and_one_model(command: Command, tmp_path: Path) -> None:
    (port,) = reserve_ports([0])
    config = tmp_path / "my.toml"
    config.write_text(f'[stack]\ngrpc_port = {port}\nmodels = ["quality_piqe"]\n')
    try:
        ran = command("up", "--json", "--config", config)
        assert ran.json["grpc"] == f"grpc://127.0.0.1:{port}"
        assert set(command("status", "--json").json["services"]) == {"quality.piqe"}
        assert command("doctor").code == 0
        wants = tmp_path / "wants.toml"
        endpoint = f'url = "grpc://127.0.0.1:{port}"\nservices = ["ocr.ppocr"]\n'
        wants.write_text(f"[endpoints.here]\n{endpoint}")
        doctor = command("doctor", "--config", wants)
        assert doctor.code == 1
        assert "load the model ocr_ppocr" in doctor.out
    finally:
        command("down")


def test_a_stack_that_cannot_start_says_why(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = command("up", EDITJUDGE_STACK__GRPC_PORT=str(port))
    assert ran.code == 1
    assert f"port {port} is taken" in ran.err
    assert command("status").code == 1


def test_a_killed_client_leaves_no_server(tmp_path: Path, photo_file: Path) -> None:
    arguments = ["score", "--source", photo_file, "--edited", photo_file, "--instruction", "x"]
    with process(*arguments, TMPDIR=str(tmp_path)) as client:
        wait_until(lambda: triton_pid(client.pid))
        server = triton_pid(client.pid)
        # Of Python models whose server was started in this folder.
        stub = f"{tmp_path}/"
        wait_until(lambda: len(processes(stub)) >= 2)
        client.kill()
    wait_until(lambda: not Path(f"/proc/{server}").exists())
    wait_until(lambda: not processes(stub))
