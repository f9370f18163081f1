"""The gRPC server, with health checks and reflection; it drains before it ends."""

import asyncio
import contextlib
import gc
import signal
import sys
import warnings
from collections.abc import AsyncIterator, Mapping

import grpc
from aiohttp import BadContentDispositionHeader, BadContentDispositionParam
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from editjudge.base.parse import package_tables
from editjudge.v1 import judge_pb2, judge_pb2_grpc

from .admission import MAX_REQUEST_BYTES
from .interceptor import RequestInterceptor
from .service import JudgeService
from .servicer import JudgeServicer

SERVICE = judge_pb2.DESCRIPTOR.services_by_name["JudgeService"].full_name
_OPTIONS: Mapping[str, int] = package_tables(__package__, "grpc_options.toml")


@contextlib.asynccontextmanager
async def serve_grpc(
    service: JudgeService, address: str, notice: float = 0.0, drain: float = 30.0
) -> AsyncIterator[str]:
    """Serve gRPC at an address until the block is left.

    When the block is left, health checks answer NOT_SERVING at once, while calls are still
    accepted for `notice` seconds. Calls in flight then have `drain` seconds to finish, after
    which they are cancelled.

    Args:
        service: A service that has been entered as a context manager.
        address: `host:port`; port 0 takes a free one.
        notice: Seconds between the first NOT_SERVING and the end of acceptance.
        drain: Seconds for calls in flight after that.

    Yields:
        The address with the port that was taken.

    Raises:
        OSError: the address is taken.
    """
    # Calls that are in flight at that age end as they would: nothing limits the time they have.
    age = ("grpc.max_connection_age_ms", round(1000 * service.connection_age))
    limit = ("grpc.max_receive_message_length", MAX_REQUEST_BYTES)
    server = grpc.aio.server(options=(*_OPTIONS.items(), limit, age), interceptors=[RequestInterceptor(service)])
    checks = health.aio.HealthServicer()
    judge_pb2_grpc.add_JudgeServiceServicer_to_server(JudgeServicer(service), server)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(str(error)) from error
    await server.start()
    for name in ("", SERVICE):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        service.is_terminating = True
        await checks.enter_graceful_shutdown()
        await asyncio.sleep(notice)
        service.shutdown.set()  # the HTTP server drains at the same time
        await server.stop(drain)


def set_up_interpreter() -> None:
    """Let the event loop of a process that serves wait less; call it when all modules are loaded."""
    sys.setswitchinterval(0.0005)  # the event loop need not wait long for threads that compute
    gc.freeze()  # a search for garbage, which stops all requests, need not look at all modules
    gc.set_threshold(10_000)  # an edit in hand has hundreds of objects, and hardly any becomes garbage
    for kind in (BadContentDispositionHeader, BadContentDispositionParam):
        warnings.simplefilter("ignore", kind)  # they show what a caller sent, and a refusal follows


async def wait_for_signal() -> None:
    """Wait for SIGTERM or SIGINT."""
    arrival = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, arrival.set)
    await arrival.wait()
