"""Canaries on demand: are the judges what they were?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..base.config import Settings
from ..base.errors import ConfigError, ServiceError
from ..base.identity import ServiceName
from ..base.local import private_state_dir
from ..engine.canary.asking import look
from ..engine.canary.comparing import Baseline, Finding, Look, compared
from ..engine.canary.watching import BASELINE_ROUNDS, baseline_of, keep_baseline, places
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.generalist import Generalist
from ..storage.ledger import Ledger
from .client import with_local_stack

FILE = "canary.sqlite"


@dataclass(frozen=True)
class Examined:
    """A judge, asked about the canaries just now.

    Attributes:
        service: `generalist.<name>`.
        identity: Empty where it could not be asked.
        finding: How it compares with its first look.
        baseline: That look; None where there is none.
        look: What it said now; None where it could not be asked.
        is_first: This was its first look.
        calls: That were made.
        cost: Of these; None without a price.
    """

    service: ServiceName
    identity: str
    finding: Finding
    baseline: Baseline | None = None
    look: Look | None = None
    is_first: bool = False
    calls: int = 0
    cost: float | None = None


def kept_in(settings: Settings) -> Path:
    """The file of first looks: the ledger of the settings, or one in the user's state folder."""
    return settings.ledger or private_state_dir() / FILE


def examine(
    settings: Settings, judges: Iterable[str] = (), repeats: int = 1, *, anew: bool = False
) -> tuple[Examined, ...]:
    """Ask judges about the canaries, and compare each with its first look.

    Args:
        judges: Names of generalists; all that are configured without.
        repeats: How often each canary is asked; the first look asks three times at least.
        anew: Have this be the first look, whatever there was.

    Raises:
        ConfigError: a judge is not configured, or none is.
        StoreError: the file of first looks cannot be used.
    """
    at_hand = with_local_stack(settings)
    names = tuple(judges) or tuple(at_hand.generalists)
    if unknown := [name for name in names if name not in at_hand.generalists]:
        known = ", ".join(at_hand.generalists) or "none is"
        raise ConfigError(f"no generalist {unknown[0]} is configured", f"configured: {known}")
    if not names:
        raise ConfigError(
            "no generalist is configured", "give --generalist URL, or see docs/configuration.md"
        )
    chosen: Mapping[str, object] = {
        "endpoints": {},
        "generalists": {name: at_hand.generalists[name] for name in names},
    }
    only = at_hand.model_copy(update=chosen)
    with Ledger(kept_in(settings)) as ledger:
        return asyncio.run(_examined(only, ledger, repeats, anew=anew))


async def _examined(
    settings: Settings, ledger: Ledger, repeats: int, *, anew: bool
) -> tuple[Examined, ...]:
    examined = []
    budget = Budget(settings.max_cost)
    async with Panel(settings, ledger=ledger, policy=PoolPolicy()) as panel:
        for name in map(ServiceName.generalist, settings.generalists):
            if name in panel.generalists:
                asked = _asked(panel.generalists[name], ledger, repeats, budget, anew=anew)
                examined.append(await asked)
            else:
                why = f"not checked: {panel.why_not(name)}"
                examined.append(Examined(name, "", Finding("unchecked", why)))
    return tuple(examined)


async def _asked(
    generalist: Generalist, ledger: Ledger, repeats: int, budget: Budget, *, anew: bool
) -> Examined:
    name, calls, spent = generalist.name, budget.calls, budget.spent
    with budget.pays():
        try:
            await generalist.method()  # part of its identity
        except ServiceError as error:
            return Examined(name, "", Finding("unchecked", f"not checked: {error}"))
        baseline = None if anew else await baseline_of(generalist, ledger)
        first = baseline is None
        seen = await look(generalist, ledger, max(repeats, BASELINE_ROUNDS) if first else repeats)
        if first:
            baseline = await keep_baseline(generalist, ledger, seen)
    finding = (
        compared(baseline, seen, places())
        if baseline is not None
        else Finding("unchecked", f"not checked: {next(iter(seen.failures.values()), 'no reply')}")
    )
    cost = budget.spent - spent if generalist.endpoint.price else None
    identity = str(generalist.identity)
    return Examined(name, identity, finding, baseline, seen, first, budget.calls - calls, cost)
