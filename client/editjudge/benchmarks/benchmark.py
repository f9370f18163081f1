"""A benchmark, and the rules of each of its protocols: dimensions, columns and switches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic_core import CoreSchema, core_schema

from ..base.errors import ConfigError
from ..base.parse import package_tables
from .switches import Switches

if TYPE_CHECKING:
    from ..prompts import Template
    from .column import Column
    from .dataset import Dataset
    from .dimension import Dimension

T = TypeVar("T")
PAPER, OFFICIAL = "paper", "official"
_PLACES = {"data", "make_dimensions", "make_columns", "make_single_image_value"}
_PROTOCOL = re.compile(r"(?P<name>\w+)(\.(?P<protocol>\w+))?\.(?P<version>\d+)(?P<changes>(?:[+-]\w+)*)")


@dataclass(frozen=True, slots=True)
class Rules:
    """The dimensions and columns of a benchmark for one set of switches.

    Attributes:
        dimensions: The benchmark's own; operands stand before the formulas that use them.
        columns: The paper's table, parts before composites; empty if the table is the means of the
            dimensions.
        single_image: The value of every metric, on its own scale, if an item has several sources
            and the model under test takes one; None if there is no such rule.
        switches: Which switches are on.
        protocol: The full name, for example `kris.official.1-first_digit`, which signatures of
            columns hold.
        custom: Templates of the user, which replace built-in ones in all dimensions.
        extra_dimensions: Dimensions of the user's own specialists, which a run may ask for.
    """

    dimensions: tuple[Dimension, ...]
    columns: tuple[Column, ...] = ()
    single_image: float | None = None
    switches: Switches = field(default_factory=Switches)
    protocol: str = ""
    custom: tuple[Template, ...] = ()
    extra_dimensions: tuple[Dimension, ...] = ()

    def dimensions_by_id(self, others: Mapping[str, Dimension]) -> dict[str, Dimension]:
        """Return all dimensions by id; those of this benchmark follow these rules."""
        name = self.protocol.partition(".")[0] + "."
        rest = (d for key, d in others.items() if not key.startswith(name))
        every = (*self.dimensions, *self.extra_dimensions, *use_templates(rest, self.custom))
        return {d.id: d for d in every}

    def with_templates(self, custom: tuple[Template, ...]) -> Rules:
        """Return the rules with custom templates, and with a dimension for each custom rubric."""
        from .rubric_dimensions import make_rubric_dimensions

        dimensions = (*use_templates(self.dimensions, custom), *make_rubric_dimensions(custom))
        return replace(self, dimensions=dimensions, custom=custom)


def use_templates(dimensions: Iterable[Dimension], templates: tuple[Template, ...]) -> tuple[Dimension, ...]:
    """Return the dimensions with those custom templates that replace one of theirs."""
    if not templates:
        return tuple(dimensions)
    return tuple(d.with_scorers(lambda s: s.with_templates(templates)) for d in dimensions)


def read_benchmark(package: str | None, switches: type[Switches]) -> Benchmark:
    """Read the benchmark that `benchmark.toml` of a package declares.

    The file has the fields of `Benchmark`, with the names of modules in the package, and as `protocols` the names of
    the switches that are on. The package is called as the benchmark.
    """
    package, table = str(package), package_tables(package, "benchmark.toml")
    table |= {name: f"{package}.{table[name]}" for name in _PLACES & table.keys()}
    protocols = {name: switches.turn_on(on) for name, on in table.pop("protocols").items()}
    return Benchmark(package.rpartition(".")[2], switches=switches, protocols=protocols, **table)


class _LazyField(Generic[T]):
    """A field that may be a text `module:name`, which is loaded when the field is read."""

    def __init__(self, *default: T) -> None:
        self._default = default

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __set__(self, owner: object, value: T | str) -> None:
        vars(owner)[self._name] = value

    def __get__(self, owner: object, _: type) -> T:
        if owner is None and not self._default:
            raise AttributeError  # `dataclass` then knows that there is no default
        value: T | str = vars(owner)[self._name] if owner else self._default[0]
        return resolve_name(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its data, its dimensions and its table of results.

    What reads data and makes dimensions, columns and values may be given as `module:name`: it is
    loaded when it is used, so that to list benchmarks loads little.

    Attributes:
        name: Begins ids, and stands on the command line.
        title: The name that its paper uses.
        data: Reads the data at a path. The keyword `roots` names other folders whose images it may
            use and, with `has_official_paths`, their names in the data.
        make_dimensions: Takes the switches and returns the dimensions.
        make_columns: Takes the switches and returns the columns of the paper's table; empty if the
            table is the means of the dimensions.
        make_single_image_value: Takes the switches and returns `Rules.single_image`.
        table: Which table of the paper the columns are.
        paper_items: The number of items that the paper's data has; 0 without a paper.
        version: The version of this implementation, raised when a number changes.
        switches: The type that declares them.
        protocols: The switches of each protocol, the usual one first.
        no_official_reason: Why there is no protocol `official`; empty if there is one.
        decimals: The number of decimals in the paper's table.
        has_official_paths: The data names files by its authors' paths, which `--root OLD=NEW` maps.
    """

    name: str
    title: str
    data: _LazyField[Callable[..., Dataset]] = _LazyField()
    make_dimensions: _LazyField[Callable[..., tuple[Dimension, ...]]] = _LazyField()
    make_columns: _LazyField[Callable[..., tuple[Column, ...]]] = _LazyField(lambda _: ())
    make_single_image_value: _LazyField[Callable[..., float | None]] = _LazyField(lambda _: None)
    table: str = ""
    paper_items: int = 0
    version: int = 1
    switches: type[Switches] = Switches
    protocols: Mapping[str, Switches] = field(default_factory=lambda: {"": Switches()})
    no_official_reason: str = ""
    decimals: int = 2
    has_official_paths: bool = False

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return core_schema.is_instance_schema(cls)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions of the usual protocol."""
        return self.rules().dimensions

    def rules(self, protocol: str | None = None, with_: Collection[str] = (), without: Collection[str] = ()) -> Rules:
        """Return the rules of a protocol, with some switches changed.

        Args:
            protocol: The short name, or None for the usual protocol.
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
            raise ConfigError(f"{min(both)} is both turned on and off", "give one of the two")
        usual = self.protocols[name].on
        on = (usual | frozenset(with_)) - frozenset(without)
        changes = [*(f"+{s}" for s in sorted(on - usual)), *(f"-{s}" for s in sorted(usual - on))]
        base = ".".join(filter(None, (self.name, name, str(self.version))))
        return self._make_rules(base + "".join(changes), self.switches.turn_on(on))

    def rules_from_name(self, protocol: str, with_: Collection[str] = (), without: Collection[str] = ()) -> Rules:
        """Return the rules for a full protocol name, with some switches changed.

        Raises:
            ConfigError: there are none such here.
        """
        match = _PROTOCOL.fullmatch(protocol)
        if match is None:
            raise ConfigError(f"{protocol!r} is no protocol of {self.name}")
        if int(match["version"]) != self.version:
            raise ConfigError(
                f"the run is by version {match['version']} of {self.name}'s protocols, and {self.version} is installed",
                "run it again in another folder; replies are in its ledger",
            )
        changes = re.findall(r"([+-])(\w+)", match["changes"])
        on = {switch for sign, switch in changes if sign == "+"}
        off = {switch for sign, switch in changes if sign == "-"}
        on, off = on - {*without} | {*with_}, off - {*with_} | {*without}
        return self.rules(match["protocol"], on, off)

    def _make_rules(self, protocol: str, switches: Switches) -> Rules:
        """Return the rules for these switches, under the protocol's name.

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
            raise ConfigError(f"{self.name} has no protocol official: {self.no_official_reason}", f"use {usual}")
        if not usual:
            raise ConfigError(f"{self.name} has one protocol only", "leave --protocol out")
        raise ConfigError(f"{self.name} has no protocol {protocol!r}", f"there is {', '.join(self.protocols)}")
