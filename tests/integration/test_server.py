"""The server itself: overload, crashes, TLS, headers, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from editjudge.base.config import Endpoint, Secret, Settings, StackSettings
from editjudge.base.errors import (
    Abstained,
    NotServed,
    Overloaded,
    ServiceError,
    StackError,
    Unreachable,
)
from editjudge.base.probes import probe_inputs
from editjudge.panel import SERVICES, Panel, model_name
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.triton import TritonEndpoint
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.quality.qinsight_service import PROMPTS, QInsight
from editjudge_services.runtime import launcher
from editjudge_services.runtime.launcher import TritonServer, libpython_folder
from editjudge_services.runtime.repository import config_text

from ..fakes.vllm import ScriptedVllm, choice
from ..patience import patience, wait_until

pytestmark = pytest.mark.triton

SLOW_MODEL = """
import time
import numpy as np
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime.triton import serve


class Slow(Piqe):
    def infer(self, batch):
        if any(one.tensors["IMAGE"].shape[0] == 13 for one in batch):
            raise ArithmeticError("thirteen rows")
        time.sleep(SECONDS)
        return [{"SCORE": np.array([len(batch) / 100], np.float32)} for _ in batch]


TritonPythonModel = serve(Slow)
"""


@contextmanager
def serving(
    folder: Path, *, seconds: float = 0.0, extra: tuple[str, ...] = (), **declared: Any
) -> Iterator[TritonServer]:
    """A real Triton with one slow model under the name of a known service."""
    kind = type("Slow", (Piqe,), declared)
    model = folder / "repo" / "quality_piqe"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(config_text(kind))
    (model / "1" / "model.py").write_text(SLOW_MODEL.replace("SECONDS", str(seconds)))
    settings = StackSettings(startup_timeout=patience(120))
    server = TritonServer(folder / "triton.log", settings, repository=folder / "repo", extra=extra)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def panel_of(server: TritonServer, **settings: Any) -> Panel:
    endpoint = Endpoint(url=server.url, services=("quality.piqe",))
    return Panel(Settings(endpoints={"local": endpoint}, **settings))


async def ask(panel: Panel) -> Any:
    return await panel.call("quality.piqe", probe_inputs("quality"))


async def at_once(server: TritonServer, calls: int) -> list[Any]:
    """Calls side by side; a panel would find out how much the server takes, these know no limit."""
    async with TritonEndpoint(Endpoint(url=server.url), RetryPolicy(attempts=1)) as triton:
        service, inputs = "quality.piqe", probe_inputs("quality")
        asked = (SERVICES[service], model_name(service), inputs)
        return await asyncio.gather(
            *(triton.infer(*asked, service=service) for _ in range(calls)), return_exceptions=True
        )


async def test_overload_is_rejected_and_not_queued_for_ever(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=0.3, max_batch=1, max_queue=2) as server:
        answers = await at_once(server, 12)
        rejected = [a for a in answers if isinstance(a, Overloaded)]
        answered = [a for a in answers if isinstance(a, dict)]
        assert len(rejected) + len(answered) == 12
        assert len(answered) >= 2
        assert len(rejected) >= 6
        async with panel_of(server, attempts=20, retry_wait=0.1) as panel:
            assert all(
                isinstance(a, dict) for a in await asyncio.gather(*(ask(panel) for _ in range(8)))
            )


async def test_waiting_requests_are_batched(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=0.2, max_batch=4) as server:
        answers = await at_once(server, 9)
    sizes = {round(float(a["SCORE"][0]) * 100) for a in answers}
    assert max(sizes) == 4


async def test_one_request_that_breaks_the_model_fails_alone(tmp_path: Path) -> None:
    from editjudge.base.images import load_image

    broken = load_image(np.full((13, 13, 3), 1, np.uint8)).encoded
    with serving(tmp_path, seconds=0.2, max_batch=4) as server:
        async with panel_of(server) as panel:
            calls = [panel.call("quality.piqe", {"IMAGE": broken}), *(ask(panel) for _ in range(5))]
            first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, ServiceError)
    assert not first.retryable
    assert "ArithmeticError: thirteen rows" in str(first)
    assert all(isinstance(other, dict) for other in others)


async def test_a_server_killed_in_mid_call_is_an_error_and_no_hang(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=30) as server:
        async with panel_of(server, attempts=2, deadline=20) as panel:
            call = asyncio.create_task(ask(panel))
            await asyncio.sleep(0.5)
            os.kill(server.pid, signal.SIGKILL)
            with pytest.raises(Unreachable, match="after 2 attempts"):
                await call


async def test_tls_with_a_client_certificate_and_headers(tmp_path: Path) -> None:
    authority = trustme.CA()
    files = {
        name: tmp_path / f"{name}.pem" for name in ("ca", "server", "key", "client", "client_key")
    }
    authority.cert_pem.write_to_path(str(files["ca"]))
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.cert_chain_pems[0].write_to_path(str(files["server"]))
    issued.private_key_pem.write_to_path(str(files["key"]))
    client = authority.issue_cert("judge@example.org")
    client.cert_chain_pems[0].write_to_path(str(files["client"]))
    client.private_key_pem.write_to_path(str(files["client_key"]))
    (tmp_path / "token").write_text("open-sesame\n")
    extra = (
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={files['server']}",
        f"--grpc-server-key={files['key']}",
        f"--grpc-root-cert={files['ca']}",
        "--grpc-restricted-protocol=inference:token=open-sesame",
    )
    with serving(tmp_path, extra=extra) as server:
        url = server.url.replace("grpc://", "grpcs://")
        whole = {
            "url": url,
            "services": ("quality.piqe",),
            "ca_file": files["ca"],
            "cert_file": files["client"],
            "key_file": files["client_key"],
            "headers": {"triton-grpc-protocol-token": Secret(file=tmp_path / "token")},
        }
        async with panel_with(whole) as panel:
            assert panel.problems == {}
            assert "SCORE" in await ask(panel)
        async with panel_with({**whole, "headers": {}}) as panel:
            with pytest.raises(ServiceError, match="restricted"):
                await ask(panel)
        for without in ({"cert_file": None, "key_file": None}, {"ca_file": None}):
            async with panel_with({**whole, **without}) as panel:
                assert list(panel.problems) == [url]
                with pytest.raises(NotServed):
                    await ask(panel)
        async with panel_with({**whole, "url": server.url}) as panel:
            assert list(panel.problems) == [server.url]


def panel_with(endpoint: dict[str, Any]) -> Panel:
    settings = Settings(endpoints={"tls": Endpoint(**endpoint)}, probe_timeout=3, attempts=1)
    return Panel(settings)


def test_a_model_that_cannot_load_is_named(tmp_path: Path) -> None:
    model = tmp_path / "repo" / "quality_piqe"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(config_text(Piqe))
    (model / "1" / "model.py").write_text("raise RuntimeError('weights are absent')")
    server = TritonServer(tmp_path / "triton.log", repository=tmp_path / "repo")
    with pytest.raises(StackError, match="tritonserver ended"):
        server.start()
    assert not server.alive()
    log = tmp_path / "triton.log"
    wait_until(lambda: "weights are absent" in log.read_text())


def test_a_taken_port_is_named() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = TritonServer(Path("triton.log"), StackSettings(grpc_port=port))
        with pytest.raises(StackError, match=f"port {port} is taken"):
            server.start()


def test_a_missing_libpython_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sysconfig, "get_config_var", lambda name: "/nowhere" if name == "LIBDIR" else ""
    )
    monkeypatch.setattr(launcher.sys, "base_prefix", "/nowhere")
    monkeypatch.setattr(launcher.ctypes.util, "find_library", lambda name: None)
    with pytest.raises(
        StackError, match=r"libpython3\.\d+\.so.* apt-get install libpython3"
    ) as caught:
        libpython_folder()
    assert "\n" not in str(caught.value)


QINSIGHT_MODEL = """
import hashlib
from editjudge_services.quality import qinsight_service
from editjudge_services.runtime.triton import serve

# Stand-ins for the authors' prompts, which are not ours to ship.
qinsight_service.PROMPTS = {
    name: hashlib.sha256(name.encode()).hexdigest() for name in qinsight_service.PROMPTS
}
TritonPythonModel = serve(qinsight_service.QInsight)
"""


async def test_a_language_model_behind_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [choice('<answer>{"rating": 4.0}</answer>'), choice("no idea"), 500]
    for name in PROMPTS:
        (tmp_path / name).write_text(name)
    model = tmp_path / "repo" / "quality_qinsight"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(config_text(QInsight))
    (model / "1" / "model.py").write_text(QINSIGHT_MODEL)
    with ScriptedVllm(*replies).serving() as url:
        monkeypatch.setenv("EDITJUDGE_QINSIGHT_URL", url)
        monkeypatch.setenv("EDITJUDGE_QINSIGHT_MODEL", "judge")
        monkeypatch.setenv("EDITJUDGE_QINSIGHT_PROMPTS", str(tmp_path))
        server = TritonServer(tmp_path / "triton.log", repository=tmp_path / "repo")
        server.start()
        try:
            endpoint = Endpoint(url=server.url, services=("quality.qinsight",))
            async with Panel(Settings(endpoints={"local": endpoint}, attempts=1)) as panel:
                image = probe_inputs("quality")
                assert (await panel.call("quality.qinsight", image))["SCORE"].tolist() == [0.75]
                with pytest.raises(Abstained, match="0 answers") as abstained:
                    await panel.call("quality.qinsight", image)
                assert abstained.value.kind == "unparsable"
                with pytest.raises(Unreachable, match="500"):
                    await panel.call("quality.qinsight", image)
        finally:
            server.stop()
