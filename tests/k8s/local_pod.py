"""A group of Triton servers as the chart has it, on loopback: init container, server, probe."""

from __future__ import annotations

import json
import os
import py_compile
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from editjudge_services.runtime import triton_server
from editjudge_services.runtime.process import fetch, reserve_ports

from ..patience import patience, wait_until
from . import rules
from .chart import Object

OWN = Path(sys.executable).parent
"""The programs of the environment that tests run in."""


@dataclass(frozen=True)
class Pod:
    """A pod whose server runs.

    Attributes:
        spec: What the chart says of it.
        folder: What stands in the place of its file system.
        programs: The folder of its programs.
        variables: Its environment.
        ports: Of HTTP, gRPC and metrics.
    """

    spec: Any
    folder: Path
    programs: Path
    variables: Mapping[str, str]
    ports: Sequence[int]

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.ports[1]}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def ready(self) -> set[str]:
        """The models that are ready."""
        told = fetch(f"http://127.0.0.1:{self.ports[0]}/v2/repository/index", b"") or b"[]"
        return {each["name"] for each in json.loads(told) if each.get("state") == "READY"}

    @property
    def measured_models(self) -> set[str]:
        """The models of which its metrics tell requests: also those that are being loaded."""
        told = (fetch(f"http://127.0.0.1:{self.ports[2]}/metrics") or b"").decode()
        return set(re.findall(r'^nv_inference_request_success{model="(\w+)"', told, re.MULTILINE))

    def localise(self, words: Sequence[str]) -> list[str]:
        """A command of its containers, with the paths and ports that it has here."""
        places = {
            "/run/editjudge": self.folder / "run",
            "/etc/editjudge": self.folder,
            "//127.0.0.1:8000": f"//127.0.0.1:{self.ports[0]}",
            **{f"-port={own}": f"-port={port}" for own, port in zip((8000, 8001, 8002), self.ports, strict=True)},
        }
        for own, place in places.items():
            words = [word.replace(own, str(place)) for word in words]
        return list(words)

    def run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        program, *rest = self.localise(words)
        return subprocess.run(
            [self.programs / program, *rest],
            capture_output=True,
            text=True,
            check=False,
            env=self.variables,
            cwd=self.folder,
        )

    def health(self) -> subprocess.CompletedProcess[str]:
        """Its probe, of start and of life."""
        (server,) = self.spec["containers"]
        assert server["startupProbe"]["exec"] == server["livenessProbe"]["exec"]
        return self.run(server["livenessProbe"]["exec"]["command"])


def make_pod(
    things: Sequence[Object], group: str, folder: Path, variables: Mapping[str, str] = os.environ, programs: Path = OWN
) -> Pod:
    """The pod of a group once its init container is done."""
    spec = rules.pod(things, group)
    (folder / "models.json").write_text(rules.setting(things, group, "models.json"))
    (folder / "run").mkdir()
    libraries = [triton_server._pytriton().parent / "nvidia_pytriton.libs"]
    libraries += [found for found in [triton_server.find_libpython()] if found]
    own = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
    }
    pod = Pod(spec, folder, programs, {**variables, **own}, reserve_ports((0, 0, 0)))
    done = pod.run(spec["initContainers"][0]["command"])
    assert done.returncode == 0, done.stderr
    # Nobody writes into the code of an image; here the backend would, and Triton load it again.
    for code in (folder / "run" / "models").glob("*/1"):
        text = (code / "model.py").read_text()
        code.unlink()
        code.mkdir()
        (code / "model.py").write_text(text)
        py_compile.compile(str(code / "model.py"))
    return pod


@contextmanager
def serving(pod: Pod) -> Iterator[Pod]:
    """Its server, from the first success of its probe until the block is left."""
    package = triton_server._pytriton()
    backends = triton_server._link_backends(package, pod.folder / "runtime")
    with (pod.folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                package / "tritonserver" / "bin" / "tritonserver",
                *pod.localise(pod.spec["containers"][0]["args"]),
                f"--backend-directory={backends}",
                *(f"--{which}-address=127.0.0.1" for which in ("http", "grpc", "metrics")),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=pod.variables,
            cwd=pod.folder,
        )
    try:
        wait_until(lambda: server.poll() is not None or pod.health().returncode == 0, 120, pause=0.5)
        assert server.poll() is None, pod.log[-2000:]
        yield pod
        server.terminate()
        assert server.wait(patience(60)) == 0
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
