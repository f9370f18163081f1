"""What two runs differ in: what was asked, of what, by whom, and in which numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..base.differences import Difference, by_digest, of_identities, of_versions, roots
from ..base.digest import content_digest
from ..engine.header import RunHeader
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
    edits = _edits(before), _edits(after)
    dimensions = [set(header.dimensions) for header in headers]
    comparison = _Comparison(
        {place: edits[0][place] for place in edits[0].keys() & edits[1].keys()},
        dimensions[0] ^ dimensions[1],
    )
    comparison.items(before.other_items(after))
    comparison.outputs(edits[1])
    comparison.verdicts(_verdicts(before), _verdicts(after))
    told = comparison.told
    told.asked = dict(_asked(*headers))
    told.services = tuple(_services(*headers))
    sets = {
        "models": [{model for model, _ in each} for each in edits],
        "items": [{item for _, item in each} for each in edits],
        "dimensions": dimensions,
        "verdicts": comparison.alone,
    }
    for kind, (mine, others) in sets.items():
        if mine != others:
            told.only[kind] = Only(_counted(mine - others), _counted(others - mine))
    return told


def _edits(run: RunView) -> dict[Place, str | None]:
    """Digest of the output by model and item; none where it is missing."""
    return {(edit.model, edit.item): edit.digest for edit in run.edits()}


class _Said(NamedTuple):
    """A verdict, as far as it is compared."""

    status: str
    value: float | None
    signature: str
    versions: str


_Verdicts: TypeAlias = dict[tuple[Place, str], _Said]


def _verdicts(run: RunView) -> _Verdicts:
    """By edit and dimension."""
    return {
        ((stored.model, stored.item), stored.dimension): _Said(
            stored.verdict.status,
            getattr(stored.verdict, "value", None),
            stored.signature,
            stored.versions,
        )
        for stored in run.verdicts(evidence=False)
    }


class _Comparison:
    """Edits and verdicts of two runs, side by side.

    Args:
        edits: Those of the first that both have, with their outputs.
        unshared: The dimensions that only one of them was asked for.

    Attributes:
        told: What they differ in.
        alone: Verdicts that only the first has, and those that only the second has.
    """

    def __init__(
        self, edits: Mapping[Place, str | None], unshared: Collection[str] = frozenset()
    ) -> None:
        self.told = RunDifference()
        self.alone: tuple[set[str], set[str]] = set(), set()
        self._edits = edits
        self._unshared = unshared
        self._other: set[Place] = set()

    def items(self, others: Collection[str]) -> None:
        """Note the items that are others in both."""
        places = {place for place in self._edits if place[1] in others}
        self._other |= places
        self.told.items = _counted({item for _, item in places})

    def outputs(self, after: Mapping[Place, str | None]) -> None:
        """Compare the outputs of the edits that both have."""
        for place in sorted(self._edits):
            if self._edits[place] != after[place]:
                self._other.add(place)
                model, item = place
                count, first = self.told.outputs.get(model, (0, item))
                self.told.outputs[model] = count + 1, first

    def verdicts(self, before: _Verdicts, after: _Verdicts) -> None:
        """Compare the verdicts on these edits."""
        old = by_digest({said.signature for said in before.values()})
        new = by_digest({said.signature for said in after.values()})
        signed: dict[tuple[Difference, ...], Signed] = {}
        versions: dict[Difference, None] = {}
        pairs: dict[tuple[str, str], tuple[Difference, ...]] = {}
        for key in sorted(before.keys() | after.keys()):
            (place, dimension), mine, others = key, before.get(key), after.get(key)
            if place not in self._edits:
                continue
            if mine is None or others is None:
                if dimension not in self._unshared:
                    self.alone[mine is None].add(f"{dimension} of {place[0]} for {place[1]}")
                continue
            pair = mine.signature, others.signature
            if pair[0] != pair[1]:
                if pair not in pairs:
                    pairs[pair] = roots(*pair, old, new)
                causes = pairs[pair]
                signed.setdefault(causes, Signed(causes)).verdicts[dimension] += 1
                continue
            versions.update(dict.fromkeys(of_versions(mine.versions, others.versions)))
            if place not in self._other:
                self._compare_values(dimension, place, mine, others)
        self.told.signed = list(signed.values())
        self.told.versions = tuple(versions)

    def _compare_values(self, dimension: str, place: Place, mine: _Said, others: _Said) -> None:
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


def _counted(names: set[str]) -> tuple[int, str]:
    return len(names), min(names, default="")
