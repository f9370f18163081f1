"""What a run may spend on generalists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import CostLimit
from .transport import Usage

if TYPE_CHECKING:
    from ..config import Price


class Budget:
    """The costs of a run's calls, kept below a limit.

    What a call costs is known when it is done, so each call in flight is taken to cost as much
    as the dearest one so far.

    Args:
        limit: In the currency of the prices; None for no limit.

    Attributes:
        spent: So far.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self.spent = 0.0
        self._dearest = 0.0
        self._in_flight = 0

    def goes_on(self, spent: float, dearest: float) -> None:
        """Count in what was spent before.

        Args:
            dearest: Cost of the dearest call so far.
        """
        self.spent += spent
        self._dearest = max(self._dearest, dearest)

    @contextmanager
    def one_call(
        self, price: Price | None, service: str
    ) -> Iterator[Callable[[Usage], float | None]]:
        """Make one call inside; give what it took to what this gives, which tells its cost.

        Raises:
            CostLimit: the call could pass the limit.
        """
        if price is None:
            yield lambda _: None
            return
        expected = self.spent + (self._in_flight + 1) * self._dearest
        if self.limit is not None and (expected > self.limit or self.spent >= self.limit):
            raise CostLimit(
                f"{self.spent:.4g} of max_cost = {self.limit:g} is spent; what was judged is kept,"
                " raise the limit to go on",
                service=service,
            )

        def spend(usage: Usage) -> float:
            cost = price.of(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
            self.spent += cost
            self._dearest = max(self._dearest, cost)
            return cost

        self._in_flight += 1
        try:
            yield spend
        finally:
            self._in_flight -= 1
