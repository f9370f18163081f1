"""What the images install for a CPU, run in empty environments as the Dockerfiles have it; and what
the images start.

Not here: the layers that bring CUDA (`locks/*.cuda.txt`), which are resolved only, and the bases.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from editjudge_services.runtime import triton_server
from editjudge_services.runtime.process import fetch as fetch_url
from editjudge_services.runtime.process import reserve_ports

from ..patience import patience, wait_until
from .dockerfile import FOLDER, LOCKS, context, read

SERVED = {"ocr_ppocr": {}, "quality_piqe": {}}


class Layer:
    """The environment of an image, made by the RUN lines of its first stage."""

    def __init__(self, image: str, folder: Path, variant: str = "") -> None:
        self.root = folder
        self._variables = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "VARIANT": variant,
            "PIP_QUIET": "1",
        }
        for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            self._variables.pop(name, None)
        source = folder / "src"
        (source / "locks").mkdir(parents=True)
        for lock in LOCKS.glob("*.txt"):
            (source / "locks" / lock.name).write_bytes(lock.read_bytes())
        context(source)
        (build, _) = read(FOLDER / f"{image}.Dockerfile")[1]
        for line in build.of("RUN"):
            if f"{image}.cuda.txt" in line:
                continue
            here = line.replace("/opt/", f"{folder}/opt/").replace("/dist", f"{folder}/dist")
            done = subprocess.run(
                ["sh", "-ec", here],
                cwd=source,
                env=self._variables,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def program(self, name: str) -> Path:
        return self.root / "opt" / "editjudge" / "bin" / name

    @property
    def packages(self) -> Path:
        (found,) = (self.root / "opt" / "editjudge" / "lib").glob("python3.*/site-packages")
        return found

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {n: v for n, v in self._variables.items() if not n.startswith("EDITJUDGE_")}
        own = self.program("editjudge").parent
        return {**kept, "PATH": f"{own}:/usr/bin:/bin", "HOME": str(self.root), **more}

    def said(self, *command: str, **more: str) -> str:
        """What a command of the image prints, run away from any checkout."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.root / "opt",
            env=self.variables(more),
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def check_parts(self) -> None:
        """The list of parts names what is installed, and nothing is lacking but what has CUDA."""
        listed = json.loads((self.root / "opt" / "editjudge" / "sbom.json").read_text())
        there = {part["name"].lower().replace("_", "-") for part in listed["components"]}
        found = {one.name.split("-")[0].lower().replace("_", "-") for one in self._metadata()}
        assert there == found
        assert "editjudge" in there

    def _metadata(self) -> list[Path]:
        return list(self.packages.glob("*.dist-info"))


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    return Layer("judge", tmp_path_factory.mktemp("judge"))


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    return Layer("triton", tmp_path_factory.mktemp("triton"), "cpu")


@pytest.fixture(scope="module")
def fetch(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    return Layer("fetch", tmp_path_factory.mktemp("fetch"))


@contextmanager
def running(
    command: Sequence[str | Path], ready: str, log: Path, env: Mapping[str, str]
) -> Iterator[None]:
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
    envoy = judge.said("python", "-c", code).strip()
    assert "1.40.0" in judge.said(envoy, "--version")
    assert "front door" in judge.said("editjudge", "front", "serve", "--help")


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
    assert triton.said("python", "-c", ASKED).strip().startswith("2.")


def test_the_models_of_the_triton_image_answer_in_a_real_triton(
    triton: Layer, tmp_path: Path
) -> None:
    """With NumPy 1 laid over the image's: the python backend of Triton 2.51 takes no other."""
    older = tmp_path / "older"
    whole = triton.program("editjudge").parents[1]
    shutil.copytree(whole, older, symlinks=True, copy_function=os.link)
    for part in ("numpy", "numpy.libs"):
        there = older / triton.packages.relative_to(whole) / part
        shutil.rmtree(there)
        there.symlink_to(Path(np.__file__).parents[1] / part)
    table, repository = tmp_path / "models.json", tmp_path / "models"
    table.write_text(json.dumps(SERVED))
    triton.said("editjudge", "models", "repository", str(table), "--out", str(repository))
    package = triton_server._pytriton()
    grpc, http, metrics = reserve_ports((0, 0, 0))
    command = [
        package / "tritonserver" / "bin" / "tritonserver",
        f"--model-repository={repository}",
        f"--backend-directory={triton_server._link_backends(package, tmp_path / 'runtime')}",
        "--disable-auto-complete-config",
        f"--grpc-port={grpc}",
        f"--http-port={http}",
        f"--metrics-port={metrics}",
        *(f"--{which}-address=127.0.0.1" for which in ("http", "grpc", "metrics")),
    ]
    libraries = [package.parent / "nvidia_pytriton.libs", triton_server.find_libpython()]
    found = {"LD_LIBRARY_PATH": ":".join(str(each) for each in libraries if each)}
    found["PATH"] = f"{older / 'bin'}:/usr/bin:/bin"
    ready = f"http://127.0.0.1:{http}/v2/health/ready"
    with running(command, ready, tmp_path / "log", triton.variables(found)):
        endpoint = f"grpc://127.0.0.1:{grpc}"
        said = triton.said("editjudge", "doctor", "--endpoint", endpoint, "--json")
    assert said.count("known answer right") == len(SERVED), said


def test_every_model_imports_in_the_triton_image(triton: Layer) -> None:
    code = (
        "import runpy; from editjudge_services.runtime import repository as r;"
        "models = r.find_model_repository().glob('*/1/model.py');"
        "[runpy.run_path(str(model))['TritonPythonModel'] for model in models]"
    )
    triton.said("python", "-c", code)


def test_what_fetches_weights_starts(fetch: Layer, tmp_path: Path) -> None:
    models = {"EDITJUDGE_MODELS_DIR": str(tmp_path)}
    assert "dinov2-small" in fetch.said("editjudge", "models", "list", **models)
    assert "--revision" in fetch.said("hf", "download", "--help")
    assert "--fail-on-missing-files" in fetch.said("hf", "cache", "verify", "--help")
    assert list((fetch.packages / "lpips").rglob("alex.pth"))  # it imports torch, which is not here
