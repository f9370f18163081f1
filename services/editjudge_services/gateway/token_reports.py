"""Reports of tokens to the front door, which deducts them from the limit of a team."""

from dataclasses import dataclass

from .errors import NoCapacity


@dataclass(slots=True)
class Debt:
    """Tokens that a team used for requests whose answers did not arrive.

    Attributes:
        tokens: Tokens that no answer reports yet.
        under_way: Tokens in answers that have not arrived yet.
    """

    tokens: int = 0
    under_way: int = 0


class TokenReport:
    """The tokens that the answer to one request reports: its own, and the debt of its team.

    An answer that does not arrive, because the caller hung up, leaves its tokens as a debt. While a
    team has one, its next request is refused with an answer that reports it. So a team that hangs
    up each time spends its limit and what is in flight at once, as others do.

    Args:
        debt: The debt of the team; a new one for a request whose tokens nobody counts.
    """

    def __init__(self, debt: Debt) -> None:
        self._debt = debt
        self._own = 0
        self._debt_share = 0
        self._total = 0
        self._is_open = True

    def add(self, tokens: int) -> None:
        """Add tokens of the request; after its end they are a debt."""
        if self._is_open:
            self._own += tokens
        else:
            self._debt.tokens += tokens

    def check(self) -> None:
        """Check that the team has no debt.

        Raises:
            NoCapacity: it has one, which the answer to this request reports.
        """
        if self._debt.tokens or self._debt.under_way:
            reason = "tokens of calls that were broken off are deducted from your limit first"
            raise NoCapacity(reason, "ask again")

    def take(self) -> int:
        """Return the number that the answer reports; it may be taken again."""
        self._debt_share += self._debt.tokens
        self._debt.under_way += self._debt.tokens
        self._debt.tokens = 0
        self._total = self._own + self._debt_share
        return self._total

    def close(self, *, has_arrived: bool) -> None:
        """End the report; what did not arrive becomes a debt."""
        self._is_open = False
        self._debt.under_way -= self._debt_share
        self.add(self._own + self._debt_share - (self._total if has_arrived else 0))
