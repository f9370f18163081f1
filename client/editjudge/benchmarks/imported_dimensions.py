"""The dimensions of judgements that others made: a run holds them, and nothing here makes them anew."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..base.errors import ConfigError
from ..base.identity import Identities
from ..scorers.scorer import ServiceScorer
from .dimension import Dimension, Reading

IMPORT_ROLE = "imported"
"""The role of judges of others. What one said is the dimension `imported.<variant>`."""


@dataclass(frozen=True)
class ImportedScore(ServiceScorer):
    """Stands for a judge that cannot be asked."""

    name: ClassVar[str] = "imported"

    async def score(self, *_: Any) -> Any:
        """Refuse.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{self.service} was imported", "import its judgement of this edit too")


def make_imported_dimensions(identities: Identities) -> tuple[Dimension, ...]:
    """Make the dimension of each imported judge and reading, whose facts have the ends of its scale."""
    return tuple(
        Dimension(
            id=str(name),
            asks=f"What did {judge.name} say, {judge.facts['read']}?",
            source="imported judgements",
            how=Reading(ImportedScore(str(name)), "value"),
            range=(float(judge.facts["low"]), float(judge.facts["high"])),
            protocol="imported.1",
        )
        for name, judge in identities.items()
        if name.role == IMPORT_ROLE
    )
