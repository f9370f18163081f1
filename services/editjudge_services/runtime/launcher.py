"""Starting the real `tritonserver` of the nvidia-pytriton wheel, on loopback.

Nothing is written into site-packages: the python backend and the stub for this Python
are linked into a runtime folder of ours.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from editjudge.base.config import StackSettings
from editjudge.base.errors import MissingExtra, StackError
from editjudge.base.local import state_dir

from .repository import materialise

_PR_SET_PDEATHSIG = 1
_STOP_SECONDS = 10.0
_LOOPBACK = "127.0.0.1"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps it
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Ports:
    """The three ports of a Triton server, on loopback."""

    grpc: int
    http: int
    metrics: int


class TritonServer:
    """One tritonserver process that lives no longer than the thread that started it.

    Args:
        repository: The model repository; by default every model that is installed.
        log: Where its output goes.
        settings: Ports, models and patience.
        extra: Further command-line arguments.
    """

    def __init__(
        self,
        log: Path,
        settings: StackSettings | None = None,
        *,
        repository: Path | None = None,
        extra: Sequence[str] = (),
    ) -> None:
        self.log = log
        self._settings = settings or StackSettings()
        self._repository = repository
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None
        self._runtime: tempfile.TemporaryDirectory[str] | None = None
        self._stubs: tuple[int, ...] = ()
        self.ports = Ports(0, 0, 0)

    @property
    def url(self) -> str:
        """The gRPC address."""
        return f"grpc://{_LOOPBACK}:{self.ports.grpc}"

    @property
    def http_url(self) -> str:
        """The HTTP address: health and models."""
        return f"http://{_LOOPBACK}:{self.ports.http}"

    @property
    def metrics_url(self) -> str:
        """The Prometheus metrics."""
        return f"http://{_LOOPBACK}:{self.ports.metrics}/metrics"

    @property
    def pid(self) -> int:
        """Of the tritonserver process; 0 when there is none."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start it and wait until every model is ready.

        Raises:
            MissingExtra: nvidia-pytriton is not installed.
            StackError: it cannot start here, ended by itself, or is not ready in time.
        """
        self.ports = self.ports if self.ports.grpc else _ports(self._settings)
        self._runtime = tempfile.TemporaryDirectory(prefix="editjudge-triton-")
        try:
            self._spawn(Path(self._runtime.name))
            self._wait_until_ready()
            self._stubs = tuple(_stubs(self._runtime.name))
        except BaseException:  # also on Ctrl-C: no server may outlive the attempt
            self.stop()
            raise

    def alive(self) -> bool:
        """Whether it runs, with every Python model that it loaded.

        Triton ends one that crashed or gave no sign of life for a second, answers "not healthy"
        for it from then on, says that it is ready, and does not start it again.
        """
        if self._runtime is None or not self.running():
            return False
        return all(_is_stub(pid, self._runtime.name) for pid in self._stubs)

    def running(self) -> bool:
        """Whether its process runs, be it without one of its models."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it: politely, then by force. Safe to call twice."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        self._stubs = ()
        if self._runtime is not None:
            _end_stubs(self._runtime.name)
            for region in _SHARED_MEMORY.glob(f"{Path(self._runtime.name).name}*"):
                region.unlink(missing_ok=True)
            self._runtime.cleanup()
            self._runtime = None

    def _spawn(self, runtime: Path) -> None:
        command, environment = self._command(runtime)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no threads of ours hold locks
            )

    def _command(self, runtime: Path) -> tuple[list[str], dict[str, str]]:
        pytriton = _pytriton()
        backends = _link_backends(pytriton, runtime)
        repository = self._repository or runtime / "models"
        if self._repository is None:
            materialise(repository, self._settings.precision)
        models = [f"--load-model={model}" for model in self._settings.models]
        command = [
            str(pytriton / "tritonserver" / "bin" / "tritonserver"),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            f"--grpc-address={_LOOPBACK}",
            f"--http-address={_LOOPBACK}",
            f"--metrics-address={_LOOPBACK}",
            f"--grpc-port={self.ports.grpc}",
            f"--http-port={self.ports.http}",
            f"--metrics-port={self.ports.metrics}",
            "--disable-auto-complete-config",
            "--exit-timeout-secs=5",
            # The local stack has no GPU metrics to give and polls for them in vain.
            "--allow-gpu-metrics=false",
            # Named, so that what a killed server leaves in shared memory can be removed.
            f"--backend-config=python,shm-region-prefix-name={runtime.name}",
            *(["--model-control-mode=explicit"] if models else []),
            *models,
            *self._extra,
        ]
        libraries = [pytriton.parent / "nvidia_pytriton.libs", libpython_folder()]
        path = os.environ.get("LD_LIBRARY_PATH")
        environment = {
            **os.environ,
            # The stub finds its site-packages through the first python3 on PATH.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "LD_LIBRARY_PATH": os.pathsep.join([str(p) for p in libraries if p] + [path or ""]),
        }
        return command, environment

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + self._settings.startup_timeout
        while time.monotonic() < end:
            if not self.alive():
                raise StackError(f"tritonserver ended: {_last_error(self.log)}", f"see {self.log}")
            if _answers(f"{self.http_url}/v2/health/ready"):
                return
            time.sleep(0.05)
        waited = f"{self._settings.startup_timeout:g} s"
        raise StackError(
            f"tritonserver is not ready after {waited}: {_last_error(self.log)}", f"see {self.log}"
        )


@contextmanager
def temporary_stack(settings: StackSettings | None = None) -> Iterator[TritonServer]:
    """A Triton server for the duration of a block.

    Raises:
        StackError: it cannot start; the log's last error is in the message.
    """
    log = state_dir() / f"triton-{os.getpid()}.log"
    server = TritonServer(log, settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        # Where it did not start, the log stays: the error names it.
        log.unlink(missing_ok=True)


def startable_stack(settings: StackSettings) -> AbstractContextManager[TritonServer] | None:
    """A temporary stack that is still to be started; None where its packages are not installed."""
    return temporary_stack(settings) if serve_extra_installed() else None


def serve_extra_installed() -> bool:
    """Whether the packages of the local stack are installed."""
    return all(find_spec(name) is not None for name in ("pytriton", "onnxruntime", "rapidocr"))


def libpython_folder() -> Path | None:
    """The folder of this Python's shared library; None where the loader knows it.

    Raises:
        StackError: the library is not on this machine; says what to install.
    """
    name = sysconfig.get_config_var("INSTSONAME") or ""
    if not name.startswith("libpython") or ".so" not in name:
        name = f"libpython{_PYTHON}.so.1.0"
    folders = (sysconfig.get_config_var("LIBDIR"), Path(sys.base_prefix) / "lib")
    for folder in folders:
        if folder and (Path(folder) / name).is_file():
            return Path(folder)
    if ctypes.util.find_library(f"python{_PYTHON}"):
        return None
    raise StackError(
        f"{name} is not on this machine, and Triton's python backend needs it",
        f"install it (Debian, Ubuntu: apt-get install libpython{_PYTHON}; "
        f"Fedora: dnf install python{_PYTHON}-libs), or use a Python built with --enable-shared",
    )


def _pytriton() -> Path:
    spec = find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise MissingExtra("the local stack", "serve")
    return Path(spec.origin).parent


def _link_backends(pytriton: Path, runtime: Path) -> Path:
    """The python backend with the stub for this Python beside it."""
    stub = pytriton / "tritonserver" / "python_backend_stubs" / _PYTHON
    if not (stub / "triton_python_backend_stub").is_file():
        served = sorted(p.name for p in stub.parent.iterdir())
        raise StackError(
            f"Triton has no stub for Python {_PYTHON}", f"use one of {', '.join(served)}"
        )
    backend = runtime / "backends" / "python"
    backend.mkdir(parents=True)
    originals = [p for p in (pytriton / "tritonserver/backends/python").iterdir() if p.is_file()]
    for original in (*originals, stub / "triton_python_backend_stub"):
        link = backend / original.name
        link.symlink_to(original)
        if original.name.endswith("stub") and not os.access(original, os.X_OK):
            link.unlink()
            shutil.copy(original, link)
            link.chmod(0o755)
    return backend.parent


def _ports(settings: StackSettings) -> Ports:
    """The ports asked for, free ones where none is."""
    chosen = (settings.grpc_port, settings.http_port, settings.metrics_port)
    # Held open together, so that the three are different.
    sockets = [socket.create_server((_LOOPBACK, 0)) for _ in chosen]
    free = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    for port in filter(None, chosen):
        try:
            socket.create_server((_LOOPBACK, port)).close()
        except OSError as error:
            raise StackError(
                f"port {port} is taken", "choose another, or 0 for a free one"
            ) from error
    return Ports(*(port or other for port, other in zip(chosen, free, strict=True)))


def _die_with_parent() -> None:
    """Ask the kernel to end this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as reply:  # noqa: S310 - our own loopback address
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _end_stubs(runtime: str) -> None:
    """Kill what a server has left behind: a Python model that hangs outlives it.

    Args:
        runtime: The server's own folder, which its stubs have on their command lines.
    """
    for pid in _stubs(runtime):
        with suppress(OSError):  # it ended meanwhile
            os.kill(pid, signal.SIGKILL)


def _stubs(runtime: str) -> list[int]:
    """The processes of a server's Python models."""
    pids = (int(process.name) for process in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if _is_stub(pid, runtime)]


def _is_stub(pid: int, runtime: str) -> bool:
    try:
        # Of one that ended and was not waited for, nothing is left.
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return f"{runtime}/backends/".encode() in command.split(b"\0")[0]


def _last_error(log: Path) -> str:
    """The last error that Triton logged, in one line."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    errors = [line for line in lines if re.match(r"E\d{4} ", line) or "error" in line.lower()]
    text = (errors or lines or ["no output"])[-1]
    return re.sub(r"^E\d{4} \S+ \d+ ", "", text).strip().strip('"')
