"""The local stack as the thin client sees it: is one running, and where?

The supervisor holds a lock beside the state file for as long as it lives, so a state
left behind by a crash is told from a running stack without trusting process ids.
"""

import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict, ValidationError


class _Part(BaseModel):
    """What the supervisor writes; a client of another release ignores what it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LocalJudge(_Part):
    """The vLLM of a local stack.

    Attributes:
        pid: Of its process and process group.
        url: `http://127.0.0.1:port/v1`, or `grpc://127.0.0.1:port`.
        model: The name it serves the model under.
        log: Its log file.
    """

    pid: int
    url: str
    model: str
    log: Path


class LocalGateway(_Part):
    """The Judge service of a local stack.

    Attributes:
        pid: Of its process.
        url: `grpc://127.0.0.1:port`.
        http: The same as JSON over HTTP, `http://127.0.0.1:port`.
        log: Its log file.
        problem: Why it is away, while it is tried again; empty where it runs.
    """

    pid: int
    url: str
    http: str
    log: Path
    problem: str = ""


class LocalFront(_Part):
    """The front door of a local stack.

    Attributes:
        url: `grpcs://host:port`, for callers elsewhere.
        ca: The authority that callers trust (PEM).
        metrics: Its Prometheus metrics.
        log: Its log file.
        calls: Where its calls are written, one line of JSON each.
    """

    url: str
    ca: Path
    metrics: str
    log: Path
    calls: Path = Path(os.devnull)


class StackState(_Part):
    """The state of a local stack, as its supervisor writes it.

    Attributes:
        pid: Of the supervisor.
        grpc: Address for the client, `grpc://127.0.0.1:port`; "" without Triton, like the
            other two.
        http: Triton's HTTP address: health and models.
        metrics: Prometheus metrics of Triton.
        log: Triton's log file, or the supervisor's own.
        started: Seconds since the epoch.
        judge: The vLLM of `editjudge up --judge`; None without it.
        gateway: The Judge service of `editjudge up --gateway`; None without it.
        front: Of `editjudge up --front`; None without it.
        unloaded: Models that could not be loaded or were lost repeatedly, with the reason.
        stop_seconds: The most seconds that stopping takes, calls in flight included.
    """

    pid: int
    grpc: str
    http: str
    metrics: str
    log: Path
    started: float
    judge: LocalJudge | None = None
    gateway: LocalGateway | None = None
    front: LocalFront | None = None
    unloaded: dict[str, str] = {}
    stop_seconds: float = 40.0

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses for clients: Triton's, then vLLM's."""
        vllm = self.judge.url if self.judge else ""
        return tuple(filter(None, (self.grpc, vllm)))


def state_dir() -> Path:
    """Where the local stack keeps its state: `EDITJUDGE_STATE_DIR`, or the user's."""
    folder = os.environ.get("EDITJUDGE_STATE_DIR")
    return Path(folder) if folder else user_state_path("editjudge")


def private_state_dir() -> Path:
    """Create `state_dir()`, readable by its owner alone; a folder of the user's keeps its mode."""
    folder = state_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if "EDITJUDGE_STATE_DIR" not in os.environ:
        folder.chmod(0o700)  # what an earlier version made is open to all
    return folder


def private(path: str, flags: int) -> int:
    """An `opener` of files that only their owner can read, for logs."""
    return os.open(path, flags, 0o600)


def state_file() -> Path:
    """The file of the local stack's state; valid only while another process holds `stack_lock`."""
    return state_dir() / "stack.json"


def stack_lock() -> FileLock:
    """The lock that the supervisor of the local stack holds while it runs."""
    return FileLock(state_dir() / "stack.lock")


def running_stack() -> StackState | None:
    """The running local stack, or None."""
    if not state_file().is_file():
        return None
    try:
        with stack_lock().acquire(timeout=0):
            return None
    except Timeout:
        with suppress(OSError, ValidationError):
            return StackState.model_validate_json(state_file().read_bytes())
    except OSError:
        pass
    return None
