"""What a benchmark is made of, by the rules of each of its protocols."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic_core import CoreSchema, core_schema

from ..base.errors import ConfigError
from .dimension import Dimension
from .switches import Switches

if TYPE_CHECKING:
    from ..prompts import Template
    from .column import Column
    from .dataset import Dataset

PAPER, OFFICIAL = "paper", "official"
_PROTOCOL = re.compile(
    r"(?P<name>\w+)(\.(?P<protocol>\w+))?\.(?P<version>\d+)(?P<changes>(?:[+-]\w+)*)"
)


@dataclass(frozen=True, slots=True)
class Rules:
    """A benchmark by one set of switches.

    Attributes:
        dimensions: Its own, operands before what is derived from them.
        columns: The paper's table, parts before composites; empty where the means of the
            dimensions are the table.
        single_image: What every metric counts as, on the metric's own scale, where an item has
            several sources and the model under test takes one; None where there is no such rule.
        switches: Those that are on, and the others.
        protocol: In full, for example `kris.official.1-first_digit`: what signatures of columns
            name.
        custom: Templates of one's own, which replace ours in all dimensions.
        beside: Dimensions that may be asked for besides; those of one's own specialists.
    """

    dimensions: tuple[Dimension, ...]
    columns: tuple[Column, ...] = ()
    single_image: float | None = None
    switches: Switches = field(default_factory=Switches)
    protocol: str = ""
    custom: tuple[Template, ...] = ()
    extra_dimensions: tuple[Dimension, ...] = ()

    def dimensions_by_id(self, others: Mapping[str, Dimension]) -> dict[str, Dimension]:
        """All dimensions by id, those of this benchmark by these rules."""
        name = self.protocol.partition(".")[0] + "."
        rest = (d for key, d in others.items() if not key.startswith(name))
        every = (*self.dimensions, *self.extra_dimensions, *use_templates(rest, self.custom))
        return {d.id: d for d in every}

    def with_templates(self, custom: tuple[Template, ...]) -> Rules:
        """The same rules, asked in one's own words, and by one's own rubrics besides."""
        from .rubric_dimensions import make_rubric_dimensions

        dimensions = (*use_templates(self.dimensions, custom), *make_rubric_dimensions(custom))
        return replace(self, dimensions=dimensions, custom=custom)


def use_templates(
    dimensions: Iterable[Dimension], custom: tuple[Template, ...]
) -> tuple[Dimension, ...]:
    """Dimensions that ask in one's own words where a template of ours is replaced."""
    if not custom:
        return tuple(dimensions)
    return tuple(d.with_scorers(lambda scorer: scorer.with_templates(custom)) for d in dimensions)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its data, its dimensions and its table.

    Attributes:
        name: As in ids and on the command line.
        title: As its paper calls it.
        data: Reads it at a path; the keyword `roots` says which other folders' pictures it may
            name and, where `remaps`, what they are called in it.
        dimensions_by: Makes its dimensions, given the switches.
        columns_by: Makes the paper's table, given the switches; none where the means of the
            dimensions are the table.
        single_image_by: Makes `Rules.single_image`, given the switches.
        table: Which table of the paper the columns are.
        version: Of our reading of it; raised when a number changes.
        switches: The type that declares them.
        protocols: The switches of each protocol, the usual one first.
        unreleased: Why there is no protocol `official`, where there is none.
        official_prompts: Those (`prompts import`) that the protocol `official` needs.
        decimals: To which the paper prints its table.
        remaps: Its data names files by the official paths, which `--root OLD=NEW` maps.
    """

    name: str
    title: str
    data: Callable[..., Dataset]
    make_dimensions: Callable[..., tuple[Dimension, ...]]
    make_columns: Callable[..., tuple[Column, ...]] = lambda _: ()
    make_single_image_value: Callable[..., float | None] = lambda _: None
    table: str = ""
    version: int = 1
    switches: type[Switches] = Switches
    protocols: Mapping[str, Switches] = field(default_factory=lambda: {"": Switches()})
    no_official_reason: str = ""
    official_prompts: str = ""
    decimals: int = 2
    has_official_paths: bool = False

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return core_schema.is_instance_schema(cls)

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
        name = self._resolve_protocol(protocol)
        switch_names = {switch.name for switch in self.switches.list_switches()}
        for switch in (*with_, *without):
            if switch not in switch_names:
                has = f"has {', '.join(sorted(switch_names))}" if switch_names else "has none"
                raise ConfigError(f"{self.name} has no switch {switch!r}", f"it {has}")
        if both := set(with_) & set(without):
            raise ConfigError(f"{min(both)} is both asked for and left out", "give one of the two")
        usual = self.protocols[name].on
        on = (usual | frozenset(with_)) - frozenset(without)
        changes = [*(f"+{s}" for s in sorted(on - usual)), *(f"-{s}" for s in sorted(usual - on))]
        base = ".".join(filter(None, (self.name, name, str(self.version))))
        return self._make_rules(base + "".join(changes), self.switches.turn_on(on))

    def rules_from_name(
        self, protocol: str, with_: Collection[str] = (), without: Collection[str] = ()
    ) -> Rules:
        """The rules that a protocol in full names, as in a run's header, with changes.

        Raises:
            ConfigError: there are none such here.
        """
        match = _PROTOCOL.fullmatch(protocol)
        if match is None:
            raise ConfigError(f"{protocol!r} is no protocol of {self.name}")
        if int(match["version"]) != self.version:
            raise ConfigError(
                f"the run is by version {match['version']} of our reading of {self.name}, which is"
                f" {self.version} now",
                "run it again in another folder; replies are in its ledger",
            )
        changes = re.findall(r"([+-])(\w+)", match["changes"])
        on = {switch for sign, switch in changes if sign == "+"}
        off = {switch for sign, switch in changes if sign == "-"}
        return self.rules(
            match["protocol"], (on - set(without)) | set(with_), (off - set(with_)) | set(without)
        )

    def _make_rules(self, protocol: str, switches: Switches) -> Rules:
        """The rules of these switches, with the protocol's name.

        A column's protocol is named in full, a dimension's by benchmark and version alone: it is
        the same value by all protocols that make it in the same way, which its signature tells.
        """
        in_short = f"{self.name}.{self.version}"
        return Rules(
            tuple(replace(d, protocol=in_short) for d in self.make_dimensions(switches)),
            tuple(replace(column, protocol=protocol) for column in self.make_columns(switches)),
            self.make_single_image_value(switches),
            switches,
            protocol,
        )

    def _resolve_protocol(self, protocol: str | None) -> str:
        usual = next(iter(self.protocols))
        if protocol is None:
            return usual
        if protocol in self.protocols and protocol:
            return protocol
        if protocol == OFFICIAL and self.no_official_reason:
            raise ConfigError(
                f"{self.name} has no protocol official: {self.no_official_reason}", f"use {usual}"
            )
        if not usual:
            raise ConfigError(f"{self.name} has one protocol only", "leave --protocol out")
        raise ConfigError(
            f"{self.name} has no protocol {protocol!r}", f"there is {', '.join(self.protocols)}"
        )
