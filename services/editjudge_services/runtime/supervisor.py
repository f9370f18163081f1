"""The supervisor, the background process of `editjudge up`: it runs the servers of the stack.

It holds the lock of the stack while it runs and writes the addresses of the servers into the state
file. It restarts a server on the same ports if the server ends or loses one of its models.
"""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from filelock import Timeout

from editjudge.base.config import StackSettings
from editjudge.base.errors import ConfigError, EditjudgeError, MissingExtra, StackError
from editjudge.base.local_stack import (
    LocalJudge,
    StackState,
    private,
    private_state_dir,
    running_stack,
    stack_lock,
    state_dir,
    state_file,
)
from editjudge.base.output_files import write_file

from ..front.local import check_front, make_local_front
from ..front.server import EnvoyServer
from .gateway_server import READY_SECONDS, GatewayServer, check_gateway
from .process import Server
from .restarts import keep_running
from .triton_server import TritonServer, has_serve_extra
from .vllm_server import VllmServer, check_model, check_packages, list_packages

_OWN_STOP_SECONDS = 10.0
"""The time that the supervisor needs to end in addition to the stop times of its servers."""


def up(
    settings: StackSettings,
    vllm_python: Path | None = None,
    config: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> StackState:
    """Start the local stack in the background and wait until it is ready.

    Args:
        vllm_python: The Python interpreter of an environment with vLLM; required for a judge.
        config: The settings file of the Judge service; by default that of the current folder.
        report: Gets a line for each model that Triton has loaded.

    Raises:
        ConfigError: the settings start no server, vLLM is missing, or the folder has no model.
        StackError: a stack is running already (the message has its address), or a server fails.
        MissingExtra: the packages of the stack are not installed.
    """
    _check_settings(settings, vllm_python)
    if (running := running_stack()) is not None:
        where = " and ".join(running.urls)
        raise StackError(f"a local stack runs already at {where}", "editjudge down ends it")
    output = private_state_dir() / "supervisor.log"
    with open(output, "wb", opener=private) as stream:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            [
                *(sys.executable, "-m", __name__, settings.model_dump_json()),
                *(str(vllm_python or ""), str(config.absolute() if config else "")),
            ],
            stdout=stream,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=0o077,
        )
    try:
        return _wait_until_ready(process, output, settings, report)
    except BaseException:  # also on Ctrl-C: `down` finds no stack without a state file
        process.terminate()
        raise


def _wait_until_ready(
    process: subprocess.Popen[bytes], output: Path, settings: StackSettings, report: Callable[[str], None] | None
) -> StackState:
    patience = settings.startup_timeout if settings.triton else 0.0
    if settings.judge:
        patience = max(patience, settings.judge_timeout)
    patience += READY_SECONDS if settings.gateway else 0.0
    start, count = time.time(), 0
    end = time.monotonic() + patience + 10
    while time.monotonic() < end:
        if report is not None:
            lines = read_loaded(output.with_name("triton.log"), start)[count:]
            count += len(lines)
            for line in lines:
                report(line)
        if (state := running_stack()) is not None and state.pid == process.pid:
            return state
        if process.poll() is not None:
            lines = output.read_text(errors="replace").strip().splitlines()
            raise StackError(lines[-1] if lines else f"the supervisor ended, see {output}")
        time.sleep(0.05)
    raise StackError(f"the local stack is not ready in time, see {output}")


def read_loaded(log: Path, since: float = 0.0) -> list[str]:
    """A line for each model that Triton says it has loaded, in that order.

    Args:
        since: A log that was last written before this time is of an earlier stack.
    """
    if not log.is_file() or log.stat().st_mtime < since:
        return []
    text = log.read_text(errors="replace")
    total, names = text.count('"loading: '), re.findall(r"successfully loaded '(\w+)'", text)
    return [f"{name} is loaded ({index} of {total})" for index, name in enumerate(names, 1)]


def _check_settings(settings: StackSettings, vllm_python: Path | None) -> None:
    """Check settings and packages before the supervisor starts, so that the user sees errors."""
    if not settings.triton and settings.judge is None:
        raise ConfigError("there is nothing to start", "give --judge, or leave Triton on")
    if settings.triton and not has_serve_extra():
        raise MissingExtra("the local stack", "serve")
    if settings.gateway and not settings.triton:
        raise ConfigError("the Judge service judges with Triton's models", "leave Triton on")
    if settings.gateway:
        check_gateway()
    if settings.front:
        check_front(settings)
    if settings.judge is not None:
        python = _require_python(vllm_python)
        check_model(settings.judge.expanduser().resolve())
        check_packages(python, settings.judge_protocol, list_packages(python))


def _require_python(vllm_python: Path | None) -> Path:
    if vllm_python is None:
        raise ConfigError(
            "no Python with vLLM is known",
            "set vllm_python (EDITJUDGE_VLLM_PYTHON) to the Python of an environment with vLLM",
        )
    return vllm_python.expanduser().absolute()


def down() -> StackState | None:
    """Stop the local stack and free its ports; return its last state, None if none ran."""
    state = running_stack()
    if state is None:
        return None
    os.kill(state.pid, signal.SIGTERM)
    try:
        with stack_lock().acquire(timeout=state.stop_seconds):
            pass
    except Timeout:
        # Servers have their own process groups; the kernel kills them when the supervisor dies.
        os.killpg(state.pid, signal.SIGKILL)
    state_file().unlink(missing_ok=True)
    return state


def supervise(settings: StackSettings, vllm_python: Path | None = None, config: Path | None = None) -> None:
    """Run the local stack in this process until SIGTERM or SIGINT.

    Raises:
        StackError: another supervisor holds the lock, or a server does not start or ends too
            often.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        lock = stack_lock().acquire(timeout=0)
    except Timeout:
        raise StackError("another local stack is starting or running") from None
    with lock:
        stack = _Stack(settings, vllm_python, config)
        try:
            stack.start(stopping)
            started_at = time.time()

            def write_state() -> None:
                write_file(state_file(), stack.state(started_at).model_dump_json().encode())

            write_state()
            # Clients of Triton and vLLM do not need the Judge service.
            dispensable = [stack.gateway] if stack.gateway else []
            keep_running(stack.servers, stopping, write_state, dispensable)
        finally:
            stack.stop()
            state_file().unlink(missing_ok=True)


_LOGS = ("triton.log", "vllm.log", "judge.log", "front.log", "front-calls.jsonl")


class _Stack:
    """The servers of a local stack, as the settings select them."""

    def __init__(self, settings: StackSettings, vllm_python: Path | None, config: Path | None) -> None:
        self._settings = settings
        self._folder = state_dir()
        for name in (*_LOGS, state_file().name):
            (self._folder / name).unlink(missing_ok=True)
        self.triton = TritonServer(self._folder / "triton.log", settings)
        self.vllm: VllmServer | None = None
        self.gateway: GatewayServer | None = None
        self.front: EnvoyServer | None = None
        self.servers: list[Server] = []
        if settings.judge is not None:
            python = _require_python(vllm_python)
            self.vllm = VllmServer(self._folder / "vllm.log", python, settings)
        if settings.gateway:
            self.gateway = GatewayServer(self._folder / "judge.log", settings, config)

    def start(self, stopping: threading.Event) -> None:
        """Start all servers and wait until they are ready."""
        # vLLM takes much longer than Triton, so it is started first and awaited last.
        if self.vllm is not None:
            self.servers.append(self.vllm)
            self.vllm.spawn()
        if self._settings.triton:
            self.servers.append(self.triton)
            self.triton.start(stopping)
        if self.vllm is not None:
            self.vllm.wait_until_ready(stopping)
        triton = self.triton.url if self._settings.triton else ""
        vllm = self.vllm.url if self.vllm else ""
        if self.gateway is not None:
            self.gateway.set_backends(triton, vllm)
            self.servers.append(self.gateway)
            self.gateway.start(stopping)
        if self._settings.front:
            gateway = self.gateway.state if self.gateway else None
            self.front = make_local_front(self._settings, triton, vllm, gateway)
            self.servers.append(self.front)
            self.front.start(stopping)

    def stop(self) -> None:
        """Stop all servers, the front door first, so that requests in flight can finish."""
        for server in reversed(self.servers):
            server.stop()

    def state(self, started_at: float) -> StackState:
        """Return the state for the state file: processes, addresses and logs of the servers."""
        triton, vllm = self.triton, self.vllm
        has_triton = self._settings.triton
        judge = None
        if vllm is not None:
            judge = LocalJudge(pid=vllm.pid, url=vllm.url, model=vllm.served_name, log=vllm.log)
        return StackState(
            pid=os.getpid(),
            grpc=triton.url if has_triton else "",
            http=triton.http_url if has_triton else "",
            metrics=triton.metrics_url if has_triton else "",
            log=triton.log if has_triton else self._folder / "supervisor.log",
            started=started_at,
            judge=judge,
            gateway=None if self.gateway is None else self.gateway.state,
            front=None if self.front is None else self.front.state,
            unloaded=dict(triton.unloaded_models) if has_triton else {},
            stop_seconds=_OWN_STOP_SECONDS + sum(each.stop_seconds for each in self.servers),
        )


def main() -> None:
    """Run the supervisor; `sys.argv` has settings as JSON, vLLM's Python and a settings file."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        python, config = (Path(text) if text else None for text in sys.argv[2:])
        supervise(StackSettings.model_validate_json(sys.argv[1]), python, config)
    except EditjudgeError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
