"""The Judge service of the local stack: `editjudge serve` on top of its Triton and vLLM."""

import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from editjudge.base.config import StackSettings
from editjudge.base.errors import MissingExtra, StackError
from editjudge.base.local_stack import LocalGateway

from .process import LOOPBACK, Server, fetch, reserve_ports

_PACKAGES = ("grpc_health", "grpc_reflection", "grpc_status")
READY_SECONDS = 120.0
_DRAIN_SECONDS = 30.0
_KILL_SECONDS = 10.0


def check_gateway() -> None:
    """Check that the Judge service can be started here.

    Raises:
        MissingExtra: a package of the extra `judge` is not installed.
    """
    if not all(find_spec(name) for name in _PACKAGES):
        raise MissingExtra("the Judge service", "judge")


class GatewayServer(Server):
    """The process of the Judge service.

    Args:
        log: The file for its output.
        settings: Its ports and further arguments.
        config: The user's settings file; by default that of the current folder.
    """

    name = "the Judge service"
    end_seconds = _DRAIN_SECONDS + _KILL_SECONDS
    start_seconds = READY_SECONDS

    def __init__(self, log: Path, settings: StackSettings, config: Path | None = None) -> None:
        super().__init__(log)
        self._arguments = settings.gateway_args
        self._config = config
        self._servers: Sequence[str] = ()
        self._grpc, self._http = settings.gateway_port, settings.gateway_http_port
        self._start_error = ""

    def set_backends(self, triton: str, vllm: str) -> None:
        """Set the servers that it judges with; vLLM's address is "" where there is none."""
        judge = ("--judge", vllm) if vllm else ()
        self._servers = ("--endpoint", triton, *judge)

    @property
    def state(self) -> LocalGateway:
        """Its addresses, and why it is down where it is."""
        has_ended = self._process is not None and not self.is_healthy()
        return LocalGateway(
            pid=self.pid,
            url=f"grpc://{LOOPBACK}:{self._grpc}",
            http=f"http://{LOOPBACK}:{self._http}",
            log=self.log,
            problem=self._make_ended_error().message if has_ended else self._start_error,
        )

    def start(self, stopping: threading.Event | None = None) -> None:
        """See `Server.start`; a failure stays in `state` until the service runs."""
        self._start_error = ""
        try:
            if self._process is None:
                self._grpc, self._http = reserve_ports((self._grpc, self._http))
            self._launch(self._command(), politely=True)
            self.wait_until_ready(stopping)
        except (StackError, OSError) as error:
            self._start_error = str(error)
            raise

    def _command(self) -> list[str]:
        return [
            # -P: the current folder has its settings, and must not provide modules.
            *(sys.executable, "-P", "-m", "editjudge", "serve"),
            *("--address", f"{LOOPBACK}:{self._grpc}"),
            *("--http-address", f"{LOOPBACK}:{self._http}"),
            # The front door ends first, so no load balancer is left to notice.
            *("--notice", "0", "--drain", f"{_DRAIN_SECONDS:g}"),
            *(("--config", str(self._config)) if self._config else ()),
            *self._servers,
            *self._arguments,
        ]

    def _is_ready(self) -> bool:
        return fetch(f"{self.state.http}/health") is not None
