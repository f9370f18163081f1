"""What a benchmark is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..column import Column
from ..dimension import Dimension
from ..errors import ConfigError
from .dataset import Dataset


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its data, its dimensions and its table.

    Attributes:
        name: As in ids and on the command line.
        title: As its paper calls it.
        data: Reads it at a path.
        dimensions: Its own, parts before what is derived from them.
        columns: The paper's table, parts before composites; empty where the means of the
            dimensions are the table.
        table: Which table of the paper that is.
        protocols: Those that can be asked for, the usual one first.
        later: Those that its papers and code know, and that are not there yet.
        single_image: What every metric counts as, on the metric's own scale, where an item has
            several sources and the model under test takes one; None where the paper has no
            such rule.
    """

    name: str
    title: str
    data: Callable[[Path], Dataset]
    dimensions: tuple[Dimension, ...]
    columns: tuple[Column, ...] = ()
    table: str = ""
    protocols: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    single_image: float | None = None

    def check_protocol(self, protocol: str | None) -> None:
        """Refuse a protocol that is not there.

        Raises:
            ConfigError: it is not among `protocols`; None is the usual one.
        """
        if protocol is None or protocol in self.protocols:
            return
        if protocol in self.later:
            reason = f"the protocol {protocol!r} of {self.name} is not there yet"
        elif self.protocols:
            reason = f"{self.name} has no protocol {protocol!r}"
        else:
            raise ConfigError(f"{self.name} has one protocol only", "leave --protocol out")
        raise ConfigError(reason, f"there is {', '.join(self.protocols)}")
