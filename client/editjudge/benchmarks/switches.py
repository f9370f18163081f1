"""Switches: the ways in which a benchmark's protocols differ, as a type that each declares."""

from collections.abc import Collection
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field


class Switch(NamedTuple):
    """One way in which protocols differ.

    Attributes:
        name: In snake case; `--with NAME` turns it on, `--without NAME` off.
        what: What the protocol does if it is on, in one line.
        source: The paper's section or the official file that does it.
    """

    name: str
    what: str
    source: str


def switch(source: str) -> Any:
    """Declare a field of `Switches`, off by default; the text below the field describes it."""
    return Field(default=False, title=source)


class Switches(BaseModel):
    """The switches of a benchmark that has none; others declare theirs as fields of a subclass.

    A field is named as its switch, made by `switch`, and true where the switch is on; a subclass
    says `use_attribute_docstrings`, for which its source is read again. A name that
    is not declared is refused, by mypy and when it is read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def list_switches(cls) -> tuple[Switch, ...]:
        """Return all switches in the order of their declaration."""
        return tuple(
            Switch(name, " ".join((of.description or "").split()), of.title or "")
            for name, of in cls.model_fields.items()
        )

    @classmethod
    def turn_on(cls, names: Collection[str]) -> Self:
        """Return the switches with these on and the others off.

        Raises:
            ValidationError: a name is not declared.
        """
        return cls(**dict.fromkeys(names, True))

    @property
    def on(self) -> frozenset[str]:
        """The names of those that are on."""
        return frozenset(name for name, is_on in self if is_on)
