"""Checks whether services are reachable, ready and correct.

A panel file lists the expected facts of each service as JSON:

```json
{"features.dinov2": {"name": "features_dinov2/1", "precision": "fp32", "device": "gpu"}}
```

`name` is the name of the model, with a specialist's version. Servers report `device` and `root`
(the folder of a judge's weights), a Judge service does not. All other facts are of identities.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from ..answers.texts import Option
from ..base.config import GatewayEndpoint, Settings
from ..base.errors import Abstention, InputError, MissingExtra, ServiceError
from ..base.identity import ModelIdentity, ServiceName
from ..base.parse import describe_failure, first_problem
from ..base.probes import has_known_answer, probe_inputs, wrong_answer
from ..base.signature import package_version
from ..base.strict import Strict
from ..gateway.panel import Gateway
from ..panel import SPECIALISTS, Panel, Specialist, model_name
from ..panel.budget import Budget
from ..panel.choices import IN_WORDS
from ..panel.context import DEFAULT_TERMS, CallContext
from ..panel.judge import Judge
from ..panel.prompt import Prompt, Text
from ..panel.specialists import list_custom_services
from ..panel.triton import TritonEndpoint
from ..panel.words import describe_sampling
from ..v1 import judge_pb2 as pb

Facts: TypeAlias = Mapping[str, str]
Services: TypeAlias = Mapping[ServiceName, Facts]
DEVICE, ROOT = "device", "root"
_UNTRAINED_FACT = "untrained"
_PANEL = TypeAdapter(dict[ServiceName, dict[str, str]])
_ROUND_TRIPS = 5
_CHOICES = ("Yes", "No")
_QUESTION = Prompt("", (Text("Is water wet? Answer with one word, Yes or No."),))
NOT_CHECKED_HERE = "available there; run doctor there to check its answers"
NO_KNOWN_ANSWER = "it answers; there is no question with a known answer"
_ANSWERS = {
    "logprobs": "choices by probabilities",
    "top_logprobs": "choices by the probabilities it lists",
    "sampled": "choices by sampled words",
    "bound": "choices by sampled words, restricted by the server",
}


class Finding(Strict):
    """An entry of `doctor --json`: one service or endpoint.

    Attributes:
        service: Name of the service.
        endpoint: Address of the endpoint; empty if no server has the service.
        server: Name and version of the server; empty if it could not be reached.
        identity: What the server says that it serves; empty if it could not be reached.
        round_trip_ms: Median time of calls that compute nothing; for a judge, that of its answer.
        answer: Whether the known answer is right, or that there is none; for a judge, how its
            choices are scored.
        team: The team that a front door identified the caller as; empty if it reports none.
        note: What a judge without token probabilities means for the numbers; otherwise empty.
        problem: What is wrong; otherwise empty.
        fix: The remedy for the problem.
    """

    service: str
    endpoint: str = ""
    server: str = ""
    identity: str = ""
    round_trip_ms: float | None = None
    answer: str = ""
    team: str = ""
    note: str = ""
    problem: str = ""
    fix: str = ""


async def check_services(settings: Settings, reference: Services | None = None) -> list[Finding]:
    """Check every service of the settings, with a question whose answer is known.

    A Judge service is only asked for the team of the caller and its list of services.

    Args:
        reference: Services of a panel file; a service that differs from it is a problem.
    """
    if settings.gateway is not None:
        return await _check_gateway(settings.gateway, settings, reference)
    if not settings.endpoints and not settings.judges:
        fix = f"{MissingExtra('', 'serve').fix}, or configure one (docs/howto/configuration.md)"
        return [Finding(service="all", problem="no endpoint is configured and no local stack runs", fix=fix)]
    # The services shall answer now: no reply comes from the ledger, and none is stored there.
    settings = settings.model_copy(update={"ledger": None, "patience": 0.0})
    async with Panel(settings) as panel:
        findings = [*_find_unusable(settings, panel)]
        for name in _list_specialists(settings, panel, reachable=not findings):
            findings += await _check_specialist(panel, name, settings)
        context = CallContext(Budget(settings.max_cost))
        for judge in panel.judges.values():
            findings.append(await _check_judge(judge.with_context(context)))
        if reference is not None:
            actual = await _gather_facts(panel, settings.probe_timeout)
            findings = _add_problems(findings, reference, actual)
        return findings


def _find_unusable(settings: Settings, panel: Panel) -> Iterator[Finding]:
    """Find the endpoints that cannot be used; one that is a judge's has its name."""
    names = {url: name for name, e in settings.judges.items() for url in (e.url, *e.replicas)}
    for url, problem in panel.problems.items():
        service = str(ServiceName.judge(names[url])) if url in names else "all"
        fix = "check the address, the certificate and headers, and that the server runs"
        if refusal := panel.refused_urls.get(url):
            problem, fix = refusal.message, refusal.fix
        yield Finding(service=service, endpoint=url, problem=problem, fix=fix)


def _list_specialists(settings: Settings, panel: Panel, *, reachable: bool) -> list[ServiceName]:
    """List the specialists to check; an unreachable endpoint is a problem of its own."""
    listed_names = {name for each in settings.endpoints.values() for name in each.services}
    all_names = (*SPECIALISTS, *list_custom_services(settings))
    due = [n for n in all_names if n in panel.specialists or (n in listed_names and reachable)]
    return due or (list(SPECIALISTS) if settings.endpoints and reachable else [])


def _add_problems(
    findings: list[Finding], reference: Services, actual: Services, unknown: Collection[str] = ()
) -> list[Finding]:
    """Add the differences from the panel file to the findings, as problems."""
    differ: dict[str, str] = dict(compare_panels(reference, actual, unknown))
    fix = "serve what the panel file says, or fix the file"
    result = [
        _update(one, problem=differ.pop(name), fix=fix) if not one.problem and (name := one.service) in differ else one
        for one in findings
    ]
    other_findings = (Finding(service=name, problem=why, fix=fix) for name, why in differ.items())
    return [*result, *other_findings]


async def _gather_facts(panel: Panel, timeout: float) -> Services:
    """Collect the facts of every service: its identity, device and folder of weights."""
    facts = {one.name: service_facts(one.identity, root=one.model.facts.get(ROOT, "")) for one in panel.judges.values()}
    for name, service in panel.specialists.items():
        devices = await asyncio.gather(*(_device(e, name, timeout) for e in service.endpoints))
        facts[name] = service_facts(service.identity, device="+".join(sorted({*devices})))
    return facts


async def _device(endpoint: TritonEndpoint, name: ServiceName, timeout: float) -> str:
    try:
        return await endpoint.device(model_name(name), timeout)
    except ServiceError:  # the comparison shows that the device is unknown
        return "unknown"


async def _check_specialist(panel: Panel, name: ServiceName, settings: Settings) -> list[Finding]:
    """Check a specialist at every endpoint that serves it."""
    service = panel.specialists.get(name)
    if service is None:
        model = model_name(name)
        fix = f"load the model {model} there, or list other `services` for the endpoint"
        return [Finding(service=name, problem=f"{name}: {panel.why_not(name)}", fix=fix)]
    return [await _check_at(endpoint, service, settings) for endpoint in service.endpoints]


async def _check_at(endpoint: TritonEndpoint, service: Specialist, settings: Settings) -> Finding:
    name, timeout = service.name, settings.probe_timeout
    finding = Finding(service=name, endpoint=endpoint.url, identity=str(service.identity))
    try:
        server = await endpoint.server(timeout)
        milliseconds = await _measure_round_trip(lambda: endpoint.ready(model_name(name), timeout))
        reply = await endpoint.infer(name, probe_inputs(name.role), {}, DEFAULT_TERMS)
        wrong = wrong_answer(name, reply, service.identity.facts)
        has_answer = has_known_answer(name, service.identity.facts)
    except (ServiceError, Abstention) as error:
        return _update(finding, problem=str(error), fix="see the server's log")
    return _update(
        finding,
        server=f"{server.name} {server.version}",
        team=server.team,
        round_trip_ms=milliseconds,
        answer=f"known answer {'wrong' if wrong else 'right'}" if has_answer else NO_KNOWN_ANSWER,
        problem=f"the known answer is wrong: {wrong}" if wrong else "",
        fix="serve the model and weights of this version of editjudge" if wrong else "",
    )


async def _check_judge(judge: Judge) -> Finding:
    """Ask a judge a question of common knowledge; untrained weights need not answer correctly."""
    finding = Finding(service=judge.name, endpoint=judge.endpoint.url, server=judge.model.server)
    start = time.perf_counter()
    try:
        method = await judge.probe()
        if method in IN_WORDS:  # the probe asked for no choice, or got none
            await judge.answer(_QUESTION, Option(_CHOICES))
    except ServiceError as error:
        return _update(finding, problem=str(error), fix="see the server's log")
    except Abstention as error:
        # Untrained weights reply with arbitrary text, which is good enough.
        if error.kind != "unparsable" or "untrained" not in judge.model.name:
            return _update(
                finding,
                problem=f"its answer cannot be read: {error}",
                fix="see that it is a chat model, and that max_tokens leaves room for it",
            )
    problem, fix = _find_judge_problem(judge, method)
    milliseconds = round(1e3 * (time.perf_counter() - start), 3)
    return _update(
        finding,
        identity=str(judge.identity),
        round_trip_ms=milliseconds,
        answer=_ANSWERS[method],
        note="; ".join(filter(None, (_describe_refused(judge), describe_sampling(judge.identity)))),
        problem=problem,
        fix=fix,
    )


def _describe_refused(judge: Judge) -> str:
    """Describe what its server refuses of a request; empty where it takes all."""
    names = ", ".join(judge.refused_settings)
    return f"the server refuses {names}; it is not sent, and the judge's identity says so" if names else ""


def _find_judge_problem(judge: Judge, method: str) -> tuple[str, str]:
    """Find a problem of a judge that answers, with its remedy; both empty without one."""
    if method in IN_WORDS and judge.endpoint.logprobs == "auto":
        return (
            f"the server reports no token probabilities: {judge.without_logprobs}",
            'its scores are sampled words; if this is intended, set logprobs = "never" for it',
        )
    if judge.model.facts.get("media") == "off":
        return (
            "the server takes no images: its media processor is off",
            "start vLLM with --mm-processor inprocess (older: SMG_VLLM_MM_PROCESSOR=inprocess)",
        )
    return "", ""


async def _check_gateway(endpoint: GatewayEndpoint, settings: Settings, reference: Services | None) -> list[Finding]:
    """Check a Judge service: the team of the caller, its version and its services."""
    finding = Finding(service="gateway", endpoint=endpoint.url)
    try:
        async with Gateway(endpoint, settings) as gateway:
            milliseconds = await _measure_round_trip(lambda: gateway.learn(pb.GetPanelRequest()))
            panel = await gateway.learn(pb.GetPanelRequest())
            identities = gateway.identities()
    except ServiceError as error:
        fix = "check the address, the certificate and the token, and that the service runs"
        return [_update(finding, problem=str(error), fix=fix)]
    finding = _update(finding, server=f"editjudge {gateway.version}", round_trip_ms=milliseconds)
    own = package_version("editjudge")
    version = "same version as here" if gateway.version == own else f"{own} here"
    findings = [_update(finding, identity=f"services: {len(identities)}", answer=version, team=panel.team)]
    for role, identity in sorted(identities.items()):
        there = {"service": role, "identity": str(identity), "note": describe_sampling(identity)}
        findings.append(_update(finding, answer=NOT_CHECKED_HERE, **there))
    for problem in gateway.service_problems:
        fix = "tell the operator of the Judge service"
        findings.append(Finding(service="all", endpoint=endpoint.url, problem=f"there: {problem}", fix=fix))
    if reference is None:
        return findings
    actual = {name: service_facts(identity) for name, identity in identities.items()}
    return _add_problems(findings, reference, actual, unknown={DEVICE, ROOT})


def _update(finding: Finding, **fields: Any) -> Finding:
    return finding.model_copy(update=fields)


async def _measure_round_trip(call: Callable[[], Awaitable[object]]) -> float:
    """Measure the median milliseconds of a call that computes nothing."""
    times = []
    for _ in range(_ROUND_TRIPS):
        start = time.perf_counter()
        await call()
        times.append(1e3 * (time.perf_counter() - start))
    return round(statistics.median(times), 3)


def load_panel_file(path: Path) -> Services:
    """Load the services and facts that a panel file expects.

    Raises:
        InputError: the file cannot be read, or is not a panel file.
    """
    try:
        return _PANEL.validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise InputError(str(path), describe_failure(error)) from error
    except ValidationError as error:
        raise InputError(
            str(path), f"this is not a panel file: {first_problem(error)}", 'write {"role.variant": {"fact": "value"}}'
        ) from error


def service_facts(identity: ModelIdentity, **more: str) -> Facts:
    """The facts of a service: those of its identity, and others that its server reports."""
    return {"name": identity.name, **identity.facts, **more}


def compare_panels(
    reference: Services, actual: Services, unknown: Collection[str] = ()
) -> Iterator[tuple[ServiceName, str]]:
    """Compare services with a panel file; yield each service that differs, with a description.

    Untrained weights are a difference unless the file lists them.

    Args:
        reference: Facts by service, from the panel file.
        actual: Facts by service, as the servers report them.
        unknown: Facts that are not compared, since the servers do not report them.
    """
    for name, facts in reference.items():
        if name not in actual:
            yield name, "it is expected, and not served"
            continue
        there = actual[name]
        differ = [
            f"{fact} {value or 'none'} is expected, and {there.get(fact) or 'none'} is served"
            for fact, value in {_UNTRAINED_FACT: "", **facts}.items()
            if fact not in unknown and there.get(fact, "") != value
        ]
        if differ:
            yield name, "; ".join(differ)
    for name in actual:
        if name not in reference:
            yield name, "it is served, and not expected"
