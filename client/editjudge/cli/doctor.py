"""`editjudge doctor`: is every service reachable, ready and right?"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from ..answers import Option
from ..client import with_local_stack
from ..config import Settings
from ..errors import Abstained, ServiceError
from ..panel import SERVICES, Panel, Service, model_name
from ..panel.generalist import Generalist
from ..panel.probes import probe_inputs, wrong_answer
from ..panel.prompt import Prompt, Text
from ..panel.triton import TritonEndpoint
from ..report.result import dumps
from .options import (
    config_option,
    endpoint_option,
    generalist_option,
    json_option,
    services_at_hand,
    settings_of,
    with_generalist,
)

_ROUND_TRIPS = 5
_CHOICES = ("Yes", "No")
_QUESTION = Prompt("", (Text("Is water wet? Answer with one word, Yes or No."),))
_ANSWERS = {
    "logprobs": "choices by probabilities",
    "top_logprobs": "choices by the probabilities it lists",
    "sampled": "choices by sampled words",
}


@dataclass
class Finding:
    """What was found out about one service or endpoint; `problem` is empty where all is well."""

    service: str
    endpoint: str = ""
    server: str = ""
    identity: str = ""
    round_trip_ms: float | None = None
    answer: str = ""
    problem: str = ""
    mend: str = ""


@click.command("doctor")
@endpoint_option
@generalist_option
@config_option
@json_option
def command(endpoints: tuple[str, ...], config: Path | None, as_json: bool, **asking: Any) -> int:
    """Check every service: reachable, version, ready, round trip, and a known answer.

    Exit code 1 when something is wrong, with the mend.
    """
    settings = with_local_stack(with_generalist(settings_of(config, endpoints), **asking))
    # Whoever names a generalist only asks about that, or about the stack that runs already.
    alone = not settings.generalists
    with services_at_hand(settings, start=alone, say=lambda text: click.echo(text, err=True)) as s:
        findings = asyncio.run(_examine(s))
    if as_json:
        click.echo(dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            _show(finding)
    return 1 if any(finding.problem for finding in findings) else 0


async def _examine(settings: Settings) -> list[Finding]:
    if not settings.endpoints and not settings.generalists:
        return [
            Finding(
                "all",
                problem="no endpoint is configured and no local stack runs",
                mend='pip install "editjudge[serve]", or configure one (docs/configuration.md)',
            )
        ]
    # A reply of yesterday says nothing of today: none is taken from the ledger, or kept there.
    async with Panel(settings.model_copy(update={"ledger": None})) as panel:
        findings = [
            Finding(
                "all",
                endpoint=url,
                problem=problem,
                mend="check the address, the certificate and headers, and that the server runs",
            )
            for url, problem in panel.problems.items()
        ]
        demanded = {name for e in settings.endpoints.values() for name in e.services}
        # What an unreachable endpoint may serve is its own problem's business, named above.
        wanted = [n for n in SERVICES if n in panel.services or (n in demanded and not findings)]
        if settings.endpoints and not wanted and not findings:
            wanted = list(SERVICES)
        for name in wanted:
            findings += await _check(panel, name, settings.probe_timeout)
        return findings + [await _ask(one) for one in panel.generalists.values()]


async def _check(panel: Panel, name: str, timeout: float) -> list[Finding]:
    """Findings on a service, one for every endpoint that serves it."""
    bound = panel.services.get(name)
    if bound is None:
        model = model_name(name)
        mend = f"load the model {model} there, or list other `services` for the endpoint"
        return [Finding(name, problem=f"{name}: {panel.why_not(name)}", mend=mend)]
    return [await _check_at(endpoint, bound, timeout) for endpoint in bound.endpoints]


async def _check_at(endpoint: TritonEndpoint, bound: Service, timeout: float) -> Finding:
    name = bound.name
    finding = Finding(name, endpoint=endpoint.url, identity=str(bound.identity))
    try:
        finding.server = " ".join(await endpoint.server(timeout))
        finding.round_trip_ms = await _round_trip(endpoint.ready, bound.identity.model, timeout)
        reply = await bound.at(endpoint, probe_inputs(name.partition(".")[0]))
        wrong = wrong_answer(name, reply, bound.identity.parameters)
    except (ServiceError, Abstained) as error:
        finding.problem, finding.mend = str(error), "see the server's log"
        return finding
    finding.answer = f"known answer {'wrong' if wrong else 'right'}"
    if wrong:
        finding.problem = f"the known answer is wrong: {wrong}"
        finding.mend = "serve the model and weights of this version of editjudge"
    return finding


async def _ask(generalist: Generalist) -> Finding:
    """Ask a multimodal LLM something anybody knows; an untrained one need not."""
    finding = Finding(generalist.name, generalist.endpoint.url, generalist.model.server)
    start = time.perf_counter()
    try:
        method = await generalist.probe()
        if method == "sampled":  # no choice was asked for, or it got none
            await generalist.answer(_QUESTION, Option(_CHOICES))
    except ServiceError as error:
        finding.problem, finding.mend = str(error), "see the server's log"
        return finding
    except Abstained as error:
        # Random weights write anything; that they do is an answer.
        if error.kind != "unparsable" or "untrained" not in generalist.model.name:
            finding.problem = f"it gives no answer that can be read: {error}"
            finding.mend = "see that it is a chat model, and that max_tokens leaves room for it"
            return finding
    finding.round_trip_ms = round(1e3 * (time.perf_counter() - start), 3)
    finding.identity = generalist.identity
    finding.answer = _ANSWERS[method]
    if method == "sampled" and generalist.endpoint.logprobs == "auto":
        finding.problem = f"it tells no probabilities: {generalist.without_logprobs}"
        finding.mend = (
            'scores are sampled words; where that is meant, set logprobs = "never" for it'
        )
    elif generalist.model.facts.get("media") == "off":
        finding.problem = "it takes no images: its media processor is off"
        finding.mend = (
            "start vLLM with --mm-processor inprocess (older: SMG_VLLM_MM_PROCESSOR=inprocess)"
        )
    return finding


async def _round_trip(ready: object, model: str, timeout: float) -> float:
    """Median milliseconds of a call that computes nothing."""
    times = []
    for _ in range(_ROUND_TRIPS):
        start = time.perf_counter()
        await ready(model, timeout)  # type: ignore[operator]
        times.append(1e3 * (time.perf_counter() - start))
    return round(statistics.median(times), 3)


def _show(finding: Finding) -> None:
    if finding.problem:
        click.secho(f"✗ {finding.service:<14} {finding.endpoint} {finding.problem}", fg="red")
        click.echo(f"  mend: {finding.mend}")
        return
    click.secho(f"✓ {finding.service:<14}", fg="green", nl=False)
    click.echo(
        f" {finding.endpoint} ({finding.server}), round trip {finding.round_trip_ms:.2f} ms, "
        f"{finding.answer}\n  {finding.identity}"
    )
