"""The server: gRPC with health and reflection; it drains when it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from editjudge.v1 import judge_pb2, judge_pb2_grpc

from .interceptor import DecodingInterceptor
from .service import JudgeService
from .servicer import JudgeServicer

SERVICE = judge_pb2.DESCRIPTOR.services_by_name["JudgeService"].full_name
MAX_REQUEST_BYTES = 256 * 1024 * 1024
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    # A caller that went without a word is noticed, and its calls end.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
)


@contextlib.asynccontextmanager
async def serve_grpc(
    service: JudgeService, address: str, notice: float = 0.0, drain: float = 30.0
) -> AsyncIterator[str]:
    """Serve at an address until the block is left.

    Args:
        service: Entered.
        address: `host:port`; port 0 means a free one.
        notice: Seconds in which it says that it ends and still takes calls.
        drain: Seconds for what is in flight then.

    Yields:
        The address with its port.

    Raises:
        OSError: the address is taken.
    """
    server = grpc.aio.server(options=_OPTIONS, interceptors=[DecodingInterceptor()])
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
        service.announce_end()
        await checks.enter_graceful_shutdown()
        await asyncio.sleep(notice)
        service.shutdown.set()  # JSON drains beside it
        await server.stop(drain)


async def wait_for_signal() -> None:
    """Wait for SIGTERM or SIGINT."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
