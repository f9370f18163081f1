"""What a run is asked for, and what of it is left to do.

Nothing here calls a service or decodes an image. Of each item one number is kept: the set of
dimensions that apply, as bits; of each edit another: those that are still to be judged. So a
hundred thousand edits take a few megabytes, and looking at all of them about a second.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, Protocol

from ..benchmarks.dataset import SEVERAL, Dataset, ItemRef
from ..benchmarks.replicas import Replicas
from ..digest import file_digest
from ..dimension import Derived, Dimension
from ..errors import InputError
from ..images import show_path
from ..item import Item
from .judge import roles_of, signature_of
from .plan import in_order


@dataclass(frozen=True)
class Order:
    """What a run is asked for.

    Attributes:
        outputs: Folder of outputs by model under test.
        dimensions: Those asked for.
        known: All dimensions by id, for what the asked ones derive from.
        protocol: In full, for example `kris.paper.1`.
        limit: How many items, from the first; None for all.
        tasks: Globs of the tasks whose items are asked for; all without.
        replicas: Which judges, and how often each.
    """

    dataset: Dataset
    outputs: Mapping[str, Path]
    dimensions: tuple[Dimension, ...]
    known: Mapping[str, Dimension]
    protocol: str = ""
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    replicas: Replicas = field(default_factory=Replicas)

    def signatures(self, identities: Mapping[str, str]) -> dict[str, str]:
        """Of a value of today, by dimension."""
        return {d.id: str(signature_of(d, self.known, identities)) for d in self.dimensions}

    def roles(self, dimensions: Iterable[str]) -> frozenset[str]:
        """The services that these dimensions call."""
        named = (self.known[name] for name in dimensions)
        return frozenset().union(*(roles_of(one, self.known) for one in named))


UNREADABLE = "unreadable: "
"""How the reason begins where there is a file, and no picture in it."""


def is_there(missing: str) -> bool:
    """Whether a missing output is one that cannot be used, by the reason: the model gave it."""
    return missing.startswith((UNREADABLE, SEVERAL))


class Standing(NamedTuple):
    """What is known of an edit.

    Attributes:
        digest: Of its output; None where it was missing.
        missing: Why it was.
        dimensions: Those on which a verdict stands.
    """

    item: str
    digest: str | None
    missing: str
    dimensions: Collection[str]


class Known(Protocol):
    """Where verdicts are kept, as far as planning asks."""

    def standing(self, model: str, signatures: Mapping[str, str]) -> Iterable[Standing]:
        """Every edit of a model, with its verdicts that are scored or unscored and of today."""


class Applicability:
    """Which dimensions apply to an item, as bits; items that are alike are looked at once."""

    def __init__(self, order: Order) -> None:
        self.involved = in_order(order.dimensions, order.known)
        self.bit = {d.id: 1 << i for i, d in enumerate(self.involved)}
        self._dataset = order.dataset
        # The default condition is one function for all; only others look at the item itself.
        usual = Dimension.__dataclass_fields__["when"].default
        self._particular = [d for d in self.involved if d.when is not usual]
        self._others = [d for d in self.involved if d.when is usual]
        self._alike: dict[Hashable, int] = {}

    def of(self, ref: ItemRef) -> int:
        """The involved dimensions that apply, each as its `bit`."""
        shape = self._dataset.shape(ref)
        found = self._alike.get(shape)
        if found is None:
            found = self._alike[shape] = self._bits(self._others, self._dataset.outline(ref))
        if self._particular:
            found |= self._bits(self._particular, self._dataset.outline(ref))
        return found

    def _bits(self, dimensions: Iterable[Dimension], item: Item) -> int:
        return sum(self.bit[d.id] for d in dimensions if d.not_applicable(item) is None)


class Shape(NamedTuple):
    """What becomes of an item's dimensions: to be judged, or not served; the rest do not apply."""

    judged: int
    unserved: int


@dataclass
class Work:
    """What is left to do.

    Attributes:
        ids: Of the items.
        asked: The positions of those that are asked for.
        todo: By model, for each item the dimensions to judge, as bits.
        counts: By model and dimension, how many edits are `standing`, `todo`, `not_served`
            and `missing_output`; where a dimension does not apply, nothing is counted.
        missing: By model, how many outputs are missing, and the first reason.
        gone: By model, how many of these were judged before they went, and stay judged.
        signatures: Of today's verdicts, by dimension.
        changed: Item, model and digest of outputs that are not what was judged before.
        absent: Item, model and reason of outputs that are missing, or for another reason now.
    """

    order: Order
    bits: Mapping[str, int]
    ids: Sequence[str] = ()
    asked: Collection[int] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)
    todo: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    missing: dict[str, tuple[int, str]] = field(default_factory=dict)
    gone: Counter[str] = field(default_factory=Counter)
    changed: list[tuple[str, str, str]] = field(default_factory=list)
    absent: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def edits(self) -> int:
        """Edits with something to judge."""
        return sum(1 for todo in self.todo.values() for bits in todo if bits)

    def total(self, status: str) -> int:
        """Verdicts of a status in `counts`, over all models and dimensions."""
        return sum(one[status] for row in self.counts.values() for one in row.values())

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions with something to judge."""
        union = 0
        for todo in self.todo.values():
            for bits in set(todo):
                union |= bits
        return self.named(union)

    @property
    def roles(self) -> frozenset[str]:
        """The services that are needed."""
        return self.order.roles(d.id for d in self.dimensions)

    def named(self, bits: int) -> tuple[Dimension, ...]:
        """The asked dimensions among bits."""
        return tuple(d for d in self.order.dimensions if self.bits[d.id] & bits)

    def items(self) -> Iterator[tuple[ItemRef, dict[str, int]]]:
        """Items with something to judge, each with the bits of its models."""
        wanted = bytearray(len(self.ids))
        for todo in self.todo.values():
            for index, bits in enumerate(todo):
                if bits:
                    wanted[index] = 1
        for ref in self.order.dataset.items(_Flags(wanted)):
            yield ref, {model: t[ref.index] for model, t in self.todo.items() if t[ref.index]}


class _Flags:
    """A set of small numbers."""

    def __init__(self, flags: bytearray) -> None:
        self._flags = flags

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and index < len(self._flags) and bool(self._flags[index])


class Survey:
    """All items of an order, looked at once; `work` says what is left of them.

    Raises:
        InputError: the data, or a folder of outputs, cannot be used.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self._applicability = Applicability(order)
        self.ids: list[str] = []
        self.asked: dict[int, None] = {}
        self._applies: list[int] = []
        same: dict[int, int] = {}
        of = self._applicability.of
        for ref in order.dataset.checked():
            if order.limit is not None and ref.index >= order.limit:
                continue
            self.ids.append(ref.id)
            asked = not order.tasks or _matches(order.dataset.outline(ref).task, order.tasks)
            if asked:
                self.asked[ref.index] = None
            bits = of(ref) if asked else 0
            self._applies.append(same.setdefault(bits, bits))
        if not self.asked and self.ids:
            tasks = {order.dataset.outline(ref).task for ref in order.dataset.items()}
            raise InputError(
                "--task",
                f"no item has a task like {', '.join(order.tasks)}",
                f"there is {', '.join(sorted(filter(None, tasks))) or 'none'}",
            )
        for model, folder in order.outputs.items():
            if not folder.is_dir():
                raise InputError(show_path(folder), f"no such folder (outputs of {model})")

    def work(
        self,
        known: Known | None,
        identities: Mapping[str, str],
        served: Collection[str] | None = None,
        checked: Mapping[str, float] | None = None,
    ) -> Work:
        """What is left to do.

        Args:
            known: The verdicts there are; None for none.
            identities: Of the services, for signatures.
            served: The services at hand; None takes all to be.
            checked: By model, when its outputs were last known to be what was judged, in
                seconds since the epoch.

        Raises:
            InputError: a model has no output at all.
        """
        bits = self._applicability.bit
        signatures = self.order.signatures(identities)
        work = Work(self.order, bits, self.ids, self.asked, signatures)
        asked = sum(bits[d.id] for d in self.order.dimensions)
        shapes = {one: self._shape(one, served) for one in set(self._applies)}
        for model, folder in self.order.outputs.items():
            outputs = self.order.dataset.outputs(folder).index()
            stands = _Standings(known, model, signatures, bits)
            since = (checked or {}).get(model, 0.0)
            tally: Counter[tuple[int, int, int, bool]] = Counter()
            todo: list[int] = []
            same: dict[int, int] = {}
            missing, reason = 0, ""
            for index, (item, applies) in enumerate(zip(self.ids, self._applies, strict=True)):
                if index not in self.asked:
                    todo.append(0)
                    continue
                shape = shapes[applies]
                one = stands.pop(item)
                path = outputs.path(item)
                if path is None:
                    missing, why = missing + 1, outputs.why_not(item)
                    reason = reason or why
                    if known is not None and (one is None or one.reads_otherwise(why)):
                        work.absent.append((item, model, why))
                    work.gone[model] += one is not None and bool(one.bits & asked)
                elif one is not None and (one.there_was_none or not _older(path, since)):
                    # A file that was not touched since it was last known need not be read.
                    digest = _digest(path)
                    if digest != one.digest:
                        work.changed.append((item, model, digest))
                        one = None
                absent = path is None or (one is not None and one.digest is None)
                # What stands does so without the service that it came from, too.
                done = 0 if one is None else one.bits & (shape.judged | shape.unserved) & asked
                left = 0 if absent else shape.judged & asked & ~done
                todo.append(same.setdefault(left, left))
                rest = (shape.judged | shape.unserved) & asked & ~done & ~left
                tally[done, left, rest, absent] += 1
            if self.asked and missing == len(self.asked) and not stands.any:
                raise InputError(show_path(folder), f"holds no output of {model}: {reason}")
            work.todo[model] = todo
            work.missing[model] = (missing, reason)
            work.counts[model] = _spread(tally, self.order.dimensions, bits)
        return work

    def _shape(self, applies: int, served: Collection[str] | None) -> Shape:
        """As judging an edit would find it: see `make_plan` and what derives from parts."""
        bits, states = self._applicability.bit, dict[str, str]()
        for dimension in self._applicability.involved:
            states[dimension.id] = _state(dimension, bits[dimension.id] & applies, states, served)
        chosen = {s: sum(bits[n] for n, state in states.items() if state == s) for s in _STATES}
        return Shape(chosen["judged"], chosen["unserved"])


def _matches(task: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(task, pattern) for pattern in patterns)


_STATES = ("judged", "unserved", "inapplicable")


def _state(
    dimension: Dimension, applies: int, states: Mapping[str, str], served: Collection[str] | None
) -> str:
    if not applies:
        return "inapplicable"
    if served is not None and not set(dimension.roles) <= set(served):
        return "unserved"
    if isinstance(dimension.how, Derived) and dimension.parts:
        parts = [states[part] for part in dimension.parts]
        applying = [s for s in parts if s != "inapplicable"]
        readings = len(dimension.how.of) - len(parts)
        if not applying and not readings:
            return "inapplicable"
        if dimension.how.complete and len(applying) < len(parts):
            return "inapplicable"
        if "unserved" in applying:
            return "unserved"
    return "judged"


class _Stands(NamedTuple):
    digest: str | None
    bits: int
    missing: str

    @property
    def there_was_none(self) -> bool:
        """No file at all, or several."""
        return self.digest is None and not self.missing.startswith(UNREADABLE)

    def reads_otherwise(self, why: str) -> bool:
        """Whether it was missing for another reason."""
        return self.digest is None and self.missing != why


class _Standings:
    """A model's verdicts, by item."""

    def __init__(
        self,
        known: Known | None,
        model: str,
        signatures: Mapping[str, str],
        bits: Mapping[str, int],
    ) -> None:
        self._by_item: dict[str, _Stands] = {}
        for one in known.standing(model, signatures) if known else ():
            judged = sum(bits.get(d, 0) for d in one.dimensions)
            self._by_item[one.item] = _Stands(one.digest, judged, one.missing)
        self.any = bool(self._by_item)

    def pop(self, item: str) -> _Stands | None:
        return self._by_item.pop(item, None)


def _older(path: str, since: float) -> bool:
    """Whether a file was surely not touched since; a copy keeps its date, but not this one."""
    try:
        return os.stat(path).st_ctime < since  # noqa: PTH116 - a hundred thousand times
    except OSError:
        return True


def _digest(path: str) -> str:
    """Of a file's bytes, as an image's; empty where it cannot be read."""
    try:
        return file_digest(path)
    except OSError:
        return ""


def _spread(
    tally: Mapping[tuple[int, int, int, bool], int],
    dimensions: Iterable[Dimension],
    bits: Mapping[str, int],
) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {d.id: Counter() for d in dimensions}
    for (done, left, rest, absent), number in tally.items():
        kinds = {"standing": done, "todo": left}
        kinds["missing_output" if absent else "not_served"] = rest
        for status, union in kinds.items():
            for name, count in counts.items():
                if bits[name] & union:
                    count[status] += number
    return counts
