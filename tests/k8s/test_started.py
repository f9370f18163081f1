"""The chart's own commands, on loopback: the real Triton with what the chart says of it."""

from __future__ import annotations

import os
import py_compile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from editjudge.app.doctor import check_services, load_panel_file
from editjudge.base.config import Endpoint, Settings
from editjudge.base.identity import ServiceName

from ..patience import wait_until
from .chart import Object, render_parts
from .local_pod import Pod, make_pod, serving
from .rules import setting

pytestmark = pytest.mark.triton
PIQE = ServiceName.parse("quality.piqe")
SERVED = {"ocr_ppocr": {}, "quality_piqe": {"instances": 2, "device": "cpu"}}
BROKEN = """
from pathlib import Path
if not Path({mended!r}).exists():
    raise ImportError("no torch here")
"""


@pytest.fixture(scope="module")
def things() -> list[Object]:
    return render_parts({"triton.servers.small.models": SERVED})


@pytest.fixture(scope="module")
def pod(things: list[Object], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """One of its models cannot be imported until there is a file `mended`."""
    folder = tmp_path_factory.mktemp("pod")
    pod = make_pod(things, "triton-small", folder)
    polls = pod.spec["containers"][0]["args"]
    polls[:] = [word.replace("poll-secs=60", "poll-secs=5") for word in polls]
    code = folder / "run" / "models" / "ocr_ppocr" / "1" / "model.py"
    broken = BROKEN.format(mended=str(folder / "mended"))
    code.write_text(broken + code.read_text())
    py_compile.compile(str(code))
    with serving(pod):
        yield pod


async def run_doctor(pod: Pod, things: list[Object], **facts: str) -> dict[str, str]:
    """What `doctor --expect` says, where PIQE is expected to have further facts."""
    file = pod.folder / "panel.json"
    file.write_text(setting(things, "panel", "panel.json"))
    expected = load_panel_file(file)
    assert set(expected) == {"ocr.ppocr", "quality.piqe"}
    assert expected[PIQE]["device"] == "cpu"
    settings = Settings(endpoints={"small": Endpoint(url=pod.url)})
    findings = await check_services(settings, {**expected, PIQE: {**expected[PIQE], **facts}})
    return {str(one.service): one.problem for one in findings}


async def test_a_model_that_does_not_load_costs_itself_until_it_does(pod: Pod, things: list[Object]) -> None:
    with grpc.insecure_channel(pod.url.removeprefix("grpc://")) as channel:
        said = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert said.status == health_pb2.HealthCheckResponse.SERVING
    # What the alert EditjudgeModelMissing counts, what doctor says, and the log.
    wait_until(lambda: pod.measured_models == {"quality_piqe"})
    told = await run_doctor(pod, things)
    assert told["quality.piqe"] == ""
    assert told["ocr.ppocr"]
    assert "failed to load 'ocr_ppocr'" in pod.log
    assert "no torch here" in pod.log
    (pod.folder / "mended").touch()
    wait_until(lambda: pod.ready == pod.measured_models == SERVED.keys(), 60)
    assert pod.health().returncode == 0
    assert await run_doctor(pod, things) == {"ocr.ppocr": "", "quality.piqe": ""}
    # What was right all the time was loaded once.
    assert pod.log.count("successfully loaded 'quality_piqe'") == 1


async def test_doctor_finds_the_panel_that_the_chart_expects(pod: Pod, things: list[Object]) -> None:
    (pod.folder / "mended").touch()
    wait_until(lambda: pod.ready == SERVED.keys(), 60)
    told = await run_doctor(pod, things, device="gpu", implementation="piqe.0")
    assert told["ocr.ppocr"] == ""
    assert "implementation piqe.0 is expected, and piqe.1 is served" in told["quality.piqe"]
    assert "device gpu is expected, and cpu is served" in told["quality.piqe"]


def test_it_is_not_alive_once_a_model_has_lost_a_process(pod: Pod) -> None:
    first = pod.health()
    assert first.returncode == 0, first.stderr
    lost = next(
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if f"{pod.folder}/run/models/quality_piqe/1/model.py" in _command(process)
    )
    os.kill(lost, 9)
    wait_until(lambda: pod.health().returncode == 1, pause=0.5)
    assert "no process any more: quality_piqe" in pod.health().stderr


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
