"""The chart's own commands, on loopback: the real Triton with what the chart says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from editjudge.app.doctor import check_services, load_panel_file
from editjudge.base.config import Endpoint, Settings
from editjudge.base.identity import ServiceName
from editjudge_services.runtime import triton_server
from editjudge_services.runtime.process import fetch, reserve_ports

from ..patience import patience, wait_until
from . import chart, rules
from .chart import based
from .rules import setting

pytestmark = pytest.mark.triton
PIQE = ServiceName.parse("quality.piqe")
SERVED = {"ocr_ppocr": {}, "quality_piqe": {"instances": 2, "device": "cpu"}}
FOLDER = "/run/editjudge/models"


def ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    module = ("-m", "editjudge") if command[0] == "editjudge" else ()
    return chart.ran(sys.executable, *module, *command[1:])


@pytest.fixture(scope="module")
def pod() -> Any:
    things = based({"triton.servers.small.models": SERVED})
    table = setting(things, "triton-small", "models.json")
    return rules.pod(things, "triton-small"), table, setting(things, "panel", "panel.json")


@pytest.fixture(scope="module")
def started(pod: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[int]]]:
    """The server of the pod; its folder of models and its ports."""
    spec, table, _ = pod
    folder = tmp_path_factory.mktemp("pod")
    (folder / "models.json").write_text(table)
    repository = folder / "models"
    moved = {
        "/etc/editjudge/models.json": str(folder / "models.json"),
        FOLDER: str(repository),
    }
    made = ran([moved.get(word, word) for word in spec["initContainers"][0]["command"]])
    assert made.returncode == 0, made.stderr
    free = reserve_ports((0, 0, 0))
    arguments = [
        argument.replace(FOLDER, str(repository)) for argument in spec["containers"][0]["args"]
    ]
    for own, port in zip((8000, 8001, 8002), free, strict=True):
        arguments = [argument.replace(f"-port={own}", f"-port={port}") for argument in arguments]
    package = triton_server._pytriton()
    backends = triton_server._link_backends(package, folder / "runtime")
    libraries = [package.parent / "nvidia_pytriton.libs", triton_server.find_libpython()]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                package / "tritonserver" / "bin" / "tritonserver",
                *arguments,
                f"--backend-directory={backends}",
                *(f"--{which}-address=127.0.0.1" for which in ("http", "grpc", "metrics")),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "LD_LIBRARY_PATH": os.pathsep.join(str(each) for each in libraries if each),
            },
        )
    try:
        probe = spec["containers"][0]["startupProbe"]["httpGet"]["path"]
        wait_until(
            lambda: (
                server.poll() is not None or fetch(f"http://127.0.0.1:{free[0]}{probe}") is not None
            ),
            60,
        )
        assert server.poll() is None, (folder / "log").read_text()[-2000:]
        yield repository, free
        server.terminate()
        assert server.wait(patience(60)) == 0
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def alive(pod: Any, repository: Path) -> subprocess.CompletedProcess[str]:
    command = pod[0]["containers"][0]["livenessProbe"]["exec"]["command"]
    return ran([str(repository) if word == FOLDER else word for word in command])


def test_its_models_are_ready_and_its_health_is_told(
    started: tuple[Path, list[int]],
) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{started[1][1]}") as channel:
        said = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert said.status == health_pb2.HealthCheckResponse.SERVING
    metrics = fetch(f"http://127.0.0.1:{started[1][2]}/metrics") or b""
    for model in SERVED:
        assert f'model="{model}"'.encode() in metrics


async def test_doctor_finds_the_panel_that_the_chart_expects(
    pod: Any, started: tuple[Path, list[int]]
) -> None:
    url = f"grpc://127.0.0.1:{started[1][1]}"
    settings = Settings(endpoints={"small": Endpoint(url=url)})
    file = started[0].parent / "panel.json"
    file.write_text(pod[2])
    expected = load_panel_file(file)
    assert set(expected) == {"ocr.ppocr", "quality.piqe"}
    assert expected[PIQE]["device"] == "cpu"
    assert [one.problem for one in await check_services(settings, expected)] == ["", ""]
    other = {**expected, PIQE: {**expected[PIQE], "device": "gpu", "implementation": "piqe.0"}}
    told = {one.service: one.problem for one in await check_services(settings, other)}
    assert told["ocr.ppocr"] == ""
    assert "implementation piqe.0 is expected, and piqe.1 is served" in told["quality.piqe"]
    assert "device gpu is expected, and cpu is served" in told["quality.piqe"]


def test_it_is_not_alive_once_a_model_has_lost_a_process(
    pod: Any, started: tuple[Path, list[int]]
) -> None:
    repository, _ = started
    first = alive(pod, repository)
    assert first.returncode == 0, first.stderr
    lost = next(
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if f"{repository}/quality_piqe/1/model.py" in _command(process)
    )
    os.kill(lost, 9)
    wait_until(lambda: alive(pod, repository).returncode == 1)
    assert "no process any more: quality_piqe" in alive(pod, repository).stderr


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
