"""Estimates the calls, tokens and cost of a run before it starts."""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

from PIL import Image as Pil
from pydantic import Field
from pydantic.dataclasses import dataclass as result

from ..base.config import JudgeEndpoint, Settings
from ..base.identity import Identities, ServiceName
from ..base.item import Item
from ..base.objects import find_url, read_object
from ..base.strict import STRICT
from ..base.text import format_count, group_by_key
from ..benchmarks.dimension import Dimension
from ..engine.outcomes import Circumstances, find_pending_fields, sort_by_dependency
from ..engine.run_inputs import RunInputs
from ..engine.run_plan import RunPlan
from ..panel.prompt import PIXELS_PER_TOKEN, fit_size
from ..panel.transport import MAX_TOKENS
from ..panel.words import describe_sampling
from ..prompts import Template
from ..scorers.judge_scorer import JudgeScorer, Question

_SAMPLE_SIZE = 200
"""About how many edits' images are measured."""
_LETTERS_PER_TOKEN = 4
# The images that each field of a template shows.
_IMAGES = {"sources": {"source"}, "edited": {"edited"}, "target": {"target"}, "frames": {"source", "edited"}}


@result(config=STRICT)
class Estimate:
    """`run --dry-run --json`: the remaining work of a run, in numbers.

    Attributes:
        items: Number of items with something to judge.
        edits: Number of edits with something to judge.
        verdicts: Number of verdicts to judge.
        calls: Upper bound of the number of calls, by service; a question that depends on the item
            only is asked once. Averaged replies are counted (`samples`). A judge gets as many calls
            again where no reply can be read.
        prompt_tokens: By judge; an image of n pixels has about n/1024 tokens.
        cost: Cost of these tokens and one generated token per call, if a price is configured. None
            through a Judge service, which has its own prices.
        sample_size: Number of edits whose images were measured; the others are assumed to be like
            them.
        notes: Remarks on the dimensions and the judges, a line each.
    """

    items: int = 0
    edits: int = 0
    verdicts: int = 0
    calls: Counter[ServiceName] = field(default_factory=Counter)
    prompt_tokens: dict[ServiceName, int] = field(default_factory=dict)
    cost: float | None = None
    sample_size: Annotated[int, Field(exclude=True)] = 0
    notes: tuple[str, ...] = ()


def estimate(plan: RunPlan, settings: Settings) -> Estimate:
    """Count every call of a plan; read image sizes of a sample of items, spread over all.

    Calls that a ledger answers are counted like the others.
    """
    forecast = Estimate(verdicts=plan.total("todo"))
    edit_count = sum(1 for todo in zip(*plan.todo.values(), strict=True) if any(todo))
    step = max(1, edit_count // _SAMPLE_SIZE)
    tokens: Counter[ServiceName] = Counter()
    dataset = plan.inputs.dataset
    folders = {model: dataset.outputs(folder) for model, folder in plan.inputs.outputs.items()}
    for ref, models in plan.list_unfinished_items():
        item, is_sampled = dataset.outline(ref), forecast.items % step == 0
        for model, names in models.items():
            dimensions = plan.select_dimensions(names)
            calls, questions = _count_calls(dimensions, plan.inputs.dimensions_by_id, item, settings)
            forecast.calls.update(calls)
            if is_sampled:
                output = folders[model].path(ref.id)
                pictures = {**dataset.image_paths(ref), "edited": (Path(output),) if output else ()}
                tokens.update(_count_prompt_tokens(questions, item, pictures, settings))
                forecast.sample_size += 1
        forecast.items += 1
        forecast.edits += len(models)
    scale = forecast.edits / forecast.sample_size if forecast.sample_size else 0
    forecast.prompt_tokens = {service: round(count * scale) for service, count in tokens.items()}
    forecast.cost, notes = _compute_cost(forecast, settings)
    forecast.notes = (*judge_notes(plan.inputs, settings), *notes)
    return forecast


def judge_notes(order: RunInputs, settings: Settings) -> tuple[str, ...]:
    """Warn of settings of the judges, a line each: equal rounds, and limits that are too short."""
    if settings.gateway is not None:
        return (f"judged through the Judge service at {settings.gateway.url}",)
    return (*_warn_of_equal_rounds(order, settings), *_warn_of_short_limits(order, settings))


def describe_sampled_judges(order: RunInputs, identities: Identities) -> Iterator[str]:
    """Say what judges without token probabilities mean for choices, a line for each of them."""
    for service, templates in sorted(_templates_by_judge(order).items()):
        identity = identities.get(ServiceName.parse(service))
        note = describe_sampling(identity) if identity else ""
        if note and any(template.choices for template in templates):
            yield f"{service}: {note}"


def _warn_of_short_limits(order: RunInputs, settings: Settings) -> Iterator[str]:
    """Warn of judges whose `max_tokens` is below the limit that a prompt needs."""
    for service, templates in sorted(_templates_by_judge(order).items()):
        endpoint = _endpoint(ServiceName.parse(service), settings)
        limit = endpoint.max_tokens if endpoint else None
        # The default limit is no requirement of a prompt: official settings are below it.
        longer = [one for one in templates if one.max_tokens > max(limit or 0, MAX_TOKENS)]
        if limit is not None and longer:
            names = ", ".join(sorted({one.name for one in longer}))
            longest = max(one.max_tokens for one in longer)
            yield (
                f"{service}: max_tokens is {limit:,}, below the limit of {names}: a truncated reply"
                f" has no score; leave it out, or set it to {longest:,}"
            )


def _templates_by_judge(order: RunInputs) -> dict[str, list[Template]]:
    """Map each judge to the templates that the requested dimensions use."""
    dimensions = sort_by_dependency(order.dimensions, order.dimensions_by_id)
    scorers = (reading.scorer for dimension in dimensions for reading in dimension.readings)
    judges = (scorer for scorer in scorers if isinstance(scorer, JudgeScorer))
    return group_by_key((judge.service, template) for judge in judges for template in judge.templates)


def _warn_of_equal_rounds(order: RunInputs, settings: Settings) -> tuple[str, ...]:
    """Warn of rounds that may give equal replies, a line for each judge."""
    if order.judge_rounds.rounds == 1:
        return ()
    return tuple(
        f"{service}: its temperature is 0, so rounds differ only by their seed, and a deterministic"
        " server gives equal replies; set a temperature"
        for service in sorted(order.roles(one.id for one in order.dimensions))
        for endpoint in (_endpoint(service, settings),)
        if endpoint is not None and endpoint.is_greedy
    )


def describe_estimate(forecast: Estimate, plan: RunPlan) -> list[str]:
    """Format an estimate as lines of text."""
    earlier = plan.total("standing")
    lines = [
        f"{format_count(forecast.verdicts, 'verdict')} on"
        f" {format_count(forecast.edits, 'edit')} of {format_count(forecast.items, 'item')}"
        + (f"; {earlier:,} exist already" if earlier else "")
    ]
    retries = ", and as many again if no reply can be read"
    lines += [
        f"{service}: at most {format_count(count, 'call')}" + retries * service.is_judge
        for service, count in forecast.calls.items()
    ]
    lines += [f"{judge}: about {n:,} prompt tokens" for judge, n in forecast.prompt_tokens.items()]
    if forecast.edits and forecast.calls:
        parts = (_describe_use(forecast, service) for service in forecast.calls)
        lines.append(f"an edit: {'; '.join(parts)}")
    if forecast.cost is not None:
        lines.append(f"cost about {forecast.cost:,.4g}, without generated tokens and retries")
    lines += forecast.notes
    for model, (count, reason) in plan.missing.items():
        if count:
            lines.append(f"{model}: {format_count(count, 'output is', 'outputs are')} missing (first: {reason})")
    lines += plan.unmatched_file_notes
    return lines


def _describe_use(forecast: Estimate, service: ServiceName) -> str:
    calls, tokens = (each.get(service, 0) / forecast.edits for each in (forecast.calls, forecast.prompt_tokens))
    words = f"{service} {calls:,.3g} {'call' if calls == 1 else 'calls'}"
    return words + (f", {tokens:,.0f} prompt tokens" if tokens else "")


def count_calls(plan: RunPlan, names: frozenset[str], settings: Settings) -> Counter[ServiceName]:
    """Count the calls of a plan for some dimensions at most, by service.

    Args:
        names: Ids of the dimensions.
    """
    calls: Counter[ServiceName] = Counter()
    for ref, models in plan.list_unfinished_items():
        item = plan.inputs.dataset.outline(ref)
        for todo in models.values():
            dimensions = plan.select_dimensions(todo & names)
            calls.update(_count_calls(dimensions, plan.inputs.dimensions_by_id, item, settings)[0])
    return calls


def _endpoint(service: ServiceName, settings: Settings) -> JudgeEndpoint | None:
    """The endpoint of a judge; None for a specialist, and through a Judge service."""
    if settings.gateway is not None or not service.is_judge:
        return None
    return settings.judges.get(service.variant)


def _count_calls(
    dimensions: tuple[Dimension, ...], dimensions_by_id: Mapping[str, Dimension], item: Item, settings: Settings
) -> tuple[Counter[ServiceName], list[tuple[ServiceName, Question]]]:
    """Count the calls for one edit, and list the questions to judges among them.

    A scorer whose questions cannot be built for the item is left out, since its edit fails before
    the first call.
    """
    sequence = sort_by_dependency(dimensions, dimensions_by_id)
    calls: Counter[ServiceName] = Counter()
    questions: list[tuple[ServiceName, Question]] = []
    for scorer, fields in find_pending_fields(sequence, Circumstances(item).decide(sequence)).items():
        counts = {ServiceName.parse(name): n for name, n in scorer.calls(item, fields).items()}
        if isinstance(scorer, JudgeScorer):
            service = ServiceName.parse(scorer.service)
            try:
                questions += [(service, question) for question in scorer.questions(item)]
            except ValueError:
                continue
            counts.pop(service, None)  # counted by question instead
        calls.update(counts)
    for service, question in questions:
        calls[service] += question.max_calls(_endpoint(service, settings))
    return calls, questions


def _read_size(path: Path) -> tuple[int, int]:
    """Read width and height from the header of an image file; (1, 1) if it is not an image."""
    try:
        url = find_url(path)
        with Pil.open(io.BytesIO(read_object(url)) if url else path) as picture:
            return picture.size
    except (OSError, ValueError, SyntaxError, Pil.DecompressionBombError):
        return 1, 1


def _count_prompt_tokens(
    questions: Sequence[tuple[ServiceName, Question]],
    item: Item,
    pictures: Mapping[str, Sequence[Path]],
    settings: Settings,
) -> Counter[ServiceName]:
    """Estimate the prompt tokens of one edit, by judge.

    Args:
        pictures: Files of the item and the edit, by the name of their field.
    """
    total: Counter[ServiceName] = Counter()
    sizes = {name: [*map(_read_size, files)] for name, files in pictures.items() if questions}
    texts = len(item.instruction) + len(item.hint or "") + len(item.target_text or "")
    for service, question in questions:
        endpoint, template = _endpoint(service, settings), question.template
        budget = endpoint.max_pixels if endpoint else 1024 * 1024
        images = set[str]().union(*(_IMAGES.get(name, ()) for name in template.fields))
        sent_sizes = (fit_size(size, budget) for name in images for size in sizes.get(name, ()))
        pixels = sum(width * height for width, height in sent_sizes)
        letters = len(template.system) + len(template.user) + len(template.answer) + texts
        per_call = pixels // PIXELS_PER_TOKEN + letters // _LETTERS_PER_TOKEN
        total[service] += question.max_calls(endpoint) * per_call
    return total


def _compute_cost(forecast: Estimate, settings: Settings) -> tuple[float | None, list[str]]:
    """Add up what judges cost, and name those without a price if others have one."""
    tokens = forecast.prompt_tokens
    endpoints = {name: _endpoint(name, settings) for name in tokens}
    prices = {name: endpoint.price if endpoint else None for name, endpoint in endpoints.items()}
    costs = [price.of(tokens[name], 0, forecast.calls[name]) for name, price in prices.items() if price]
    names = ", ".join(name for name, price in prices.items() if not price)
    notes = [f"the cost leaves out {names}: no price is configured"] if names and costs else []
    return sum(costs) if costs else None, notes
