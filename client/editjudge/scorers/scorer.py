"""The base class of scorers, which turn an edit into named verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from ..base.identity import ServiceName
from ..base.item import Edit, Item

if TYPE_CHECKING:
    from ..base.verdict import Verdicts
    from ..panel import Panel
    from ..prompts import Template


class Scorer(ABC):
    """Turns an edit into one or several named verdicts.

    A scorer is a frozen dataclass whose fields are its parameters. Equal scorers count as one,
    so dimensions that read the same scorer share its calls.

    Attributes:
        name: Stands for the scorer in signatures.
        implementation: Its number, in every signature; see `base.signature.implementation`.
        roles: The services it calls.
    """

    name: ClassVar[str]
    implementation: ClassVar[int] = 1

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        """The services that the scorer calls; none by default."""
        return ()

    @property
    def reads_pixels(self) -> bool:
        """Whether the scorer works on pixels; one that only sends images need not decode them."""
        return True

    @property
    def unavailable_reason(self) -> str:
        """Why this machine cannot run the scorer, and how to fix it; empty if it can."""
        return ""

    @property
    def prompt_origins(self) -> frozenset[str]:
        """The origins of the scorer's prompts (`Template.origin`); empty without prompts."""
        return frozenset()

    @abstractmethod
    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Judge one edit.

        Args:
            edit: Has an image, and every input that the fields' dimensions need.
            fields: The fields to compute; more may be returned where they cost nothing.

        Returns:
            A verdict for every one of `fields`.

        Raises:
            ValueError: there is no such field; another's value would be a number all the same.
            ServiceError: a service failed; the caller stores `Failure`.
            Abstention: there is no value for any field; the caller stores `NoScore`.
        """

    @property
    def asks_for_choices(self) -> bool:
        """Whether it asks a judge for one of several choices."""
        return False

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """Functions whose implementation number enters the signature of a field.

        These are the functions that decode, resize and compare images and masks; none by default.
        A raised number makes runs judge the field again.
        """
        return ()

    def reads(self, item: Item) -> frozenset[str] | None:
        """Return the item's fields that the scorer uses; None means those its dimensions need."""
        return None

    def with_judge(self, service: str, repeat: int) -> Scorer:
        """Return the scorer with another judge or repeat; a scorer without a judge returns itself.

        Args:
            service: As `generalist.<name>`, in the place of `generalist.judge`.
            repeat: From 0; calls of different repeats are different calls.
        """
        return self

    def with_templates(self, custom: Iterable[Template]) -> Scorer:
        """Return the scorer with custom templates; a scorer without prompts returns itself."""
        return self

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """Return how many calls an edit takes at most, by service, for estimates before a run.

        Args:
            item: Maybe with placeholders for its images.
            fields: The fields to compute.
        """
        return dict.fromkeys(self.roles, 1)

    def spec(self) -> Mapping[str, object]:
        """Return the parameters that the numbers depend on; by default the dataclass fields."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class ServiceScorer(Scorer):
    """A scorer that calls one service.

    Attributes:
        service: As `role.variant`.
    """

    service: str

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        """The service."""
        return (ServiceName.parse(self.service),)
