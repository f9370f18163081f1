"""The background process of `editjudge up`: keeps one Triton server alive.

It holds the stack's lock while it lives, writes where the server is, and starts the
server again, on the same ports, should it end.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from filelock import Timeout

from editjudge.config import StackSettings
from editjudge.errors import EditjudgeError, MissingExtra, StackError
from editjudge.local import StackState, running_stack, stack_lock, state_dir, state_file

from .launcher import TritonServer, serve_extra_installed

log = logging.getLogger(__name__)
_MAX_RESTARTS = 5
_HEALTHY_SECONDS = 60.0


def up(settings: StackSettings) -> StackState:
    """Start the local stack in the background and wait until it is ready.

    Raises:
        StackError: one runs already (the message has its address), or it does not start.
        MissingExtra: its packages are not installed.
    """
    if not serve_extra_installed():
        raise MissingExtra("the local stack", "serve")
    if (running := running_stack()) is not None:
        raise StackError(f"a local stack runs already at {running.grpc}", "editjudge down ends it")
    folder = state_dir()
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "supervisor.log"
    with output.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            [sys.executable, "-m", __name__, settings.model_dump_json()],
            stdout=stream,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    end = time.monotonic() + settings.startup_timeout + 10
    while time.monotonic() < end:
        if (state := running_stack()) is not None and state.pid == process.pid:
            return state
        if process.poll() is not None:
            lines = output.read_text(errors="replace").strip().splitlines()
            raise StackError(lines[-1] if lines else "the supervisor ended without a word")
        time.sleep(0.05)
    process.terminate()
    raise StackError(f"the local stack is not ready in time, see {output}")


def down() -> StackState | None:
    """End the local stack and free its ports; None where none runs."""
    state = running_stack()
    if state is None:
        return None
    os.kill(state.pid, signal.SIGTERM)
    try:
        with stack_lock().acquire(timeout=20):
            pass
    except Timeout:
        # It leads its own process group: whatever it started goes with it.
        os.killpg(state.pid, signal.SIGKILL)
    state_file().unlink(missing_ok=True)
    return state


def supervise(settings: StackSettings) -> None:
    """Run the stack until SIGTERM.

    Raises:
        StackError: another supervisor holds the lock, or the server does not start.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        lock = stack_lock().acquire(timeout=0)
    except Timeout:
        raise StackError("another local stack is starting or running") from None
    with lock:
        triton_log = state_dir() / "triton.log"
        triton_log.unlink(missing_ok=True)
        state_file().unlink(missing_ok=True)
        server = TritonServer(triton_log, settings)
        try:
            server.start()
            _write(_state(server, triton_log))
            _keep_alive(server, stopping)
        finally:
            server.stop()
            state_file().unlink(missing_ok=True)


def _keep_alive(server: TritonServer, stopping: threading.Event) -> None:
    restarts = 0
    since = time.monotonic()
    while not stopping.wait(0.5):
        if server.alive():
            continue
        if time.monotonic() - since > _HEALTHY_SECONDS:
            restarts = 0
        restarts += 1
        if restarts > _MAX_RESTARTS:
            raise StackError(f"tritonserver ended {restarts} times in a row, see {server.log}")
        log.warning("tritonserver ended; starting it again (%d)", restarts)
        server.stop()
        server.start()
        since = time.monotonic()


def _state(server: TritonServer, triton_log: Path) -> StackState:
    return StackState(
        pid=os.getpid(),
        grpc=server.url,
        http=server.http_url,
        metrics=server.metrics_url,
        log=triton_log,
        started=time.time(),
    )


def _write(state: StackState) -> None:
    """Whole or not at all: a reader never sees half a state."""
    partial = state_file().with_suffix(".partial")
    partial.write_text(state.model_dump_json())
    partial.replace(state_file())


def main() -> None:
    """Entry of the background process: the settings are its only argument."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        supervise(StackSettings.model_validate_json(sys.argv[1]))
    except EditjudgeError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
