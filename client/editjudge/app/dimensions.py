"""What edits can be judged on by a protocol: its dimensions, chosen by name, with signatures."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ..base.errors import ConfigError
from ..base.text import format_count
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import load_dimensions as all_dimensions
from ..benchmarks.registry import select_dimensions
from ..benchmarks.rounds import count_in_rounds, make_rounds, with_rounds
from ..engine.judge import Signatures, roles_of
from ..engine.outcomes import sort_by_dependency
from .spec import RunSpec


class DimensionSet:
    """The dimensions of all benchmarks by the rules, judges and rounds of a spec.

    Args:
        spec: Of its fields those of the protocol count: benchmark, protocol, switches, judges,
            rounds and prompts.
        most: How many dimensions are too many.

    Attributes:
        known: By id.
        signatures: Makes their signatures.

    Raises:
        ConfigError: there are more, in all rounds of all judges.
    """

    def __init__(self, spec: RunSpec, most: int | None = None) -> None:
        self._rules = spec.rules()
        by_id = self._rules.dimensions_by_id(all_dimensions())
        number = count_in_rounds(by_id, spec.judge_rounds)
        if most is not None and number > most:
            raise ConfigError(
                f"{number:,} dimensions in all rounds of all judges",
                f"send fewer: at most {most:,}",
            )
        self.known = make_rounds(by_id, spec.judge_rounds)
        self.signatures = Signatures(self.known)
        self._in_words: set[str] = set()

    def select(self, names: Iterable[str]) -> tuple[Dimension, ...]:
        """The dimensions of these names: an id names itself, a glob all with their rounds.

        Without names they are those of the benchmark. In the order asked for where all are ids,
        else as they are declared.

        Raises:
            ConfigError: an id or glob matches none, or official prompts that are asked are not
                imported here.
        """
        named = tuple(dict.fromkeys(names))
        ids = [name for name in named if name in self.known]
        globs = [name for name in named if name not in self.known]
        matched = select_dimensions(globs, self._rules) if globs or not ids else ()
        chosen = self._ordered(ids, with_rounds(matched, self.known))
        new = [dimension for dimension in chosen if dimension.id not in self._in_words]
        for dimension in sort_by_dependency(new, self.known):
            _ = dimension.prompt_origins  # ends here where official prompts are not imported
        self._in_words.update(dimension.id for dimension in new)
        return chosen

    def _ordered(self, ids: Sequence[str], matched: Sequence[Dimension]) -> tuple[Dimension, ...]:
        if not matched:
            return tuple(self.known[name] for name in ids)
        names = {*ids, *(dimension.id for dimension in matched)}
        return tuple(d for name, d in self.known.items() if name in names)


def missing_services(services: Collection[str]) -> dict[str, tuple[str, ...]]:
    """By service that is not among these, the dimensions that need it; any generalist may judge."""
    known = all_dimensions()
    judged = any(name.startswith("generalist.") for name in services)
    lacking: dict[str, list[str]] = {}
    for name, dimension in known.items():
        for role in sorted(roles_of(dimension, known)):
            if role not in services and not (judged and role.is_generalist):
                lacking.setdefault(role, []).append(name)
    return {role: tuple(names) for role, names in sorted(lacking.items())}


def missing_services_line(lacking: Mapping[str, Collection[str]]) -> str:
    """How many dimensions that is, and which models; empty where each is served."""
    names = set().union(*lacking.values())
    if not names:
        return ""
    return f"{models_needed(len(names), 'dimension')}: {', '.join(lacking)}"


def models_needed(count: int, what: str) -> str:
    """How many wait for models, in words: `2 dimensions need models that nobody serves`.

    Args:
        what: One of them, as a noun: `dimension`.
    """
    return f"{format_count(count, f'{what} needs', f'{what}s need')} models that nobody serves"


def unserved_command(run: Path) -> str:
    """The command that names what waits in a run, and for which models."""
    return f"editjudge summary {shlex.quote(str(run))} --unserved"
