"""How many replies a ledger holds."""

from __future__ import annotations

from editjudge.storage.ledger import Ledger
from editjudge.storage.schema import CALLS, encode_text


def count_replies(ledger: Ledger) -> int:
    """The calls of the ledger's team that have replies."""
    of_team = "WHERE team = ? AND dropped = 0"
    return len(list(ledger._database.rows(CALLS, of_team, encode_text(ledger.team))))
