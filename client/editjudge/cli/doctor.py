"""`editjudge doctor`: is every service reachable, ready and right?"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import click

from ..answers import Option
from ..app.client import with_local_stack
from ..app.expected import DEVICE, ROOT, Services, differences, expected_in, facts_of
from ..app.unserved import unserved, unserved_line
from ..app.wire.services import Finding
from ..base.config import Settings
from ..base.errors import Abstained, NotAuthorised, ServiceError
from ..base.identity import ServiceName
from ..base.probes import has_known_answer, probe_inputs, wrong_answer
from ..base.screen import say, say_json, tell
from ..base.strict import text_of
from ..panel import SERVICES, Panel, Service, model_name
from ..panel.bind import transport_for
from ..panel.budget import Budget
from ..panel.context import CallContext
from ..panel.generalist import Generalist
from ..panel.prompt import Prompt, Text
from ..panel.retry import RetryPolicy
from ..panel.services import own_services
from ..panel.triton import TritonEndpoint
from .options import PATH, settings_of, takes
from .services import services_at_hand

_ROUND_TRIPS = 5
_CHOICES = ("Yes", "No")
_QUESTION = Prompt("", (Text("Is water wet? Answer with one word, Yes or No."),))
OPEN = "a call without them is answered too: whether they are right was not checked"
NEEDED = "a call without them is refused"
NOT_ASKED = "judges there; whether its known answer is right, doctor says there"
_NOT_KNOWN = "it answers, and no right answer is known"
_ANSWERS = {
    "logprobs": "choices by probabilities",
    "top_logprobs": "choices by the probabilities it lists",
    "sampled": "choices by sampled words",
}


@click.command("doctor")
@takes("generalist", "judge_model", "endpoint", "gateway")
@takes(
    "json",
    expect={
        "type": PATH,
        "metavar": "FILE",
        "help": "A panel file: what is served otherwise than it says is wrong (docs/deploying.md).",
    },
)
def command(expect: Path | None, *, json: bool, **asked: Any) -> int:
    """Check every service: reachable, version, ready, round trip, and a known answer.

    It says what it checked: a service may have no known answer, a server may let anybody in. Exit
    code 1 when something is wrong, with the mend.
    """
    expected = None if expect is None else expected_in(expect)
    settings = with_local_stack(settings_of(asked))
    if settings.gateway is not None:
        from .gateway import examined

        told, identities = asyncio.run(examined(settings.gateway, settings))
        if expected is not None and identities is not None:
            served = {name: facts_of(identity) for name, identity in identities.items()}
            told = compared(told, expected, served, untold={DEVICE, ROOT})
        return _told(told, as_json=json)
    # Whoever names a generalist only asks about that, or about the stack that runs already.
    start = not settings.generalists
    findings: list[Finding] = []

    def without(model: str, why: str) -> None:
        mend = "see the log of the local stack; editjudge models verify checks its weights"
        service = model.replace("_", ".", 1)
        findings.append(Finding(service=service, problem=f"could not be loaded: {why}", mend=mend))

    with services_at_hand(settings, start=start, say=tell, without=without) as at_hand:
        findings += asyncio.run(_examine(at_hand, expected))
    return _told(findings, as_json=json)


def _told(findings: list[Finding], *, as_json: bool) -> int:
    """Print what was found; the exit code."""
    if as_json:
        say_json(text_of(findings))
    else:
        for finding in findings:
            _show(finding)
        served = {finding.service for finding in findings if not finding.problem}
        if served and (line := unserved_line(unserved(served))):
            say(line)
    return 1 if any(finding.problem for finding in findings) else 0


def compared(
    findings: list[Finding], expected: Services, served: Services, untold: Collection[str] = ()
) -> list[Finding]:
    """Findings, and as problems what is not as expected."""
    differ: dict[str, str] = dict(differences(expected, served, untold))
    mend = "serve what the panel file says, or mend the file"
    about = [
        _with(one, problem=differ.pop(name), mend=mend)
        if not one.problem and (name := one.service) in differ
        else one
        for one in findings
    ]
    further = (Finding(service=name, problem=why, mend=mend) for name, why in differ.items())
    return [*about, *further]


async def _examine(settings: Settings, expected: Services | None = None) -> list[Finding]:
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
    stranger = _Stranger(settings)
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
        demanded = {name for e in settings.endpoints.values() for name in e.services}
        # What an unreachable endpoint may serve is its own problem's business, named above.
        every = (*SERVICES, *own_services(settings))
        due = [n for n in every if n in panel.services or (n in demanded and not findings)]
        if settings.endpoints and not due and not findings:
            due = list(SERVICES)
        for name in due:
            findings += await _check(panel, name, stranger)
        context = CallContext(Budget(settings.max_cost))
        for generalist in panel.generalists.values():
            findings.append(await _ask(generalist.within(context), stranger))
        if expected is not None:
            findings = compared(findings, expected, await _served(panel, stranger.timeout))
        return findings


async def _served(panel: Panel, timeout: float) -> Services:
    """What is known of every service: its identity, its device, where its weights lie."""
    served = {
        one.name: facts_of(one.identity, root=one.model.facts.get(ROOT, ""))
        for one in panel.generalists.values()
    }
    for name, bound in panel.services.items():
        told = await asyncio.gather(*(_device(each, name, timeout) for each in bound.endpoints))
        served[name] = facts_of(bound.identity, device="+".join(sorted({*told})))
    return served


async def _device(endpoint: TritonEndpoint, name: ServiceName, timeout: float) -> str:
    try:
        return await endpoint.device(model_name(name), timeout)
    except ServiceError:  # whoever is compared with it sees that nobody told
        return "unknown"


class _Stranger:
    """Somebody without the keys and headers of the settings: is he let in?

    He asks what was answered with them a moment ago, so that whatever he meets is about them.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._triton = {
            e.url: e for e in settings.endpoints.values() if e.headers or e.api_key is not None
        }
        self._generalists = {
            name: endpoint.model_copy(update={"api_key": None, "headers": {}})
            for name, endpoint in settings.generalists.items()
            if endpoint.api_key is not None or endpoint.headers
        }

    @property
    def timeout(self) -> float:
        """Seconds for what computes nothing."""
        return self._settings.probe_timeout

    async def asks(self, bound: Service, url: str) -> str:
        """What a specialist says to him; "" where nothing is needed to be let in."""
        if url not in self._triton:
            return ""
        bare = self._triton[url].model_copy(update={"headers": {}, "api_key": None})
        async with TritonEndpoint(bare, RetryPolicy(attempts=1)) as endpoint:
            return await answered(bound.at(endpoint, probe_inputs(bound.name.role)))

    async def asks_generalist(self, generalist: Generalist) -> str:
        """The same of a generalist; it costs a call where it is answered."""
        name = generalist.name.variant
        if name not in self._generalists:
            return ""
        only = {"endpoints": {}, "generalists": {name: self._generalists[name]}, "attempts": 1}
        async with Panel(self._settings.model_copy(update=only)) as panel:
            if known := panel.generalists.get(generalist.name):
                return await answered(known.answer(_QUESTION, Option(_CHOICES)))
        # Not even its model was told: why, a call of its own says.
        async with transport_for(
            self._generalists[name], RetryPolicy(attempts=1), generalist.name, 1
        ) as bare:
            return await answered(bare.identify(self.timeout))


async def answered(call: Awaitable[object]) -> str:
    """What a call without credentials meets: refused is who is turned away for want of them."""
    try:
        await call
    except Abstained:
        return OPEN
    except NotAuthorised:
        return NEEDED
    except ServiceError as error:
        return f"a call without them could not be tried: {error}"
    return OPEN


async def _check(panel: Panel, name: ServiceName, stranger: _Stranger) -> list[Finding]:
    """Check a service at every endpoint that serves it."""
    bound = panel.services.get(name)
    if bound is None:
        model = model_name(name)
        mend = f"load the model {model} there, or list other `services` for the endpoint"
        return [Finding(service=name, problem=f"{name}: {panel.why_not(name)}", mend=mend)]
    return [await _check_at(endpoint, bound, stranger) for endpoint in bound.endpoints]


async def _check_at(endpoint: TritonEndpoint, bound: Service, stranger: _Stranger) -> Finding:
    name, timeout = bound.name, stranger.timeout
    about = Finding(service=name, endpoint=endpoint.url, identity=str(bound.identity))
    try:
        server = await endpoint.server(timeout)
        milliseconds = await _round_trip(endpoint.ready, model_name(name), timeout)
        reply = await bound.at(endpoint, probe_inputs(name.role))
        wrong = wrong_answer(name, reply, bound.identity.facts)
        known = has_known_answer(name, bound.identity.facts)
        access = await stranger.asks(bound, endpoint.url)
    except (ServiceError, Abstained) as error:
        return _with(about, problem=str(error), mend="see the server's log")
    return _with(
        about,
        server=f"{server.name} {server.version}",
        team=server.team,
        round_trip_ms=milliseconds,
        answer=f"known answer {'wrong' if wrong else 'right'}" if known else _NOT_KNOWN,
        access=access,
        problem=f"the known answer is wrong: {wrong}" if wrong else "",
        mend="serve the model and weights of this version of editjudge" if wrong else "",
    )


async def _ask(generalist: Generalist, stranger: _Stranger) -> Finding:
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
        access=await stranger.asks_generalist(generalist),
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


def _with(finding: Finding, **fields: str | float) -> Finding:
    return finding.model_copy(update=fields)


async def _round_trip(
    ready: Callable[[str, float], Awaitable[object]], model: str, timeout: float
) -> float:
    """Median milliseconds of a call that computes nothing."""
    times = []
    for _ in range(_ROUND_TRIPS):
        start = time.perf_counter()
        await ready(model, timeout)
        times.append(1e3 * (time.perf_counter() - start))
    return round(statistics.median(times), 3)


def _show(finding: Finding) -> None:
    if finding.problem:
        say(f"✗ {finding.service:<14} {finding.endpoint} {finding.problem}", fg="red")
        say(f"  mend: {finding.mend}")
        return
    # Green is what was found right; of what was not checked it says so.
    unchecked = finding.answer in {_NOT_KNOWN, NOT_ASKED}
    mark, colour = ("?", "yellow") if unchecked else ("✓", "green")
    say(f"{mark} {finding.service:<14}", fg=colour, nl=False)
    say(
        f" {finding.endpoint} ({finding.server}), round trip {finding.round_trip_ms:.2f} ms, "
        f"{finding.answer}\n  {finding.identity}"
    )
    if finding.team:
        say(f"  known to the front door as team {finding.team}")
    if finding.access:
        say(
            f"  key and headers: {finding.access}",
            fg=None if finding.access == NEEDED else "yellow",
        )
