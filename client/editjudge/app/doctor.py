"""Whether services are reachable, ready and right, and whether they let strangers in.

A panel file says by service what is known of it, as JSON:

```json
{"features.dinov2": {"name": "features_dinov2/1", "precision": "fp32", "device": "gpu"}}
```

`name` is that of the model, with a specialist's version; `device` and `root` (the folder of a
generalist's weights) are told by servers, and not by a Judge service; all else are the facts of
identities.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..answers import Option
from ..base.config import Endpoint, GatewayEndpoint, GeneralistEndpoint, Settings
from ..base.errors import Abstained, InputError, NotAuthorised, ServiceError
from ..base.identity import ModelIdentity, ServiceName
from ..base.parse import first_problem
from ..base.probes import has_known_answer, probe_inputs, wrong_answer
from ..base.signature import package_version
from ..base.strict import Strict
from ..gateway.connection import JudgeService
from ..gateway.panel import Gateway
from ..panel import SPECIALISTS, Panel, Specialist, model_name
from ..panel.budget import Budget
from ..panel.context import CallContext
from ..panel.endpoints import make_transport
from ..panel.generalist import Generalist
from ..panel.prompt import Prompt, Text
from ..panel.retry import RetryPolicy
from ..panel.specialists import list_custom_services
from ..panel.triton import TritonEndpoint
from ..v1 import judge_pb2 as pb

E = TypeVar("E", Endpoint, GeneralistEndpoint, GatewayEndpoint)

Facts: TypeAlias = Mapping[str, str]
Services: TypeAlias = Mapping[ServiceName, Facts]
DEVICE, ROOT = "device", "root"
_UNTRAINED = "untrained"
_PANEL: TypeAdapter[dict[ServiceName, dict[str, str]]] = TypeAdapter(
    dict[ServiceName, dict[str, str]]
)
_ROUND_TRIPS = 5
_CHOICES = ("Yes", "No")
_QUESTION = Prompt("", (Text("Is water wet? Answer with one word, Yes or No."),))
_ONCE = RetryPolicy(attempts=1)
KEY_NOT_REQUIRED = "a call without them is answered too: whether they are right was not checked"
KEY_REQUIRED = "a call without them is refused"
NOT_CHECKED_HERE = "judges there; whether its known answer is right, doctor says there"
NO_KNOWN_ANSWER = "it answers, and no right answer is known"
_ANSWERS = {
    "logprobs": "choices by probabilities",
    "top_logprobs": "choices by the probabilities it lists",
    "sampled": "choices by sampled words",
}


class Finding(Strict):
    """An entry of `doctor --json`: one service or endpoint.

    Attributes:
        round_trip_ms: Median of calls that compute nothing; of a generalist, until it answered.
        answer: Whether its known answer is right, or that none is known; how a generalist's
            choices are scored.
        team: As whom a front door knows the caller; empty where none says.
        access: What a call without the key and headers of the settings met, or why none could be
            tried; empty where there are none.
        problem: Empty where all is well.
        mend: What to do about it.
    """

    service: str
    endpoint: str = ""
    server: str = ""
    identity: str = ""
    round_trip_ms: float | None = None
    answer: str = ""
    team: str = ""
    access: str = ""
    problem: str = ""
    mend: str = ""


async def check_services(settings: Settings, expected: Services | None = None) -> list[Finding]:
    """Ask every service of the settings something whose answer is known.

    Of a Judge service it is only asked who the caller is and what judges there.

    Args:
        expected: What a panel file says; what is served otherwise is a problem.
    """
    if settings.gateway is not None:
        return await _of_gateway(settings.gateway, settings, expected)
    if not settings.endpoints and not settings.generalists:
        return [
            Finding(
                service="all",
                problem="no endpoint is configured and no local stack runs",
                mend='pip install "editjudge[serve]", or configure one (docs/configuration.md)',
            )
        ]
    # A reply of yesterday says nothing of today: none is taken from the ledger, or kept there.
    settings = settings.model_copy(update={"ledger": None})
    async with Panel(settings) as panel:
        findings = [
            Finding(
                service="all",
                endpoint=url,
                problem=problem,
                mend="check the address, the certificate and headers, and that the server runs",
            )
            for url, problem in panel.problems.items()
        ]
        for name in _due(settings, panel, nobody_away=not findings):
            findings += await _check(panel, name, settings)
        context = CallContext(Budget(settings.max_cost))
        for generalist in panel.generalists.values():
            findings.append(await _ask(generalist.within(context), settings))
        if expected is not None:
            findings = _compared(findings, expected, await _served(panel, settings.probe_timeout))
        return findings


def _due(settings: Settings, panel: Panel, *, nobody_away: bool) -> list[ServiceName]:
    """The specialists to check; what an unreachable endpoint may serve is its own problem's."""
    demanded = {name for each in settings.endpoints.values() for name in each.services}
    every = (*SPECIALISTS, *list_custom_services(settings))
    due = [n for n in every if n in panel.specialists or (n in demanded and nobody_away)]
    return due or (list(SPECIALISTS) if settings.endpoints and nobody_away else [])


def _compared(
    findings: list[Finding], expected: Services, served: Services, untold: Collection[str] = ()
) -> list[Finding]:
    """Findings, and as problems what is not as expected."""
    differ: dict[str, str] = dict(compare_panels(expected, served, untold))
    mend = "serve what the panel file says, or mend the file"
    about = [
        _with(one, problem=differ.pop(name), mend=mend)
        if not one.problem and (name := one.service) in differ
        else one
        for one in findings
    ]
    further = (Finding(service=name, problem=why, mend=mend) for name, why in differ.items())
    return [*about, *further]


async def _served(panel: Panel, timeout: float) -> Services:
    """What is known of every service: its identity, its device, where its weights lie."""
    served = {
        one.name: service_facts(one.identity, root=one.model.facts.get(ROOT, ""))
        for one in panel.generalists.values()
    }
    for name, bound in panel.specialists.items():
        devices = await asyncio.gather(*(_device(each, name, timeout) for each in bound.endpoints))
        served[name] = service_facts(bound.identity, device="+".join(sorted({*devices})))
    return served


async def _device(endpoint: TritonEndpoint, name: ServiceName, timeout: float) -> str:
    try:
        return await endpoint.device(model_name(name), timeout)
    except ServiceError:  # whoever is compared with it sees that nobody told
        return "unknown"


async def _check(panel: Panel, name: ServiceName, settings: Settings) -> list[Finding]:
    """Check a service at every endpoint that serves it."""
    bound = panel.specialists.get(name)
    if bound is None:
        model = model_name(name)
        mend = f"load the model {model} there, or list other `services` for the endpoint"
        return [Finding(service=name, problem=f"{name}: {panel.why_not(name)}", mend=mend)]
    return [await _check_at(endpoint, bound, settings) for endpoint in bound.endpoints]


async def _check_at(endpoint: TritonEndpoint, bound: Specialist, settings: Settings) -> Finding:
    name, timeout = bound.name, settings.probe_timeout
    about = Finding(service=name, endpoint=endpoint.url, identity=str(bound.identity))
    try:
        server = await endpoint.server(timeout)
        milliseconds = await _round_trip(lambda: endpoint.ready(model_name(name), timeout))
        reply = await bound.call_at(endpoint, probe_inputs(name.role))
        wrong = wrong_answer(name, reply, bound.identity.facts)
        known = has_known_answer(name, bound.identity.facts)
        access = await _stranger(bound, endpoint.url, settings)
    except (ServiceError, Abstained) as error:
        return _with(about, problem=str(error), mend="see the server's log")
    return _with(
        about,
        server=f"{server.name} {server.version}",
        team=server.team,
        round_trip_ms=milliseconds,
        answer=f"known answer {'wrong' if wrong else 'right'}" if known else NO_KNOWN_ANSWER,
        access=access,
        problem=f"the known answer is wrong: {wrong}" if wrong else "",
        mend="serve the model and weights of this version of editjudge" if wrong else "",
    )


async def _ask(generalist: Generalist, settings: Settings) -> Finding:
    """Ask a generalist something that anybody knows; random weights need not know it."""
    about = Finding(
        service=generalist.name,
        endpoint=generalist.endpoint.url,
        server=generalist.model.server,
    )
    start = time.perf_counter()
    try:
        method = await generalist.probe()
        if method == "sampled":  # no choice was asked for, or it got none
            await generalist.answer(_QUESTION, Option(_CHOICES))
    except ServiceError as error:
        return _with(about, problem=str(error), mend="see the server's log")
    except Abstained as error:
        # Random weights write anything; that they do is an answer.
        if error.kind != "unparsable" or "untrained" not in generalist.model.name:
            return _with(
                about,
                problem=f"its answer cannot be read: {error}",
                mend="see that it is a chat model, and that max_tokens leaves room for it",
            )
    problem, mend = _trouble(generalist, method)
    took = round(1e3 * (time.perf_counter() - start), 3)
    return _with(
        about,
        identity=str(generalist.identity),
        round_trip_ms=took,
        answer=_ANSWERS[method],
        access=await _stranger_asks(generalist, settings),
        problem=problem,
        mend=mend,
    )


def _trouble(generalist: Generalist, method: str) -> tuple[str, str]:
    """What keeps a generalist that answers from judging well, and the mend."""
    if method == "sampled" and generalist.endpoint.logprobs == "auto":
        return (
            f"the server reports no token probabilities: {generalist.without_logprobs}",
            'scores are sampled words; where that is meant, set logprobs = "never" for it',
        )
    if generalist.model.facts.get("media") == "off":
        return (
            "the server takes no images: its media processor is off",
            "start vLLM with --mm-processor inprocess (older: SMG_VLLM_MM_PROCESSOR=inprocess)",
        )
    return "", ""


async def _of_gateway(
    endpoint: GatewayEndpoint, settings: Settings, expected: Services | None
) -> list[Finding]:
    """A Judge service and what judges there: who the caller is to it, and what it has."""
    about = Finding(service="gateway", endpoint=endpoint.url)
    try:
        async with Gateway(endpoint, settings) as gateway:
            milliseconds = await _round_trip(lambda: gateway.learn(pb.GetPanelRequest()))
            panel = await gateway.learn(pb.GetPanelRequest())
            identities = gateway.identities()
    except ServiceError as error:
        mend = "check the address, the certificate and the token, and that the service runs"
        return [_with(about, problem=str(error), mend=mend)]
    about = _with(about, server=f"editjudge {gateway.version}", round_trip_ms=milliseconds)
    here = package_version("editjudge")
    findings = [
        _with(
            about,
            identity=f"{len(identities)} services judge there",
            answer="of this version" if gateway.version == here else f"{here} here",
            team=panel.team,
            access=await _stranger_learns(endpoint, settings),
        )
    ]
    findings += [
        _with(about, service=role, identity=str(identity), answer=NOT_CHECKED_HERE)
        for role, identity in sorted(identities.items())
    ]
    findings += [
        Finding(
            service="all",
            endpoint=endpoint.url,
            problem=f"there: {problem}",
            mend="whoever runs the Judge service sees to it",
        )
        for problem in gateway.service_problems
    ]
    if expected is None:
        return findings
    served = {name: service_facts(identity) for name, identity in identities.items()}
    return _compared(findings, expected, served, untold={DEVICE, ROOT})


# A stranger has no keys and headers. He asks what was answered with them a moment ago, so that
# whatever he meets is about them; "" where none are needed to be let in.


def _keyed(endpoint: Endpoint | GeneralistEndpoint | GatewayEndpoint) -> bool:
    return endpoint.api_key is not None or bool(endpoint.headers)


def _bare(endpoint: E) -> E:
    return endpoint.model_copy(update={"headers": {}, "api_key": None})


async def _stranger(bound: Specialist, url: str, settings: Settings) -> str:
    """What a specialist says to a stranger."""
    keyed = [each for each in settings.endpoints.values() if each.url == url and _keyed(each)]
    if not keyed:
        return ""
    async with TritonEndpoint(_bare(keyed[-1]), _ONCE) as endpoint:
        return await _answered(bound.call_at(endpoint, probe_inputs(bound.name.role)))


async def _stranger_asks(generalist: Generalist, settings: Settings) -> str:
    """What a generalist says to a stranger; it costs a call where it is answered."""
    name = generalist.name.variant
    if not _keyed(settings.generalists[name]):
        return ""
    bare = _bare(settings.generalists[name])
    only = {"endpoints": {}, "generalists": {name: bare}, "attempts": 1}
    async with Panel(settings.model_copy(update=only)) as panel:
        if known := panel.generalists.get(generalist.name):
            return await _answered(known.answer(_QUESTION, Option(_CHOICES)))
    # Not even its model was told: why, a call of its own says.
    async with make_transport(bare, _ONCE, generalist.name, 1) as transport:
        return await _answered(transport.identify(settings.probe_timeout))


async def _stranger_learns(endpoint: GatewayEndpoint, settings: Settings) -> str:
    """What a Judge service says to a stranger."""
    if not _keyed(endpoint):
        return ""
    async with JudgeService(_bare(endpoint), _ONCE) as service:
        return await _answered(service.panel(pb.GetPanelRequest(), settings.probe_timeout))


async def _answered(call: Awaitable[object]) -> str:
    """What a call without credentials meets: refused is who is turned away for want of them."""
    try:
        await call
    except Abstained:
        return KEY_NOT_REQUIRED
    except NotAuthorised:
        return KEY_REQUIRED
    except ServiceError as error:
        return f"a call without them could not be tried: {error}"
    return KEY_NOT_REQUIRED


def _with(finding: Finding, **fields: Any) -> Finding:
    return finding.model_copy(update=fields)


async def _round_trip(call: Callable[[], Awaitable[object]]) -> float:
    """Median milliseconds of a call that computes nothing."""
    times = []
    for _ in range(_ROUND_TRIPS):
        start = time.perf_counter()
        await call()
        times.append(1e3 * (time.perf_counter() - start))
    return round(statistics.median(times), 3)


def load_panel_file(path: Path) -> Services:
    """The services that a panel file expects.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    try:
        return _PANEL.validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from error
    except ValidationError as error:
        raise InputError(
            str(path),
            f"this is no panel: {first_problem(error)}",
            'write {"role.variant": {"fact": "value"}}',
        ) from error


def service_facts(identity: ModelIdentity, **told: str) -> Facts:
    """What is known of a service: its identity, and what else its server told."""
    return {"name": identity.name, **identity.facts, **told}


def compare_panels(
    expected: Services, served: Services, untold: Collection[str] = ()
) -> Iterator[tuple[ServiceName, str]]:
    """What is not as expected, by service, in words; nothing where all is.

    Random weights are expected only where the file says so.

    Args:
        served: What is known of the services that are there.
        untold: Facts that nobody tells on this way; they are not compared.
    """
    for name, facts in expected.items():
        if name not in served:
            yield name, "it is expected, and nobody serves it"
            continue
        compared = {_UNTRAINED: "", **facts}
        there = served[name]
        differ = [
            f"{fact} {value or 'none'} is expected, and {there.get(fact) or 'none'} is served"
            for fact, value in compared.items()
            if fact not in untold and there.get(fact, "") != value
        ]
        if differ:
            yield name, "; ".join(differ)
    for name in served:
        if name not in expected:
            yield name, "it is served, and nobody expects it"
