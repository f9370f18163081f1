"""What changed since verdicts were made, and which of them are judged again for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from pydantic import JsonValue

from ..base.differences import NOTHING, Difference, by_digest, roots
from ..base.identity import UNASKED, ServiceName
from .runplan import RunPlan

_UNKNOWN = Difference("unknown", "", "", NOTHING, NOTHING)
_NAMED = 3


class Stale(NamedTuple):
    """A verdict that does not stand, since its signature is not today's."""

    item: str
    model: str
    dimension: str
    signature: str


class Signed(Protocol):
    """Where verdicts are kept, as far as is asked here."""

    def stale(self, signatures: Mapping[str, str]) -> Iterable[Stale]:
        """The verdicts on these dimensions, other than failed ones, by other signatures."""


@dataclass(frozen=True)
class Outdated:
    """Verdicts that are judged again, and why.

    Attributes:
        causes: In what the signatures of these verdicts differ from today's.
        left: The part of a plan that is left to do for it alone.
        dimensions: Of these verdicts, in the order of the plan.
        verdicts: How many there are.
    """

    causes: tuple[Difference, ...]
    left: RunPlan
    dimensions: tuple[str, ...]
    verdicts: int

    @property
    def text(self) -> str:
        """What changed, in words."""
        if self.causes == (_UNKNOWN,):
            return str(_UNKNOWN)  # whether they are others is not known yet
        more = len(self.causes) - _NAMED
        named = " and ".join(map(str, self.causes[:_NAMED]))
        return named + (f" and {more} more" if more > 0 else "") + " changed"


def outdated(
    plan: RunPlan,
    store: Signed,
    before: Mapping[str, JsonValue] | None = None,
    now: Mapping[str, JsonValue] | None = None,
) -> list[Outdated]:
    """The verdicts that a plan judges again, one for each set of causes.

    Args:
        before: Settings of the last session, which stand for the judges where these were not asked
            yet; see `asking`.
        now: The same of today.
    """
    if not plan.edits:
        return []
    places = {item: place for place, item in enumerate(plan.ids)}
    stale = [
        one
        for one in store.stale(plan.signatures)
        if one.item in places
        and one.model in plan.todo
        and one.dimension in plan.todo[one.model][places[one.item]]
    ]
    causes = _causes(stale, plan, _Settings(before or {}, now or {}))
    by_cause: dict[tuple[Difference, ...], list[Stale]] = {}
    for verdict in stale:
        by_cause.setdefault(causes[verdict.dimension, verdict.signature], []).append(verdict)
    return [_outdated(of, rows, plan, places) for of, rows in by_cause.items()]


class _Settings(NamedTuple):
    before: Mapping[str, Any]
    now: Mapping[str, Any]

    def differences(self, role: str) -> list[Difference]:
        """In what a generalist is asked otherwise; nothing of a specialist."""
        name = ServiceName.parsed(role).variant
        old, new = (one.get("generalists", {}).get(name, {}) for one in self)
        return [
            Difference("setting", role, key, str(old.get(key, "")), str(new.get(key, "")))
            for key in dict.fromkeys((*old, *new))
            if ServiceName.parsed(role).is_generalist and old.get(key) != new.get(key)
        ]


def _causes(
    stale: Iterable[Stale], plan: RunPlan, settings: _Settings
) -> dict[tuple[str, str], tuple[Difference, ...]]:
    """By dimension and earlier signature, in what it differs from today's."""
    pairs = dict.fromkeys((one.dimension, one.signature) for one in stale)
    old, new = by_digest(text for _, text in pairs), by_digest(plan.signatures.values())
    return {
        (name, text): _as_asked(roots(text, plan.signatures[name], old, new), settings)
        for name, text in pairs
    }


def _as_asked(differences: Iterable[Difference], settings: _Settings) -> tuple[Difference, ...]:
    """Where a service was not asked yet, its settings stand for it."""
    known: dict[Difference, None] = {}
    for each in differences:
        if each.kind in {"model", "service"} and each.after in {NOTHING, UNASKED}:
            known.update(dict.fromkeys(settings.differences(each.of)))
        else:
            known[each] = None
    return tuple(known) or (_UNKNOWN,)


def _outdated(
    causes: tuple[Difference, ...], stale: list[Stale], plan: RunPlan, places: Mapping[str, int]
) -> Outdated:
    left = {model: [frozenset[str]()] * len(todo) for model, todo in plan.todo.items()}
    for verdict in stale:
        left[verdict.model][places[verdict.item]] |= {verdict.dimension}
    names = {one.dimension for one in stale}
    dimensions = tuple(d.id for d in plan.order.dimensions if d.id in names)
    return Outdated(causes, replace(plan, todo=left), dimensions, len(stale))
