"""What the images install for a CPU, run in empty environments as the Dockerfiles have it; and what
the images start. What Triton's images serve is in `test_values.py`.

Not here: the layers that bring CUDA (`locks/*.cuda.txt`), which are resolved only, and the bases.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from editjudge_services.runtime.process import fetch as fetch_url
from editjudge_services.runtime.process import reserve_ports

from ..patience import patience, wait_until
from .layers import Layer

pytestmark = pytest.mark.timeout(1500)  # the environments are made first


@contextmanager
def running(command: Sequence[str | Path], ready: str, log: Path, env: Mapping[str, str]) -> Iterator[None]:
    """A server of an image until the test is over; it has to end by itself when it is told to."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=log.parent, env=env, stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or fetch_url(ready) is not None, 60)
        assert process.poll() is None, log.read_text()
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience(60)) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_the_judge_service_starts_and_is_healthy(judge: Layer, tmp_path: Path) -> None:
    judge.check_parts()
    grpc, http = reserve_ports((0, 0))
    command = [judge.program("editjudge"), "serve", f"--address=127.0.0.1:{grpc}"]
    command += [f"--http-address=127.0.0.1:{http}", "--notice=0", "--drain=1"]
    variables = judge.variables({"EDITJUDGE_STATE_DIR": str(tmp_path / "state")})
    with running(command, f"http://127.0.0.1:{http}/health", tmp_path / "log", variables):
        told = json.loads(fetch_url(f"http://127.0.0.1:{http}/v1/dimensions") or b"[]")
    served = {one["id"] for one in told if one["served"]}
    assert "core.ssim.source.whole" in served


def test_the_judge_image_has_envoy(judge: Layer) -> None:
    code = "from editjudge_services.front.render import find_envoy; print(find_envoy())"
    envoy = judge.print_of("python", "-c", code).strip()
    assert "1.40.0" in judge.print_of(envoy, "--version")
    assert "front door" in judge.print_of("editjudge", "front", "serve", "--help")


ASKED = """
from editjudge.base.images import decode
from editjudge.base.probes import probe_inputs, wrong_answer
from editjudge_services.ocr.ppocr_service import PpOcr
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime.specialist import Request
import numpy

for kind in (Piqe, PpOcr):
    model = kind()
    model.load({})
    role = kind.name.partition("_")[0]
    picture, _ = decode(probe_inputs(role)["IMAGE"])
    (reply,) = model.infer([Request({"IMAGE": picture})])
    reply = {name: v.encode() if isinstance(v, str) else v for name, v in reply.items()}
    wrong = wrong_answer(kind.name.replace("_", ".", 1), reply, kind.identity)
    assert wrong is None, wrong
print(numpy.__version__)
"""


def test_the_models_of_the_triton_image_are_right_on_numpy_2(triton: Layer) -> None:
    triton.check_parts()
    assert triton.print_of("python", "-c", ASKED).strip().startswith("2.")


def test_every_model_imports_in_the_triton_image(triton: Layer) -> None:
    code = (
        "import runpy; from editjudge_services.runtime import repository as r;"
        "models = r.find_model_repository().glob('*/1/model.py');"
        "[runpy.run_path(str(model))['TritonPythonModel'] for model in models]"
    )
    triton.print_of("python", "-c", code)


def test_what_fetches_weights_starts(fetch: Layer, tmp_path: Path) -> None:
    models = {"EDITJUDGE_MODELS_DIR": str(tmp_path)}
    assert "dinov2-small" in fetch.print_of("editjudge", "models", "list", **models)
    assert "--revision" in fetch.print_of("hf", "download", "--help")
    assert "--fail-on-missing-files" in fetch.print_of("hf", "cache", "verify", "--help")
    assert list((fetch.packages / "lpips").rglob("alex.pth"))
