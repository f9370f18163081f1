"""The server itself: overload, crashes, TLS, headers, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import struct
import sysconfig
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import trustme
from tritonclient.grpc import service_pb2, service_pb2_grpc

from editjudge.base import errors
from editjudge.base.config import Endpoint, Secret, Settings, StackSettings
from editjudge.base.identity import ServiceName
from editjudge.base.probes import probe_inputs
from editjudge.panel import Panel
from editjudge.panel.context import DEFAULT_TERMS
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.triton import TritonEndpoint
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.quality.qinsight_service import QInsight
from editjudge_services.runtime import triton_server
from editjudge_services.runtime.repository import render_config
from editjudge_services.runtime.triton_server import TritonServer, find_libpython, temporary_stack

from ..fakes.fault_proxy import FaultProxy
from ..fakes.openai import ScriptedOpenAi, problem, reply
from ..patience import patience, wait_until

pytestmark = pytest.mark.triton

SLOW_MODEL = """
import time
import numpy as np
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime.adaptor import serve


class Slow(Piqe):
    def infer(self, batch):
        if any(one.tensors["IMAGE"].shape[0] == 13 for one in batch):
            raise ArithmeticError("thirteen rows")
        time.sleep(SECONDS)
        return [{"SCORE": np.array([len(batch) / 100], np.float32)} for _ in batch]


TritonPythonModel = serve(Slow)
"""


ABSENT = "raise RuntimeError('weights are absent')"


def model(folder: Path, code: str, **declared: Any) -> None:
    """A model of a repository."""
    kind = type("Named", (Piqe,), declared)
    place = folder / "repo" / kind.name
    (place / "1").mkdir(parents=True)
    (place / "config.pbtxt").write_text(render_config(kind))
    (place / "1" / "model.py").write_text(code)


def server_of(folder: Path, extra: tuple[str, ...] = ()) -> TritonServer:
    settings = StackSettings(startup_timeout=patience(120))
    server = TritonServer(folder / "triton.log", settings, repository=folder / "repo")
    server.extra = extra
    return server


@contextmanager
def serving(
    folder: Path, *, seconds: float = 0.0, extra: tuple[str, ...] = (), **declared: Any
) -> Iterator[TritonServer]:
    """A real Triton with one slow model under the name of a known service."""
    model(folder, SLOW_MODEL.replace("SECONDS", str(seconds)), **declared)
    server = server_of(folder, extra)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def panel_of(server: TritonServer, told: Mapping[str, Any] = {}, **settings: Any) -> Panel:
    """With more of the endpoint, if any."""
    endpoint = Endpoint(**{"url": server.url, "services": ("quality.piqe",), **told})
    return Panel(Settings(endpoints={"local": endpoint}, **{"patience": 0, **settings}))


async def ask(panel: Panel) -> Any:
    return await panel.call("quality.piqe", probe_inputs("quality"))


async def at_once(server: TritonServer, calls: int) -> list[Any]:
    """Calls side by side; a panel would find out how much the server takes, these know no limit."""
    async with TritonEndpoint(Endpoint(url=server.url), RetryPolicy(attempts=1)) as triton:
        asked = ServiceName("quality", "piqe"), probe_inputs("quality"), {}, DEFAULT_TERMS
        return await asyncio.gather(*(triton.infer(*asked) for _ in range(calls)), return_exceptions=True)


async def test_overload_is_rejected_and_not_queued_for_ever(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=0.3, max_batch=1, max_queue=2) as server:
        answers = await at_once(server, 12)
        rejected = [a for a in answers if isinstance(a, errors.Overload)]
        answered = [a for a in answers if isinstance(a, dict)]
        assert len(rejected) + len(answered) == 12
        assert len(answered) >= 2
        assert len(rejected) >= 6
        async with panel_of(server, attempts=20, retry_wait=0.1) as panel:
            assert all(isinstance(a, dict) for a in await asyncio.gather(*(ask(panel) for _ in range(8))))


async def test_waiting_requests_are_batched(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=0.2, max_batch=4) as server:
        answers = await at_once(server, 9)
    sizes = {round(float(a["SCORE"][0]) * 100) for a in answers}
    assert max(sizes) == 4


async def test_one_request_that_breaks_the_model_fails_alone(tmp_path: Path) -> None:
    from editjudge.base.images import load_image

    broken = load_image(np.full((13, 13, 3), 1, np.uint8)).encoded_bytes
    with serving(tmp_path, seconds=0.2, max_batch=4) as server:
        async with panel_of(server) as panel:
            calls = [panel.call("quality.piqe", {"IMAGE": broken}), *(ask(panel) for _ in range(5))]
            first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, errors.ServiceError)
    assert not first.retryable
    assert "ArithmeticError: thirteen rows" in str(first)
    assert all(isinstance(other, dict) for other in others)


async def test_a_server_killed_in_mid_call_is_an_error_and_no_hang(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=30) as server:
        async with panel_of(server, attempts=2, deadline=20) as panel:
            call = asyncio.create_task(ask(panel))
            await asyncio.sleep(0.5)
            os.kill(server.pid, signal.SIGKILL)
            # One that it took, and two that did not reach it any more.
            with pytest.raises(errors.Unreachable, match="after 3 attempts"):
                await call


async def test_tls_with_a_client_certificate_and_headers(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name, identity in (("server", "127.0.0.1"), ("client", "judge@example.org")):
        issued = authority.issue_cert(identity)
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
    (tmp_path / "token").write_text("open-sesame\n")
    extra = (
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={tmp_path}/server.pem",
        f"--grpc-server-key={tmp_path}/server.key",
        f"--grpc-root-cert={tmp_path}/ca.pem",
        "--grpc-restricted-protocol=inference:token=open-sesame",
    )
    headers = {"triton-grpc-protocol-token": Secret(file=tmp_path / "token")}
    client = {"cert_file": tmp_path / "client.pem", "key_file": tmp_path / "client.key"}
    with serving(tmp_path, extra=extra) as server:
        url = server.url.replace("grpc://", "grpcs://")
        whole = {"url": url, "ca_file": tmp_path / "ca.pem", **client, "headers": headers}

        def change_panel(**told: Any) -> Panel:
            return panel_of(server, {**whole, **told}, probe_timeout=3, attempts=1)

        async with change_panel() as panel:
            assert panel.problems == {}
            assert "SCORE" in await ask(panel)
        async with change_panel(headers={}) as panel:
            with pytest.raises(errors.ServiceError, match="restricted"):
                await ask(panel)
        for without in ({"cert_file": None, "key_file": None}, {"ca_file": None}):
            async with change_panel(**without) as panel:
                assert list(panel.problems) == [url]
                with pytest.raises(errors.NoModel):
                    await ask(panel)
        async with change_panel(url=server.url) as panel:
            assert list(panel.problems) == [server.url]


async def test_old_connections_are_left_and_a_server_that_ends_says_so(tmp_path: Path) -> None:
    """Calls go on while connections are made anew; one that is refused at the end went nowhere."""
    with serving(tmp_path, seconds=1.0, extra=("--grpc-max-connection-age=200",)) as server:
        proxy = FaultProxy(server.url)
        async with proxy.serving() as url:
            endpoint = Endpoint(url=url)
            async with TritonEndpoint(endpoint, RetryPolicy(attempts=1)) as triton:

                async def infer() -> Any:
                    piqe = ServiceName("quality", "piqe")
                    return await triton.infer(piqe, probe_inputs("quality"), {}, DEFAULT_TERMS)

                for _ in range(4):
                    assert "SCORE" in await infer(), "a call is longer than its connection is old"
                assert proxy.accepted >= 4
                last = asyncio.create_task(infer())
                await asyncio.sleep(0.3)
                os.kill(server.pid, signal.SIGTERM)
                await asyncio.sleep(0.2)
                words = "stopping|not at ready state|no available versions"
                with pytest.raises(errors.NoConnection, match=words):
                    await infer()
                assert "SCORE" in await last


def test_without_any_model_there_is_no_server(tmp_path: Path) -> None:
    model(tmp_path, ABSENT)
    server = server_of(tmp_path)
    with pytest.raises(errors.StackError, match="quality_piqe: RuntimeError: weights are absent; see"):
        server.start()
    assert not server.is_healthy()


async def test_a_model_that_cannot_load_costs_itself_and_is_named(tmp_path: Path) -> None:
    model(tmp_path, ABSENT, name="ocr_ppocr")
    with serving(tmp_path) as server:
        assert server.unloaded_models == {"ocr_ppocr": "RuntimeError: weights are absent"}
        async with panel_of(server) as panel:
            assert "SCORE" in await ask(panel)
        wait_until(server.is_running, 5)  # what ended by itself is not waited for
        os.kill(_python_models(server)[0], signal.SIGKILL)
        wait_until(lambda: not server.is_healthy())
        assert set(server.unloaded_models) == {"ocr_ppocr", "quality_piqe"}


def _python_models(server: TritonServer) -> list[int]:
    children = Path(f"/proc/{server.pid}/task").glob("*/children")
    return [int(pid) for one in children for pid in one.read_text().split()]


def test_nobody_else_reads_along(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        regions = [one for one in triton_server._SHARED_MEMORY.glob("editjudge-triton-*")
                   if one.name.startswith(server.region)]  # fmt: skip
        assert regions
        assert {stat.S_IMODE(one.stat().st_mode) for one in regions} == {0o600}
        for path in (
            "systemsharedmemory/status", "cudasharedmemory/status", "trace/setting", "logging",
            "models/stats", "models/quality_piqe/config",
        ):  # fmt: skip
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(f"{server.http_url}/v2/{path}")  # noqa: S310 - our own server
        stub_of = service_pb2_grpc.GRPCInferenceServiceStub
        with grpc.insecure_channel(server.url.removeprefix("grpc://")) as channel:
            for method in (
                "SystemSharedMemoryStatus", "CudaSharedMemoryStatus", "TraceSetting",
                "LogSettings", "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad",
            ):  # fmt: skip
                request = getattr(service_pb2, f"{method}Request")()
                with pytest.raises(grpc.RpcError, match="restricted"):
                    getattr(stub_of(channel), method)(request)


def test_what_is_started_for_a_while_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path / "state"))
    settings = StackSettings(models=("quality_piqe",), startup_timeout=patience(120))
    with temporary_stack(settings) as server:
        assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
        url, pid = server.url, server.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: server.pid not in {0, pid} and server.is_healthy(), 40)
        wait_until(lambda: asyncio.run(has_answer(server)), 40)
        pid = server.pid
        os.kill(_python_models(server)[0], signal.SIGKILL)  # Triton says it is ready all the same
        wait_until(lambda: server.pid not in {0, pid} and server.is_healthy(), 40)
        wait_until(lambda: asyncio.run(has_answer(server)), 40)
        assert server.url == url
        pid = server.pid
    assert not Path(f"/proc/{pid}").exists()
    assert not list((tmp_path / "state").glob("triton-*.log"))


async def has_answer(server: TritonServer) -> bool:
    async with panel_of(server) as panel:
        try:
            return "SCORE" in await ask(panel)
        except errors.ServiceError:
            return False


async def test_pictures_that_trip_the_decoder_cost_their_neighbours_nothing(tmp_path: Path) -> None:
    head = struct.pack(">IIBBBBB", 1, 1, 8, 3, 0, 0, 0)
    without_palette = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b""))
    )
    with serving(tmp_path, seconds=0.05) as server:
        async with panel_of(server) as panel:
            bad = [panel.call("quality.piqe", {"IMAGE": without_palette}) for _ in range(6)]
            good = [ask(panel) for _ in range(30)]
            first = [call for pair in zip(good, bad, strict=False) for call in pair]
            answers = await asyncio.gather(*first, *good[6:], return_exceptions=True)
    refused = [one for one in answers if isinstance(one, errors.Rejection)]
    assert len(refused) == 6
    assert "damaged or truncated" in str(refused[0])
    assert sum(isinstance(one, dict) for one in answers) == 30


def test_a_taken_port_is_named() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = TritonServer(Path("triton.log"), StackSettings(grpc_port=port))
        with pytest.raises(errors.StackError, match=f"port {port} is taken"):
            server.start()


def test_a_missing_libpython_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {"LIBDIR": "/nowhere"}
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: nowhere.get(name, ""))
    monkeypatch.setattr(triton_server.sys, "base_prefix", "/nowhere")
    monkeypatch.setattr(triton_server.ctypes.util, "find_library", lambda name: None)
    told = r"libpython3\.\d+\.so.* apt-get install libpython3"
    with pytest.raises(errors.StackError, match=told) as caught:
        find_libpython()
    assert "\n" not in str(caught.value)


QINSIGHT_MODEL = """
import hashlib
from editjudge_services.quality import qinsight_service
from editjudge_services.runtime.adaptor import serve

# Stand-ins for the authors' prompts, which are not ours to ship.
kind = qinsight_service.QInsight
kind.prompts = {name: hashlib.sha256(name.encode()).hexdigest() for name in kind.prompts}
TritonPythonModel = serve(qinsight_service.QInsight)
"""


async def test_a_language_model_behind_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = reply('<answer>{"rating": 4.0}</answer>')
    scripted = ScriptedOpenAi(good, reply("no idea"), problem(500, "scripted"), owner="vllm")
    for name in QInsight.prompts:
        (tmp_path / name).write_text(name)
    model = tmp_path / "repo" / "quality_qinsight"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(render_config(QInsight))
    (model / "1" / "model.py").write_text(QINSIGHT_MODEL)
    async with scripted.serving() as url:
        monkeypatch.setenv("EDITJUDGE_QINSIGHT_URL", url)
        monkeypatch.setenv("EDITJUDGE_QINSIGHT_MODEL", "judge")
        monkeypatch.setenv("EDITJUDGE_QINSIGHT_PROMPTS", str(tmp_path))
        server = TritonServer(tmp_path / "triton.log", repository=tmp_path / "repo")
        await asyncio.to_thread(server.start)
        try:
            endpoint = Endpoint(url=server.url, services=("quality.qinsight",))
            async with Panel(Settings(endpoints={"local": endpoint}, attempts=1, patience=0)) as panel:
                image = probe_inputs("quality")
                assert (await panel.call("quality.qinsight", image))["SCORE"].tolist() == [0.75]
                with pytest.raises(errors.Abstention, match="0 answers") as abstained:
                    await panel.call("quality.qinsight", image)
                assert abstained.value.kind == "unparsable"
                with pytest.raises(errors.Unreachable, match="500"):
                    await panel.call("quality.qinsight", image)
        finally:
            server.stop()
