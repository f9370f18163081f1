"""Dimensions: the columns of a paper's table, for one edit, declared as data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from .item import Edit, Item, Need
from .signature import Signature, flat, package_version

if TYPE_CHECKING:
    from .panel import Panel
    from .verdict import Verdict

When: TypeAlias = Callable[[Item], str | None]
"""Why a dimension does not apply to an item, or None where it does."""


class Scorer(ABC):
    """One way of judging: from an edit to one or several named verdicts.

    A scorer is a frozen dataclass whose fields are its parameters: equal scorers are one
    scorer, so dimensions that read the same one share its calls.

    Attributes:
        name: The field's name for this way of judging, for signatures.
        roles: The services it calls, as `role.variant`.
        packages: Distributions whose version can change its numbers.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """The services it calls, as `role.variant`; none by default."""
        return ()

    @property
    def words(self) -> frozenset[str]:
        """Whose words its prompts are in, `own` or `original`; nothing where it has none."""
        return frozenset()

    @abstractmethod
    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Judge one edit.

        Args:
            edit: Has an image, and every input that the wanted fields' dimensions need.
            wanted: The fields to compute; more may be returned where they cost nothing.

        Returns:
            A verdict for every wanted field.

        Raises:
            ServiceError: a service failed; the caller stores `Failed`.
            Abstained: there is no value for any field; the caller stores `Unscored`.
        """

    def asked(self, service: str, repeat: int) -> Scorer:
        """The same way of judging by another generalist, or once more; itself without one.

        Args:
            service: As `generalist.<name>`, in the place of `generalist.judge`.
            repeat: From 0; calls of different repeats are different calls.
        """
        return self

    def calls(self, item: Item, wanted: frozenset[str]) -> Mapping[str, int]:
        """How many calls one edit takes at most, by service; for estimates before a run.

        Args:
            item: Maybe with placeholders for its images.
            wanted: The fields to compute.
        """
        return dict.fromkeys(self.roles, 1)

    def spec(self) -> Mapping[str, object]:
        """The parameters that change the numbers; the dataclass fields by default."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class ServiceScorer(Scorer):
    """A way of judging that rests on one service.

    Attributes:
        service: As `role.variant`.
    """

    service: str

    @property
    def roles(self) -> tuple[str, ...]:
        """The service."""
        return (self.service,)


@dataclass(frozen=True, slots=True)
class Reading:
    """One named field of what a scorer returns."""

    scorer: Scorer
    field: str


Part: TypeAlias = "str | Reading"
"""What a derived dimension is made of: another dimension's id, or a reading of its own."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A pure function of other dimensions or readings of the same edit.

    Parts that do not apply are left out of `values` (composites renormalise), unless
    `complete`; a part that is unscored or failed leaves the whole without a number.

    Attributes:
        fn: From `{name: value}` of the parts that apply to the value.
        of: The parts by name.
        complete: Not applicable as soon as one part is not.
    """

    fn: Callable[[Mapping[str, float]], float]
    of: Mapping[str, Part]
    complete: bool = False


def _always(_: Item) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Dimension:
    """One column of a paper's table, for one edit.

    Attributes:
        id: `<benchmark>.<name>`.
        asks: The question it answers, in one line.
        range: Lowest and highest value, inclusive.
        higher_is_better: Direction.
        source: Paper and section, or the reference that defines it.
        protocol: Benchmark and version, as `kris.1`; of a derived one that the rules make other
            than the usual ones do the protocol in full, as `kris.official.1`. Its benchmark
            fills it in.
        how: Where the value comes from.
        needs: Inputs without which it does not apply.
        when: A further condition on the item.
        variant: The exact variant of the metric, for example `ssim.rgb.win7`.
        unit: Of the value; empty for a pure number.
        tolerance: Largest difference between two runs of the same signature.
    """

    id: str
    asks: str
    range: tuple[float, float]
    higher_is_better: bool
    source: str
    how: Reading | Derived
    protocol: str = "unversioned"
    needs: frozenset[Need] = field(default_factory=frozenset)
    when: When = _always
    variant: str = ""
    unit: str = ""
    tolerance: float = 0.0

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The readings it makes itself (those of its parts' dimensions are theirs)."""
        if isinstance(self.how, Reading):
            return (self.how,)
        return tuple(part for part in self.how.of.values() if isinstance(part, Reading))

    @property
    def parts(self) -> tuple[str, ...]:
        """Ids of the dimensions it derives from."""
        if isinstance(self.how, Reading):
            return ()
        return tuple(part for part in self.how.of.values() if isinstance(part, str))

    @property
    def roles(self) -> tuple[str, ...]:
        """The services its own readings call."""
        return tuple(dict.fromkeys(r for reading in self.readings for r in reading.scorer.roles))

    @property
    def words(self) -> str | None:
        """Whose words its prompts are in: `own`, `original`, both joined by `+`, or None."""
        found = set().union(*(reading.scorer.words for reading in self.readings))
        return "+".join(sorted(found)) or None

    def not_applicable(self, item: Item) -> str | None:
        """Why it does not apply to an item, or None."""
        for need in sorted(self.needs):
            if not getattr(item, need):
                if need == "source" and item.sources:
                    return "needs exactly one source image"
                words = need.replace("_", " ")
                return f"needs {words}" if need == "questions" else f"needs a {words}"
        return self.when(item)

    def signature(self, services: Mapping[str, str]) -> Signature:
        """What a value of this dimension depends on.

        Args:
            services: Identity of each role, as the panel found it.
        """
        scorers = dict.fromkeys(reading.scorer for reading in self.readings)
        packages = dict.fromkeys(p for s in scorers for p in ("pillow", *s.packages))
        return Signature.of(
            {
                "dimension": self.id,
                "protocol": self.protocol,
                "variant": self.variant,
                **{s.name: flat(s.spec()) for s in scorers},
                "of": "+".join(self.parts),
                **{role: services.get(role, "unknown") for role in self.roles},
                **{name: package_version(name) for name in packages},
                "editjudge": package_version("editjudge"),
            }
        )


def derived(
    fn: Callable[[Mapping[str, float]], float],
    *parts: str,
    of: Mapping[str, Part] | None = None,
    complete: bool = False,
) -> Derived:
    """Shorthand: positional parts are dimension ids, named by themselves."""
    return Derived(fn, {**{part: part for part in parts}, **(of or {})}, complete)
