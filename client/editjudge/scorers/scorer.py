"""What every way of judging is: from an edit to named verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from ..base.identity import ServiceName
from ..base.item import Edit, Item

if TYPE_CHECKING:
    from ..base.verdict import Verdict
    from ..panel import Panel
    from ..prompts import Template


class Scorer(ABC):
    """One way of judging: from an edit to one or several named verdicts.

    A scorer is a frozen dataclass whose fields are its parameters: equal scorers are one
    scorer, so dimensions that read the same one share its calls.

    Attributes:
        name: The field's name for this way of judging, for signatures.
        implementation: Its number, in every signature; see `base.signature.implementation`.
        roles: The services it calls.
    """

    name: ClassVar[str]
    implementation: ClassVar[int] = 1

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        """The services it calls; none by default."""
        return ()

    @property
    def reads_pixels(self) -> bool:
        """Whether it works on pixels itself; one that only sends pictures need not decode them."""
        return True

    @property
    def unavailable_reason(self) -> str:
        """Why it cannot be computed on this machine, with the mend; empty where it can."""
        return ""

    @property
    def prompt_origins(self) -> frozenset[str]:
        """Whose words its prompts are in (`Template.origin`); nothing where it has none."""
        return frozenset()

    @abstractmethod
    async def score(
        self, edit: Edit, panel: Panel, fields: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Judge one edit.

        Args:
            edit: Has an image, and every input that the fields' dimensions need.
            fields: The fields to compute; more may be returned where they cost nothing.

        Returns:
            A verdict for every one of `fields`.

        Raises:
            ValueError: there is no such field; another's value would be a number all the same.
            ServiceError: a service failed; the caller stores `Failure`.
            Abstained: there is no value for any field; the caller stores `NoScore`.
        """

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """Functions of ours, beside itself, whose number is in the signature of a field.

        What brings pictures and masks to where they are compared, and what compares them; none by
        default. Raising such a number has the field judged again.
        """
        return ()

    def reads(self, item: Item) -> frozenset[str] | None:
        """The item's fields that it looks at; None for those that its dimensions need."""
        return None

    def with_judge(self, service: str, repeat: int) -> Scorer:
        """The same way of judging by another judge, or once more; itself without one.

        Args:
            service: As `generalist.<name>`, in the place of `generalist.judge`.
            repeat: From 0; calls of different repeats are different calls.
        """
        return self

    def with_templates(self, custom: Iterable[Template]) -> Scorer:
        """The same way of judging in one's own words; itself without prompts."""
        return self

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """How many calls one edit takes at most, by service; for estimates before a run.

        Args:
            item: Maybe with placeholders for its images.
            fields: The fields to compute.
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
    def roles(self) -> tuple[ServiceName, ...]:
        """The service."""
        return (ServiceName.parse(self.service),)
