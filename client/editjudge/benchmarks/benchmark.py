"""What a benchmark is made of, by the rules of each of its protocols."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from ..column import Column
from ..dimension import Derived, Dimension
from ..errors import ConfigError
from .dataset import Dataset

PAPER, OFFICIAL = "paper", "official"
_PROTOCOL = re.compile(
    r"(?P<name>\w+)(\.(?P<protocol>\w+))?\.(?P<version>\d+)(?P<changes>(?:[+-]\w+)*)"
)


@dataclass(frozen=True, slots=True)
class Switch:
    """One way in which protocols differ.

    Attributes:
        name: In snake case; `--with NAME` turns it on, `--without NAME` off.
        what: What is done where it is on, in one line.
        source: The paper's section or the released file that does it.
    """

    name: str
    what: str
    source: str


@dataclass(frozen=True, slots=True)
class Parts:
    """A benchmark by one set of switches.

    Attributes:
        dimensions: Its own, parts before what is derived from them.
        columns: The paper's table, parts before composites; empty where the means of the
            dimensions are the table.
        single_image: What every metric counts as, on the metric's own scale, where an item has
            several sources and the model under test takes one; None where there is no such rule.
    """

    dimensions: tuple[Dimension, ...]
    columns: tuple[Column, ...] = ()
    single_image: float | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """A benchmark's rules as they were asked for.

    Attributes:
        protocol: In full, for example `kris.official.1-first_digit`: what signatures name.
        on: The switches that are on.
        single_image: As in `Parts`.
    """

    protocol: str
    on: frozenset[str]
    dimensions: tuple[Dimension, ...]
    columns: tuple[Column, ...] = ()
    single_image: float | None = None

    def known(self, others: Mapping[str, Dimension]) -> dict[str, Dimension]:
        """All dimensions by id, those of this benchmark by these rules."""
        name = self.protocol.partition(".")[0] + "."
        rest = {key: d for key, d in others.items() if not key.startswith(name)}
        return {d.id: d for d in self.dimensions} | rest


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its data, its dimensions and its table.

    Attributes:
        name: As in ids and on the command line.
        title: As its paper calls it.
        data: Reads it at a path; where `remaps`, with the keyword `roots` too.
        parts: Makes dimensions and columns, given the switches that are on.
        table: Which table of the paper the columns are.
        version: Of our reading of it; raised when a number changes.
        switches: All there are.
        protocols: The switches that are on, by protocol, the usual one first.
        unreleased: Why there is no protocol `official`, where there is none.
        originals: The authors' prompts (`prompts import`) that `official` needs.
        decimals: To which the paper prints its table.
        remaps: Its data names files by the authors' paths, which `--root OLD=NEW` maps.
    """

    name: str
    title: str
    data: Callable[..., Dataset]
    parts: Callable[[frozenset[str]], Parts]
    table: str = ""
    version: int = 1
    switches: tuple[Switch, ...] = ()
    protocols: Mapping[str, frozenset[str]] = field(default_factory=lambda: {"": frozenset()})
    unreleased: str = ""
    originals: str = ""
    decimals: int = 2
    remaps: bool = False

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """By the usual rules."""
        return self.rules().dimensions

    def rules(
        self,
        protocol: str | None = None,
        with_: Collection[str] = (),
        without: Collection[str] = (),
    ) -> Rules:
        """The rules of a protocol, with changes.

        Args:
            protocol: By its short name; None for the usual one.
            with_: Switches to turn on.
            without: Switches to turn off.

        Raises:
            ConfigError: there is no such protocol or switch, or a switch is in both.
        """
        name = self._protocol(protocol)
        known = {one.name for one in self.switches}
        for switch in (*with_, *without):
            if switch not in known:
                has = f"has {', '.join(sorted(known))}" if known else "has none"
                raise ConfigError(f"{self.name} has no switch {switch!r}", f"it {has}")
        if both := set(with_) & set(without):
            raise ConfigError(f"{min(both)} is both asked for and left out", "give one of the two")
        usual = self.protocols[name]
        on = (usual | frozenset(with_)) - frozenset(without)
        changes = [*(f"+{s}" for s in sorted(on - usual)), *(f"-{s}" for s in sorted(usual - on))]
        base = ".".join(filter(None, (self.name, name, str(self.version))))
        return self._stamped(base + "".join(changes), on)

    def rules_named(
        self, protocol: str, with_: Collection[str] = (), without: Collection[str] = ()
    ) -> Rules:
        """The rules that a protocol in full names, as in a run's header, with changes.

        Raises:
            ConfigError: there are none such here.
        """
        found = _PROTOCOL.fullmatch(protocol)
        if found is None:
            raise ConfigError(f"{protocol!r} is no protocol of {self.name}")
        if int(found["version"]) != self.version:
            raise ConfigError(
                f"the run is by version {found['version']} of our reading of {self.name}, which is"
                f" {self.version} now",
                "run it again in another folder; replies are in its ledger",
            )
        changes = re.findall(r"([+-])(\w+)", found["changes"])
        on = {switch for sign, switch in changes if sign == "+"}
        off = {switch for sign, switch in changes if sign == "-"}
        return self.rules(
            found["protocol"], (on - set(without)) | set(with_), (off - set(with_)) | set(without)
        )

    def _stamped(self, protocol: str, on: frozenset[str]) -> Rules:
        """Name the protocol where numbers depend on it.

        A reading is the same by all protocols that read the same: its scorer's parameters are
        in its signature. What is derived depends on the rules unless it is as by the usual
        ones, and what is aggregated always does. A closure that was made anew counts as another
        function, though it may do the same: composites then name the protocol without need, and
        are derived again, which calls nobody.
        """
        plain = f"{self.name}.{self.version}"
        usual = self.parts(next(iter(self.protocols.values())))
        hows = {d.id: d.how for d in usual.dimensions}
        parts = self.parts(on)

        def named(one: Dimension) -> str:
            same = not isinstance(one.how, Derived) or hows.get(one.id) == one.how
            return plain if same else protocol

        return Rules(
            protocol,
            on,
            tuple(replace(one, protocol=named(one)) for one in parts.dimensions),
            tuple(replace(column, protocol=protocol) for column in parts.columns),
            parts.single_image,
        )

    def _protocol(self, protocol: str | None) -> str:
        usual = next(iter(self.protocols))
        if protocol is None:
            return usual
        if protocol in self.protocols and protocol:
            return protocol
        if protocol == OFFICIAL and self.unreleased:
            raise ConfigError(
                f"{self.name} has no protocol official: {self.unreleased}", f"use {usual}"
            )
        if not usual:
            raise ConfigError(f"{self.name} has one protocol only", "leave --protocol out")
        raise ConfigError(
            f"{self.name} has no protocol {protocol!r}", f"there is {', '.join(self.protocols)}"
        )


def one_protocol(*dimensions: Dimension) -> Callable[[frozenset[str]], Parts]:
    """The parts of a benchmark without switches."""
    return lambda _: Parts(dimensions)
