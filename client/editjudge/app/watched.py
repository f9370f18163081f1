"""What canaries told of a run's judges, session by session, and what rests on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from ..base.identity import ServiceName
from ..benchmarks.column import Column
from ..engine.canary.comparing import CanarySession, Finding
from ..engine.canary.watching import FACT
from ..engine.order import Order
from ..storage.store import RunStore

WRONG = frozenset({"shifted", "disordered"})


@dataclass(frozen=True)
class Watched:
    """One judge in one session of a run.

    Attributes:
        service: `generalist.<name>`.
        began: ISO 8601, UTC, when the session began.
        finding: What is known of the judge in it.
    """

    service: ServiceName
    began: str
    finding: Finding

    @property
    def note(self) -> str:
        """In one line."""
        return f"{self.service}, session of {self.began}: {self.finding.why} (canary)"

    @property
    def is_wrong(self) -> bool:
        """Whether the judge shifted, or cannot order the canaries."""
        return self.finding.state in WRONG


def watched_in(store: RunStore) -> tuple[Watched, ...]:
    """Of all sessions of a run in which a judge was watched."""
    facts = store.facts(f"{FACT} ")
    return watched_of(CanarySession.model_validate_json(fact) for fact in facts)


def watched_of(sessions: Iterable[CanarySession]) -> tuple[Watched, ...]:
    """Of sessions, in the order of time; a session tells of the end of the one before it too."""
    ordered = sorted(sessions, key=lambda session: (session.service, session.began))
    return tuple(
        Watched(
            ServiceName.parsed(session.service),
            session.began,
            session.found(after if after and after.service == session.service else None),
        )
        for session, after in zip_longest(ordered, ordered[1:])
    )


def marks(watched: Iterable[Watched]) -> dict[ServiceName, str]:
    """By judge that shifted or cannot order the canaries, the first note."""
    notes: dict[ServiceName, str] = {}
    for session in watched:
        if session.is_wrong:
            notes.setdefault(session.service, session.note)
    return notes


def note_on(roles: Collection[ServiceName], notes: Mapping[ServiceName, str]) -> str:
    """The mark of what rests on these services; empty where nothing is wrong."""
    return "; ".join(note for service, note in notes.items() if service in roles)


def marked_columns(
    columns: Iterable[Column], order: Order, watched: Iterable[Watched]
) -> dict[str, str]:
    """By column that rests on such a judge, itself or through its parts, the note."""
    notes = marks(watched)
    roles: dict[str, frozenset[ServiceName]] = {}
    for column in columns:
        own = order.roles(name for name in column.dimensions if name in order.known)
        roles[column.id] = own.union(*(roles.get(part, frozenset()) for part in column.parts))
    told = {name: note_on(of, notes) for name, of in roles.items()}
    return {name: note for name, note in told.items() if note}
