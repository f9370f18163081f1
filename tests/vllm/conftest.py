"""Real vLLM servers on tiny checkpoints, two or three at a time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from editjudge.base.config import JudgeEndpoint, StackSettings
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.transport import Transport
from editjudge.panel.vllm import VllmTransport
from editjudge_services.runtime.vllm_server import Protocol, VllmServer

from ..patience import patience
from .checkpoints import MAKERS

HERE = Path(__file__).parent
PYTHON = Path(os.environ.get("EDITJUDGE_VLLM_PYTHON") or HERE.parents[1] / ".venv-vllm/bin/python").absolute()
POLICY = RetryPolicy(attempts=3, deadline=60.0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        # Two servers start within the first test that uses them.
        item.add_marker(pytest.mark.timeout(400))
        if not PYTHON.is_file():
            item.add_marker(pytest.mark.skip(reason=f"no vLLM at {PYTHON}: make test-vllm"))


@dataclass(frozen=True)
class Pair:
    """The same checkpoint behind both transports."""

    folder: Path
    servers: dict[Protocol, VllmServer]

    def endpoint(self, protocol: Protocol) -> JudgeEndpoint:
        return JudgeEndpoint(url=self.servers[protocol].url, model=self.folder.name)

    def transport(self, protocol: Protocol, policy: RetryPolicy = POLICY) -> Transport:
        kind = OpenAiTransport if protocol == "http" else VllmTransport
        return kind(self.endpoint(protocol), policy)


@contextmanager
def serving(
    folders: dict[str, Path], work: Path, *arguments: str, protocol: Protocol = "http"
) -> Iterator[dict[str, VllmServer]]:
    """Servers that start side by side, by the names of their folders."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        # By default every server binds its only thread to the first core.
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        patch.setenv("OMP_NUM_THREADS", "1")
        servers = {}
        for name, folder in folders.items():
            log = work / f"{name}-{protocol}.log"
            settings = StackSettings(
                judge=folder, judge_protocol=protocol, judge_args=arguments, judge_timeout=patience(300)
            )
            servers[name] = VllmServer(log, PYTHON, settings)
            stack.callback(servers[name].stop)
            servers[name].spawn()
        yield servers


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: make(folder) for name, make in MAKERS.items()}


@pytest.fixture(scope="session", params=["whole", "split"])
def pair(
    request: pytest.FixtureRequest, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """A float32 Qwen3-VL over HTTP and gRPC."""
    name: str = request.param
    folders = {name: checkpoints[name]}
    work = tmp_path_factory.mktemp("logs")
    flags = ("--dtype=float32",)
    with serving(folders, work, *flags) as http, serving(folders, work, *flags, protocol="grpc") as grpc:
        found: dict[Protocol, VllmServer] = {"http": http[name], "grpc": grpc[name]}
        for server in found.values():
            server.wait_until_ready()
        yield Pair(checkpoints[name], found)


@pytest.fixture(params=["http", "grpc"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    given: Protocol = request.param
    return given


@pytest.fixture
async def transport(pair: Pair, protocol: Protocol) -> AsyncIterator[Transport]:
    async with pair.transport(protocol) as opened:
        await opened.identify(30)
        yield opened
