"""The dimensions of a protocol: selected by name, with their signatures and missing services."""

import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ..base.errors import ConfigError
from ..base.identity import JUDGE_ROLE
from ..base.text import format_count, group_by_key
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import load_dimensions as all_dimensions
from ..benchmarks.registry import select_dimensions
from ..benchmarks.rounds import count_in_rounds, make_rounds, with_rounds
from ..engine.judge import Signatures, roles_of
from ..engine.outcomes import sort_by_dependency
from .spec import RunSpec


class DimensionSet:
    """The dimensions of all benchmarks, under the rules, judges and rounds of a spec.

    Args:
        spec: Only the fields of the protocol matter: benchmark, protocol, switches, judges, rounds
            and prompts.
        limit: The largest permitted number of dimensions, over all rounds of all judges.

    Attributes:
        by_id: The dimensions by id.
        signatures: Computes their signatures.

    Raises:
        ConfigError: there are more dimensions than the limit.
    """

    def __init__(self, spec: RunSpec, limit: int | None = None) -> None:
        self._rules = spec.rules()
        by_id = self._rules.dimensions_by_id(all_dimensions())
        number = count_in_rounds(by_id, spec.judge_rounds)
        if limit is not None and number > limit:
            raise ConfigError(f"{number:,} dimensions in all rounds of all judges", f"send fewer: at most {limit:,}")
        self.by_id = make_rounds(by_id, spec.judge_rounds)
        self.signatures = Signatures(self.by_id)
        self._with_prompts: set[str] = set()

    def select(self, names: Iterable[str]) -> tuple[Dimension, ...]:
        """Select dimensions by id or glob; a glob includes the rounds of what it matches.

        The default is the dimensions of the benchmark. The result has the order of `names` if all
        of them are ids, and otherwise the order of declaration.

        Raises:
            ConfigError: an id or glob matches nothing, or official prompts are needed that are not
                imported.
        """
        unique_names = tuple(dict.fromkeys(names))
        ids = [name for name in unique_names if name in self.by_id]
        globs = [name for name in unique_names if name not in self.by_id]
        matches = select_dimensions(globs, self._rules) if globs or not ids else ()
        if matches:
            names_of_all = {*ids, *(dimension.id for dimension in with_rounds(matches, self.by_id))}
            ids = [name for name in self.by_id if name in names_of_all]
        selection = tuple(self.by_id[name] for name in ids)
        new = [dimension for dimension in selection if dimension.id not in self._with_prompts]
        for dimension in sort_by_dependency(new, self.by_id):
            _ = dimension.prompt_origins  # raises if official prompts are not imported
        self._with_prompts.update(dimension.id for dimension in new)
        return selection


def missing_services(services: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Map each missing service to the dimensions that need it; any judge serves for all judges."""
    dimensions = all_dimensions()
    has_judge = any(name.startswith(f"{JUDGE_ROLE}.") for name in services)
    missing = group_by_key(
        (role, name)
        for name, dimension in dimensions.items()
        for role in sorted(roles_of(dimension, dimensions))
        if role not in services and not (has_judge and role.is_judge)
    )
    return {role: tuple(names) for role, names in sorted(missing.items())}


def missing_services_line(missing: Mapping[str, Collection[str]]) -> str:
    """Describe the missing services in one line; empty if there are none."""
    names = set().union(*missing.values())
    if not names:
        return ""
    return f"{models_needed(len(names), 'dimension')}: {', '.join(missing)}"


def models_needed(count: int, what: str) -> str:
    """Say how many things need missing models: `2 dimensions need models that are not served`.

    Args:
        what: The noun in the singular: `dimension`.
    """
    return f"{format_count(count, f'{what} needs', f'{what}s need')} models that are not served"


def unserved_command(run: Path) -> str:
    """The command that lists the dimensions of a run that wait for a model."""
    return f"editjudge summary {shlex.quote(str(run))} --unserved"
