"""The `tritonserver` of the nvidia-pytriton wheel, as a local server on loopback.

Nothing is written into site-packages: the python backend and the stub for this Python
are linked into a runtime folder of ours.
"""

import ctypes.util
import json
import logging
import os
import re
import shutil
import signal
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from editjudge.base.config import StackSettings
from editjudge.base.errors import EditjudgeError, MissingExtra, StackError
from editjudge.base.local_stack import private_state_dir
from editjudge.base.text import shorten_list

from .liveness import find_stubs, parse_model
from .process import LOOPBACK, Server, fetch, reserve_ports
from .repository import build_repository, find_installed
from .restarts import keep_running
from .serving import Serving

logger = logging.getLogger(__name__)

_STOP_SECONDS = 10.0
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps it
_CLOSED_APIS = ("shared-memory", "trace", "logging", "statistics")
"""Triton's APIs that nothing here uses, and through which others could read images."""
_CLOSED_GRPC = (*_CLOSED_APIS, "model-repository")
_CLOSED_HTTP = (*_CLOSED_APIS, "inference", "model-config")
_LOCK = "closed=\n"
"""The header and value that would open them. A process's arguments are no secret, so the value is
one that cannot be sent: no header can hold a line break."""
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class TritonServer(Server):
    """One tritonserver process.

    Args:
        repository: A model repository, all of which is served; by default the models of the
            settings, of those that are installed.
        log: Where its output goes.
        settings: Ports, models and patience.

    Attributes:
        extra: Further command-line arguments.
        unloaded_models: Models that it could not load, and why.
    """

    name = "tritonserver"
    end_seconds = _STOP_SECONDS

    def __init__(self, log: Path, settings: StackSettings | None = None, repository: Path | None = None) -> None:
        super().__init__(log)
        self._settings = settings or StackSettings()
        self._repository = repository
        self.extra: Sequence[str] = ()
        self._runtime: tempfile.TemporaryDirectory[str] | None = None
        self._stub_pids: Mapping[str, int] = {}
        self._unloaded_models: dict[str, str] = {}
        self._grpc = self._http = self._metrics = 0

    @property
    def url(self) -> str:
        """The gRPC address."""
        return f"grpc://{LOOPBACK}:{self._grpc}"

    @property
    def http_url(self) -> str:
        """The HTTP address: health and models."""
        return f"http://{LOOPBACK}:{self._http}"

    @property
    def metrics_url(self) -> str:
        """The Prometheus metrics."""
        return f"http://{LOOPBACK}:{self._metrics}/metrics"

    @property
    def region(self) -> str:
        """The prefix of its files in shared memory; "" while it does not run."""
        return Path(self._runtime.name).name if self._runtime else ""

    @property
    def unloaded_models(self) -> Mapping[str, str]:
        """Models that it could not load or has lost, with the reasons."""
        if self._runtime is None:
            return self._unloaded_models
        runtime = self._runtime.name
        pids = self._stub_pids.items()
        lost_models = [model for model, pid in pids if not _find_stubs(runtime, str(pid))]
        return {**self._unloaded_models, **dict.fromkeys(lost_models, f"it ended, see {self.log}")}

    def start(self, stopping: threading.Event | None = None) -> None:
        """Start it and wait until every model is ready or failed, or until `stopping` is set.

        Raises:
            MissingExtra: nvidia-pytriton is not installed.
            ConfigError: there is no model of a name that is asked for.
            StackError: it cannot start here, ended by itself, is not ready in time, has no model
                that it could load, or was stopped.
        """
        if not self._grpc:  # one that is started again keeps its ports
            own = self._settings
            ports = reserve_ports((own.grpc_port, own.http_port, own.metrics_port))
            self._grpc, self._http, self._metrics = ports
        self._runtime = tempfile.TemporaryDirectory(prefix="editjudge-triton-")
        try:
            command, environment = self._command(Path(self._runtime.name))
            self._launch(command, environment=environment)
            self.wait_until_ready(stopping)
            self._check_models()
            self._restrict_shared_memory()
        except BaseException:  # also on Ctrl-C: no server may outlive the attempt
            self.stop()
            raise

    def is_healthy(self) -> bool:
        """Whether it runs with every Python model that it loaded.

        Triton ends one that crashed or gave no sign of life for a second, answers "not healthy"
        for it from then on, says that it is ready, and does not start it again.
        """
        if self._runtime is None or not self.is_running():
            return False
        return all(_find_stubs(self._runtime.name, str(pid)) for pid in self._stub_pids.values())

    def stop(self) -> None:
        """End it: politely, then by force. Safe to call twice."""
        super().stop()
        self._stub_pids = {}
        if self._runtime is not None:
            # A Python model that hangs outlives its server.
            for pid in _find_stubs(self._runtime.name):
                with suppress(OSError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
            for region in _SHARED_MEMORY.glob(f"{self.region}*"):
                region.unlink(missing_ok=True)
            self._runtime.cleanup()
            self._runtime = None

    def _command(self, runtime: Path) -> tuple[list[str], dict[str, str]]:
        pytriton = _pytriton()
        backends = _link_backends(pytriton, runtime)
        repository = self._repository or runtime / "models"
        self._unloaded_models = {}
        if self._repository is None:
            default = Serving(precision=self._settings.precision)
            models = dict.fromkeys(self._settings.models, default)
            self._unloaded_models = build_repository(repository, default, models)
        command = [
            str(pytriton / "tritonserver" / "bin" / "tritonserver"),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            f"--grpc-address={LOOPBACK}",
            f"--http-address={LOOPBACK}",
            f"--metrics-address={LOOPBACK}",
            f"--grpc-port={self._grpc}",
            f"--http-port={self._http}",
            f"--metrics-port={self._metrics}",
            "--disable-auto-complete-config",
            "--exit-timeout-secs=5",
            # The local stack has no GPU metrics to give and polls for them in vain.
            "--allow-gpu-metrics=false",
            # Named, so that what a killed server leaves in shared memory can be removed.
            f"--backend-config=python,shm-region-prefix-name={runtime.name}",
            # A model that cannot be loaded costs itself; see `_check_models`.
            "--exit-on-error=false",
            "--strict-readiness=false",
            f"--grpc-restricted-protocol={','.join(_CLOSED_GRPC)}:{_LOCK}",
            f"--http-restricted-api={','.join(_CLOSED_HTTP)}:{_LOCK}",
            *self.extra,
        ]
        libraries = [pytriton.parent / "nvidia_pytriton.libs", find_libpython()]
        path = os.environ.get("LD_LIBRARY_PATH")
        environment = {
            **os.environ,
            # The stub finds its site-packages through the first python3 on PATH.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "LD_LIBRARY_PATH": os.pathsep.join([str(p) for p in libraries if p] + [path or ""]),
        }
        return command, environment

    @property
    def start_seconds(self) -> float:
        """As its settings say."""
        return self._settings.startup_timeout

    def _is_ready(self) -> bool:
        self._restrict_shared_memory()
        return fetch(f"{self.http_url}/v2/health/ready") is not None

    def _read_last_error(self) -> str:
        """Find the last error in Triton's log."""
        lines = self._read_log().splitlines()
        errors = [line for line in lines if re.match(r"E\d{4} ", line) or "error" in line.lower()]
        text = (errors or lines or ["no output"])[-1]
        return re.sub(r"^E\d{4} \S+ \d+ ", "", text).strip().strip('"')

    def _check_models(self) -> None:
        """Ask which models are ready, and note why the others are not."""
        states = json.loads(fetch(f"{self.http_url}/v2/repository/index", b"") or b"[]")
        ready = {each["name"] for each in states if each.get("state") == "READY"}
        for each in states:
            if each["name"] not in ready:
                self._unloaded_models[each["name"]] = _first_line(each.get("reason", ""))
        if not ready:
            reasons = [f"{name}: {why}" for name, why in sorted(self._unloaded_models.items())]
            what = f"no model could be loaded: {'; '.join(reasons) or 'none is here'}"
            raise StackError(what, f"see {self.log}")
        runtime = self._runtime.name if self._runtime else ""
        # The process of a model that could not be loaded may still be about to end; one that was
        # ready may have ended already, and is then no process.
        of = {parse_model(command): pid for pid, command in _find_stubs(runtime).items()}
        self._stub_pids = {model: of.get(model, 0) for model in ready}

    def _restrict_shared_memory(self) -> None:
        """Restrict its files in shared memory, which Triton lets others read whatever the umask."""
        for region in _SHARED_MEMORY.glob(f"{self.region}*") if self.region else ():
            with suppress(OSError):  # it is gone meanwhile
                if not region.is_symlink():
                    region.chmod(0o600)


@contextmanager
def temporary_stack(settings: StackSettings | None = None) -> Iterator[TritonServer]:
    """Run a Triton server until the block is left; it is restarted if it ends or loses a model.

    Its log is removed at the end, unless an error named it.

    Raises:
        StackError: it cannot start; the message has the log's last error.
    """
    log = private_state_dir() / f"triton-{os.getpid()}.log"
    server = TritonServer(log, settings)
    stopping = threading.Event()
    startup: Future[None] = Future()
    # The kernel ends the server with the thread that started it, so that thread also restarts it.
    arguments = server, stopping, startup
    keeper = threading.Thread(target=_run_until_stopped, args=arguments, name="triton")
    keeper.start()
    try:
        startup.result()
        yield server
    finally:
        # The keeper ends by itself where the server does not start, or ends too often: errors name the log then.
        is_kept = keeper.is_alive()
        stopping.set()
        keeper.join()
        if is_kept and startup.exception() is None:
            log.unlink(missing_ok=True)


def _run_until_stopped(server: TritonServer, stop: threading.Event, startup: Future[None]) -> None:
    """Start a server and keep it running until `stop` is set, then end it."""
    try:
        server.start(stop)
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        startup.set_exception(error)
        return
    startup.set_result(None)
    try:
        keep_running([server], stop)
    except EditjudgeError as error:
        if not stop.is_set():
            logger.error("The local services ended: %s. Mend that, then run it again.", error)  # noqa: TRY400 - one line
    finally:
        server.stop()


def make_stack(settings: StackSettings, models: Collection[str]) -> AbstractContextManager[TritonServer] | str | None:
    """Make a temporary stack of the needed models that are installed; it is not started yet.

    Returns:
        None where its packages are not installed; the reason where none of the models is.
    """
    if not has_serve_extra():
        return None
    allowed_models = set(settings.models or models)
    installed_models = [name for name in find_installed(settings.precision) if name in models]
    models_to_serve = tuple(name for name in installed_models if name in allowed_models)
    if not models_to_serve:
        names = shorten_list([name.replace("_", ".", 1) for name in sorted(models)])
        where = "among the `models` of the stack" if installed_models else "installed (docs/howto/models.md)"
        return f"{names} {'are' if len(models) > 1 else 'is'} not {where}"
    return temporary_stack(settings.model_copy(update={"models": models_to_serve}))


def has_serve_extra() -> bool:
    """Whether the packages of the local stack are installed."""
    return all(find_spec(name) is not None for name in ("pytriton", "onnxruntime", "rapidocr"))


def find_libpython() -> Path | None:
    """Find the folder of this Python's shared library; None where the loader finds it anyway.

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
    """Link the python backend and the stub for this Python into a folder."""
    stub = pytriton / "tritonserver" / "python_backend_stubs" / _PYTHON
    if not (stub / "triton_python_backend_stub").is_file():
        versions = sorted(p.name for p in stub.parent.iterdir())
        what = f"Triton has no stub for Python {_PYTHON}"
        raise StackError(what, f"use one of {', '.join(versions)}")
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


def _find_stubs(runtime: str, pid: str = "[0-9]*") -> dict[int, list[str]]:
    """Find the processes of a server's Python models.

    Args:
        runtime: The server's own folder, which is on their command lines.
        pid: The id of one process, or a glob; all by default.

    Returns:
        Command lines by process id.
    """
    all_of_them = find_stubs(pid=pid)
    return {pid: line for pid, line in all_of_them.items() if f"{runtime}/backends/" in line[0]}


def _first_line(reason: str) -> str:
    """The reason why a model did not load, without Triton's error code and the traceback."""
    lines = reason.removeprefix("Internal: ").partition("\nAt:")[0].split()
    return " ".join(lines)[:500] or "no reason given"
