"""One judgement made several times: by several judges, or repeatedly by one.

What a generalist has a part in is judged once by each replica; under the dimension's own id
stands their mean. Everything else is judged once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..dimension import Derived, Dimension, Part, Reading, derived
from ..fusion import mean
from ..scorers.generalist import JUDGE

_ROLE, _, USUAL = JUDGE.partition(".")


class Replica(NamedTuple):
    """One judge, once.

    Attributes:
        judge: Name of the generalist, as in `generalist.<name>`.
        repeat: From 1.
    """

    judge: str
    repeat: int

    def of(self, dimension: str) -> str:
        """The id of a dimension as this replica judges it."""
        return f"{dimension}@{self.judge}.{self.repeat}"


@dataclass(frozen=True, slots=True)
class Replicas:
    """Which judges, and how often each is asked.

    Attributes:
        judges: Names of generalists, at least one.
        repeats: At least 1.
    """

    judges: tuple[str, ...] = (USUAL,)
    repeats: int = 1

    @property
    def each(self) -> tuple[Replica, ...]:
        """All of them; none where the usual judge is asked once."""
        if self == Replicas():
            return ()
        return tuple(Replica(j, 1 + i) for j in self.judges for i in range(self.repeats))


def is_replica(dimension: str) -> bool:
    """Whether an id is that of one replica's judgement."""
    return "@" in dimension


def replicated(known: Mapping[str, Dimension], replicas: Replicas) -> dict[str, Dimension]:
    """All dimensions by id: the judged ones as means of their replicas, which stand before them."""
    each = replicas.each
    judged = {name for name in known if each and _asks(name, known)}
    found: dict[str, Dimension] = {}
    for name, one in known.items():
        if name not in judged:
            found[name] = one
            continue
        for replica in each:
            made = replace(one, id=replica.of(name), how=_how(one.how, replica, judged))
            found[made.id] = made
        parts = [replica.of(name) for replica in each]
        found[name] = replace(one, how=derived(mean, *parts), variant=f"{one.variant}.mean")
    return found


def with_replicas(
    chosen: Iterable[Dimension], known: Mapping[str, Dimension]
) -> tuple[Dimension, ...]:
    """The chosen dimensions as `known` has them, each after its replicas."""
    names = [one.id for one in chosen]
    replicas: dict[str, list[Dimension]] = {}
    for one in known.values():
        if is_replica(one.id):
            replicas.setdefault(one.id.partition("@")[0], []).append(one)
    return tuple(one for name in names for one in (*replicas.get(name, ()), known[name]))


def _asks(name: str, known: Mapping[str, Dimension]) -> bool:
    one = known[name]
    return JUDGE in one.roles or any(_asks(part, known) for part in one.parts)


def _how(how: Reading | Derived, replica: Replica, judged: set[str]) -> Reading | Derived:
    if isinstance(how, Reading):
        return _reading(how, replica)

    def part(one: Part) -> Part:
        if isinstance(one, Reading):
            return _reading(one, replica)
        return replica.of(one) if one in judged else one

    return replace(how, of={name: part(one) for name, one in how.of.items()})


def _reading(one: Reading, replica: Replica) -> Reading:
    return replace(one, scorer=one.scorer.asked(f"{_ROLE}.{replica.judge}", replica.repeat - 1))
