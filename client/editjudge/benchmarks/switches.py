"""Switches: the ways in which a benchmark's protocols differ, as a type that each declares."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Switch:
    """One way in which protocols differ.

    Attributes:
        name: In snake case; `--with NAME` turns it on, `--without NAME` off.
        what: What is done where it is on, in one line.
        source: The paper's section or the official file that does it.
    """

    name: str
    what: str
    source: str


def switch(what: str, source: str) -> Any:
    """Declare a field of `Switches`, off by default; arguments as in `Switch`."""
    return field(default=False, metadata={"what": what, "source": source})


@dataclass(frozen=True, slots=True)
class Switches:
    """The switches of a benchmark that has none; others declare theirs as fields of a subclass.

    A field is named as its switch, made by `switch`, and true where the switch is on. A name that
    is not declared is refused, by mypy and when it is read.
    """

    @classmethod
    def declared(cls) -> tuple[Switch, ...]:
        """All there are, in their order."""
        return tuple(Switch(one.name, **one.metadata) for one in fields(cls))

    @classmethod
    def of(cls, names: Collection[str]) -> Self:
        """The switches with these on and the others off.

        Raises:
            TypeError: a name is not declared.
        """
        return cls(**dict.fromkeys(names, True))

    @classmethod
    def all_on(cls) -> Self:
        """Every switch on."""
        return cls.of([one.name for one in fields(cls)])

    @property
    def on(self) -> frozenset[str]:
        """The names of those that are on."""
        return frozenset(one.name for one in fields(self) if getattr(self, one.name))
