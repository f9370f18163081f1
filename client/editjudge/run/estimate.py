"""What a run would take, before it is begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image as Pil

from ..config import GeneralistEndpoint, Settings
from ..dimension import Dimension, Scorer
from ..item import Item
from ..panel.pictures import fitted
from ..scorers.generalist import Asking
from .work import Order, Work

_GENERALIST = "generalist."
_SAMPLED = 200
_PIXELS_PER_TOKEN = 32 * 32
_LETTERS_PER_TOKEN = 4
# By field of a template: which images it shows.
_PICTURES = {
    "sources": {"sources"},
    "edited": {"edited"},
    "target": {"target"},
    "frames": {"sources", "edited"},
}


@dataclass
class Estimate:
    """What is left to do of a run, in numbers.

    Attributes:
        items: With something to judge.
        edits: With something to judge.
        verdicts: To be judged.
        calls: By service; at most, since what depends on an item alone is asked once. Averaged
            replies are counted (`repeats`), second tries are not.
        image_bytes: Of all image files that are read.
        prompt_tokens: By generalist; an image of n pixels is about n/1024 tokens.
        cost: Of these tokens and one generated token per call, where a price is configured.
        sampled: Edits whose images were looked at; the rest is taken to be like them.
        notes: What else is to be known of the judges, a line each.
    """

    items: int = 0
    edits: int = 0
    verdicts: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    image_bytes: int = 0
    prompt_tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    sampled: int = 0
    notes: tuple[str, ...] = ()

    @property
    def second_tries(self) -> dict[str, int]:
        """By generalist, how many calls come on top where no reply can be read."""
        return {name: count for name, count in self.calls.items() if name.startswith(_GENERALIST)}


def estimate(work: Work, settings: Settings) -> Estimate:
    """Counts every call; image sizes are read of a sample of items, spread over all."""
    found = Estimate(verdicts=work.total("todo"))
    wanted = sum(1 for flags in zip(*work.todo.values(), strict=True) if any(flags))
    step = max(1, wanted // _SAMPLED)
    tokens: Counter[str] = Counter()
    sizes = 0
    choosing: set[str] = set()
    folders = {
        model: work.order.dataset.outputs(folder) for model, folder in work.order.outputs.items()
    }
    for ref, models in work.items():
        looked_at = found.items % step == 0
        item = work.order.dataset.outline(ref)
        files = _sizes(work.order.dataset.pictures(ref)) if looked_at else {}
        if looked_at:
            sizes += sum(size for size, _ in files.values())
        for model, bits in models.items():
            scorers = _scorers(work.named(bits), work.order.known, item)
            for scorer, fields in scorers.items():
                found.calls.update(_calls(scorer, item, fields, settings))
                if isinstance(scorer, Asking) and scorer.choices(item):
                    choosing.add(scorer.service)
            if looked_at:
                output = folders[model].path(ref.id)
                own = _sizes((Path(output),) if output else ())
                sizes += sum(size for size, _ in own.values())
                tokens.update(_tokens(scorers, item, files, own, settings))
                found.sampled += 1
        found.items += 1
        found.edits += len(models)
    scale = found.edits / found.sampled if found.sampled else 0
    found.image_bytes = round(sizes * scale)
    found.prompt_tokens = {service: round(count * scale) for service, count in tokens.items()}
    found.cost = _cost(found, settings)
    found.notes = (*notes(work.order, settings), *_uncertain(found, choosing, settings))
    return found


def notes(order: Order, settings: Settings) -> tuple[str, ...]:
    """Why the repeats of a run may be pointless, a line for each judge; `run` tells it too."""
    if order.replicas.repeats == 1:
        return ()
    return tuple(
        f"{service}: temperature is 0, so repeats differ by their seed alone, and a deterministic"
        " server gives a spread of 0; set a temperature"
        for service in sorted(order.roles(one.id for one in order.dimensions))
        for endpoint in (_endpoint(service, settings),)
        if endpoint is not None and not endpoint.temperature
    )


def _uncertain(found: Estimate, choosing: Collection[str], settings: Settings) -> Iterator[str]:
    """What calls depend on that only the judge can tell.

    Args:
        choosing: The generalists that are asked for choices.
    """
    for service in found.calls:
        endpoint = _endpoint(service, settings)
        if endpoint is None or endpoint.logprobs == "never":
            continue
        yield f"{service}: 1 short call more where it is not known whether it tells probabilities"
        if endpoint.repeats > 1 and service in choosing:
            yield (
                f"{service}: choices are counted {endpoint.repeats} times (repeats); they are"
                " asked once where it tells probabilities"
            )


def lines(found: Estimate, work: Work) -> list[str]:
    """The estimate for people."""
    done = work.total("standing")
    said = [
        f"{found.verdicts:,} verdicts on {found.edits:,} edits of {found.items:,} items"
        + (f"; {done:,} are there already" if done else ""),
        f"{found.image_bytes / 1e6:,.1f} MB of images",
    ]
    said += call_lines(found)
    said += [f"{service}: about {n:,} prompt tokens" for service, n in found.prompt_tokens.items()]
    if found.cost is not None:
        said.append(f"cost about {found.cost:,.4g}, without what is generated or asked again")
    said += found.notes
    for model, (count, reason) in work.missing.items():
        if count:
            said.append(f"{model}: {count:,} outputs are missing (first: {reason})")
    return said


def call_lines(found: Estimate) -> list[str]:
    """The calls for people, a line for each service."""
    again = ", and as many again where no reply can be read"
    return [
        f"{service}: at most {count:,} calls" + (again if service in found.second_tries else "")
        for service, count in found.calls.items()
    ]


def as_json(found: Estimate) -> dict[str, Any]:
    """The estimate as plain data."""
    return {
        "items": found.items,
        "edits": found.edits,
        "verdicts": found.verdicts,
        "calls": dict(found.calls),
        "second_tries": found.second_tries,
        "image_bytes": found.image_bytes,
        "prompt_tokens": found.prompt_tokens,
        "cost": found.cost,
        "notes": list(found.notes),
    }


def _endpoint(service: str, settings: Settings) -> GeneralistEndpoint | None:
    return settings.generalists.get(service.removeprefix(_GENERALIST))


def _calls(
    scorer: Scorer, item: Item, fields: frozenset[str], settings: Settings
) -> Mapping[str, int]:
    """Calls of one edit by service, with the replies that the judge's settings have averaged."""
    calls = scorer.calls(item, fields)
    if not isinstance(scorer, Asking):
        return calls
    asked, made = scorer.asks(item), _replies(scorer, item, settings)
    if asked == made:
        return calls
    more = sum(made.values()) - sum(asked.values())
    return {**calls, scorer.service: calls[scorer.service] + more}


def _replies(scorer: Asking, item: Item, settings: Settings) -> Mapping[str, int]:
    endpoint = _endpoint(scorer.service, settings)
    return scorer.asks(item) if endpoint is None else scorer.replies(item, endpoint)


def _scorers(
    dimensions: tuple[Dimension, ...], known: Mapping[str, Dimension], item: Item
) -> dict[Scorer, frozenset[str]]:
    """The ways of judging an edit, each with its fields; parts that do not apply have none."""
    from .plan import in_order

    found: dict[Scorer, frozenset[str]] = {}
    for dimension in in_order(dimensions, known):
        if dimension.not_applicable(item) is not None:
            continue
        for reading in dimension.readings:
            found[reading.scorer] = found.get(reading.scorer, frozenset()) | {reading.field}
    return found


def _sizes(paths: tuple[Path, ...]) -> dict[Path, tuple[int, tuple[int, int]]]:
    """Bytes and pixels of image files, from their heads; what cannot be read has none."""
    found = {}
    for path in paths:
        try:
            with Pil.open(path) as picture:
                found[path] = path.stat().st_size, picture.size
        except (OSError, ValueError, SyntaxError, Pil.DecompressionBombError):
            found[path] = 0, (1, 1)
    return found


def _tokens(
    scorers: Mapping[Scorer, frozenset[str]],
    item: Item,
    given: Mapping[Path, tuple[int, tuple[int, int]]],
    own: Mapping[Path, tuple[int, tuple[int, int]]],
    settings: Settings,
) -> Counter[str]:
    """Prompt tokens of one edit by generalist."""
    total: Counter[str] = Counter()
    texts = len(item.instruction) + len(item.hint or "") + len(item.target_text or "")
    for scorer in scorers:
        if not isinstance(scorer, Asking):
            continue
        endpoint = _endpoint(scorer.service, settings)
        budget = endpoint.max_pixels if endpoint else 1024 * 1024
        templates = {one.name: one for one in scorer.templates.values()}
        for name, times in _replies(scorer, item, settings).items():
            template = templates[name]
            shown = set[str]().union(*(_PICTURES.get(name, ()) for name in template.fields))
            count = len(item.sources)
            sizes = [size for _, size in given.values()]
            pictures = sizes[:count] if "sources" in shown else []
            if "target" in shown and item.target is not None:
                pictures = [*pictures, sizes[-1]]
            if "edited" in shown:
                pictures = [*pictures, *(size for _, size in own.values())]
            pixels = sum(w * h for w, h in (fitted(size, budget) for size in pictures))
            letters = len(template.system) + len(template.user) + len(template.answer) + texts
            total[scorer.service] += times * (
                pixels // _PIXELS_PER_TOKEN + letters // _LETTERS_PER_TOKEN
            )
    return total


def _cost(found: Estimate, settings: Settings) -> float | None:
    total = None
    for service, tokens in found.prompt_tokens.items():
        endpoint = _endpoint(service, settings)
        if endpoint is not None and endpoint.price is not None:
            total = (total or 0.0) + endpoint.price.of(tokens, 0, found.calls[service])
    return total
