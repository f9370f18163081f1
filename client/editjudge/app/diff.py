"""What two runs differ in: what was asked, of what, by whom, and in which numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..base.differences import Difference, by_digest, of_identities, of_versions, roots
from ..base.digest import content_digest
from ..engine.header import RunHeader
from ..storage.named import NamedEdit, NamedItem, Said
from .view import RunView

Place: TypeAlias = tuple[str, str]
"""Model and item."""
_ASKED = ("benchmark", "protocol", "data_digest", "repeats")


class Only(NamedTuple):
    """What only one of two runs has.

    Attributes:
        first: How many only the first has, and one of them.
        second: The same of the second.
    """

    first: tuple[int, str]
    second: tuple[int, str]


@dataclass
class Signed:
    """Verdicts whose signatures differ in the same.

    Attributes:
        differences: In what.
        verdicts: How many there are, by dimension.
    """

    differences: tuple[Difference, ...]
    verdicts: Counter[str] = field(default_factory=Counter)


@dataclass
class Valued:
    """Verdicts of one dimension on the same items and outputs, by one signature, that differ.

    Attributes:
        verdicts: How many.
        largest: Between two numbers, on the dimension's scale; 0 where only one has a number.
        where: Model and item of the largest, or of the first.
    """

    verdicts: int = 0
    largest: float = 0.0
    where: Place = ("", "")


@dataclass
class RunDifference:
    """What two runs differ in.

    Attributes:
        asked: What was asked for, by the name of the fact, in both.
        services: In what the identities of services differ.
        only: By kind (`models`, `items`, `dimensions`, `verdicts`) what only one has; of verdicts
            only where both have the edit and the dimension.
        items: How many items of both are others (what the data says of them, or their pictures),
            and the first; nothing of runs that do not know their items one by one.
        outputs: By model, how many outputs are others, and the first item.
        signed: Verdicts with other signatures, by what these differ in.
        valued: By dimension, verdicts that differ although nothing they depend on does.
        versions: In what versions of packages the verdicts were made that both have.
        same: Verdicts that are the same in both.
    """

    asked: dict[str, tuple[str, str]] = field(default_factory=dict)
    services: tuple[Difference, ...] = ()
    only: dict[str, Only] = field(default_factory=dict)
    items: tuple[int, str] = (0, "")
    outputs: dict[str, tuple[int, str]] = field(default_factory=dict)
    signed: list[Signed] = field(default_factory=list)
    valued: dict[str, Valued] = field(default_factory=dict)
    versions: tuple[Difference, ...] = ()
    same: int = 0

    @property
    def is_none(self) -> bool:
        """Whether they say the same, made in the same way."""
        told = (self.asked, self.services, self.only, self.outputs, self.signed, self.valued)
        return not any(told) and not self.items[0] and not self.versions


def diff(first: Path, second: Path) -> RunDifference:
    """Compare two runs; nothing but their files is looked at.

    Raises:
        ConfigError: a folder holds no run.
        StoreError: a run is damaged.
    """
    with RunView(first) as before, RunView(second) as after:
        return _compared(before, after)


def _compared(before: RunView, after: RunView) -> RunDifference:
    headers = before.header, after.header
    dimensions = tuple(frozenset(header.dimensions) for header in headers)
    comparison = _Comparison(before.signatures, after.signatures, dimensions[0] ^ dimensions[1])
    for pair in _side_by_side(before.by_name(), after.by_name()):
        comparison.item(*pair)
    told = comparison.told
    told.asked = dict(_asked(*headers))
    told.services = tuple(_services(*headers))
    only = {
        "models": _only(*(of.keys() for of in comparison.models)),
        "items": comparison.items,
        "dimensions": _only(*dimensions),
        "verdicts": comparison.alone,
    }
    for kind, (mine, others) in only.items():
        if mine.count or others.count:
            told.only[kind] = Only((mine.count, mine.first), (others.count, others.first))
    return told


def _side_by_side(
    before: Iterator[NamedItem], after: Iterator[NamedItem]
) -> Iterator[tuple[NamedItem | None, NamedItem | None]]:
    """The items of two runs, both in the order of their ids; None for one that a run lacks."""
    mine, others = next(before, None), next(after, None)
    while mine is not None or others is not None:
        if others is None or (mine is not None and mine.id < others.id):
            yield mine, None
            mine = next(before, None)
        elif mine is None or others.id < mine.id:
            yield None, others
            others = next(after, None)
        else:
            yield mine, others
            mine, others = next(before, None), next(after, None)


@dataclass
class _Few:
    """How many there are of something, and the first by name."""

    count: int = 0
    first: str = ""

    def add(self, name: str) -> None:
        self.first = name if not self.count else min(self.first, name)
        self.count += 1


class _Comparison:
    """Two runs side by side, item by item: of each item both are seen, and nothing is held.

    Args:
        before: The signatures of the first.
        after: Those of the second.
        unshared: The dimensions that only one of them was asked for.

    Attributes:
        told: What they differ in.
        models: Those of the first, and those of the second.
        items: Items that only the first has, and those that only the second has.
        alone: The same of verdicts.
    """

    def __init__(
        self, before: Collection[str], after: Collection[str], unshared: Collection[str]
    ) -> None:
        self.told = RunDifference()
        self.models: tuple[dict[str, None], dict[str, None]] = {}, {}
        self.items = _Few(), _Few()
        self.alone = _Few(), _Few()
        self._digests = by_digest(before), by_digest(after)
        self._unshared = unshared
        self._pairs: dict[tuple[str, str], tuple[Difference, ...]] = {}
        self._signed: dict[tuple[Difference, ...], Signed] = {}

    def item(self, mine: NamedItem | None, others: NamedItem | None) -> None:
        """Compare the next item."""
        for models, of in zip(self.models, (mine, others), strict=True):
            models.update(dict.fromkeys(of.edits if of else ()))
        if mine is None or others is None:
            for few, of in zip(self.items, (mine, others), strict=True):
                if of is not None:
                    few.add(of.id)
            return
        shared = mine.edits.keys() & others.edits.keys()
        known = mine.state is not None and others.state is not None
        changed = known and not mine.state.is_of(others.state)  # type: ignore[union-attr, arg-type]
        if changed and shared:
            count, first = self.told.items
            self.told.items = count + 1, first or mine.id
        for model in sorted(shared):
            edits = mine.edits[model], others.edits[model]
            other = edits[0].digest != edits[1].digest
            if other:
                count, first = self.told.outputs.get(model, (0, mine.id))
                self.told.outputs[model] = count + 1, first
            self._verdicts((model, mine.id), *edits, same=not (changed or other))

    def _verdicts(self, place: Place, mine: NamedEdit, others: NamedEdit, *, same: bool) -> None:
        """Compare the verdicts of an edit that both have.

        Args:
            same: They rest on the same item and output.
        """
        for dimension in sorted(mine.verdicts.keys() | others.verdicts.keys()):
            first, second = mine.verdicts.get(dimension), others.verdicts.get(dimension)
            if first is None or second is None:
                if dimension not in self._unshared:
                    self.alone[first is None].add(f"{dimension} of {place[0]} for {place[1]}")
            elif first.signature != second.signature:
                self._other_signatures(first.signature, second.signature, dimension)
            else:
                versions = of_versions(first.versions, second.versions)
                self.told.versions = tuple(dict.fromkeys((*self.told.versions, *versions)))
                if same:
                    self._compare_values(dimension, place, first, second)

    def _other_signatures(self, mine: str, others: str, dimension: str) -> None:
        pair = mine, others
        if pair not in self._pairs:
            self._pairs[pair] = roots(*pair, *self._digests)
        causes = self._pairs[pair]
        if causes not in self._signed:
            self._signed[causes] = Signed(causes)
            self.told.signed.append(self._signed[causes])
        self._signed[causes].verdicts[dimension] += 1

    def _compare_values(self, dimension: str, place: Place, mine: Said, others: Said) -> None:
        """Compare what rests on the same item and output, and has the same signature."""
        if (mine.status, mine.value) == (others.status, others.value):
            self.told.same += 1
            return
        valued = self.told.valued.setdefault(dimension, Valued(where=place))
        valued.verdicts += 1
        if mine.value is not None and others.value is not None:
            apart = abs(mine.value - others.value)
            if apart > valued.largest:
                valued.largest, valued.where = apart, place


def _only(mine: Iterable[str], others: Iterable[str]) -> tuple[_Few, _Few]:
    """What only one of two has."""
    sets = frozenset(mine), frozenset(others)
    few = _Few(), _Few()
    for of, names in zip(few, (sets[0] - sets[1], sets[1] - sets[0]), strict=True):
        for name in names:
            of.add(name)
    return few


def _asked(before: RunHeader, after: RunHeader) -> Iterator[tuple[str, tuple[str, str]]]:
    for name in _ASKED:
        yield from _unequal(name, getattr(before, name), getattr(after, name))
    yield from _unequal("judges", ", ".join(before.judges), ", ".join(after.judges))
    for file in sorted({**before.prompts, **after.prompts}):
        texts = before.prompts.get(file, ""), after.prompts.get(file, "")
        digests = (content_digest(text.encode()) if text else "" for text in texts)
        yield from _unequal(f"prompt file {file}", *digests)


def _unequal(name: str, mine: object, others: object) -> Iterator[tuple[str, tuple[str, str]]]:
    if mine != others:
        yield name, (str(mine), str(others))


def _services(before: RunHeader, after: RunHeader) -> Iterator[Difference]:
    for role in sorted({*before.identities, *after.identities}):
        texts = (str(one.identities.get(role, "")) for one in (before, after))
        yield from of_identities(role, *texts)
