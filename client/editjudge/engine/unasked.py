"""Dimensions that were asked for and ask nothing of any item."""

from __future__ import annotations

from ..base.errors import InputError
from ..base.verdict import NotApplicable
from .fold import fold
from .runplan import Observed

_NAMED = 3  # dimensions in a line


def unasked(observed: Observed) -> dict[str, tuple[str, ...]]:
    """The dimensions asked for that apply to no item asked for, by why not to the first."""
    reasons = {one.id: "" for one in observed.order.dimensions if not one.round_of}
    for outline in observed.outlines:
        if not reasons:
            break
        outcomes = fold(observed.dimensions, outline)
        for name, why in tuple(reasons.items()):
            outcome = outcomes[name]
            if isinstance(outcome, NotApplicable):
                reasons[name] = why or outcome.reason
            else:
                del reasons[name]
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name)
    return {why: tuple(names) for why, names in by_reason.items() if why}


def told_of_unasked(observed: Observed) -> tuple[str, ...]:
    """The same for people, a line for each reason."""
    lines = []
    for why, names in unasked(observed).items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        lines.append(f"no item can be asked {', '.join(names[:_NAMED])}{more} ({why})")
    return tuple(lines)


def check_asked(observed: Observed) -> None:
    """That anything asks something; of a shard nothing may be left.

    Raises:
        InputError: every dimension asks nothing of any item.
    """
    order = observed.order
    nothing = unasked(observed)
    chosen = sum(not one.round_of for one in order.dimensions)
    if order.shard == (0, 1) and chosen and sum(map(len, nothing.values())) == chosen:
        raise InputError(
            "--dimension",
            "; ".join(told_of_unasked(observed)),
            "choose others (editjudge list dimensions), or add to the items what these need",
        )
