"""What `doctor` finds out of a Judge service."""

from __future__ import annotations

import statistics
import time

from ..app.wire.services import Finding
from ..base.config import GatewayEndpoint, Settings
from ..base.errors import ServiceError
from ..base.identity import Identities
from ..base.signature import package_version
from ..gateway.connection import JudgeService
from ..gateway.panel import Gateway
from ..panel.retry import RetryPolicy
from ..v1 import judge_pb2 as pb
from .doctor import NOT_ASKED, answered

_SERVICE = "gateway"
_ROUND_TRIPS = 5
_CHECK = "check the address, the certificate and the token, and that the service runs"


async def examined(
    endpoint: GatewayEndpoint, settings: Settings
) -> tuple[list[Finding], Identities | None]:
    """A Judge service and what judges there: who the caller is to it, and what it has.

    Nothing is judged. Identities are None where it could not be asked.
    """
    about = Finding(service=_SERVICE, endpoint=endpoint.url)
    times = []
    try:
        async with Gateway(endpoint, settings) as gateway:
            for _ in range(_ROUND_TRIPS):
                start = time.perf_counter()
                told = await gateway.learn(pb.GetPanelRequest())
                times.append(1e3 * (time.perf_counter() - start))
            identities = gateway.identities()
    except ServiceError as error:
        return [about.model_copy(update={"problem": str(error), "mend": _CHECK})], None
    round_trip = round(statistics.median(times), 3)
    server = f"editjudge {gateway.version}"
    here = package_version("editjudge")
    itself = about.model_copy(
        update={
            "server": server,
            "identity": f"{len(identities)} services judge there",
            "round_trip_ms": round_trip,
            "answer": "of this version" if gateway.version == here else f"{here} here",
            "team": told.team,
            "access": await _stranger(endpoint, settings),
        }
    )
    findings = [
        itself,
        *(
            Finding(
                service=role,
                endpoint=endpoint.url,
                server=server,
                identity=str(identity),
                round_trip_ms=round_trip,
                answer=NOT_ASKED,
            )
            for role, identity in sorted(identities.items())
        ),
        *(
            Finding(
                service="all",
                endpoint=endpoint.url,
                problem=f"there: {problem}",
                mend="whoever runs the Judge service sees to it",
            )
            for problem in gateway.told
        ),
    ]
    return findings, identities


async def _stranger(endpoint: GatewayEndpoint, settings: Settings) -> str:
    """What a call without key and headers meets; "" where none are needed to be let in."""
    if endpoint.api_key is None and not endpoint.headers:
        return ""
    bare = endpoint.model_copy(update={"headers": {}, "api_key": None})
    async with JudgeService(bare, RetryPolicy(attempts=1)) as service:
        return await answered(service.panel(pb.GetPanelRequest(), settings.probe_timeout))
