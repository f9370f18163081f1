"""What canaries tell of judges, as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Self

from ...engine.canary.comparing import Finding, State
from ...engine.canary.watching import places
from .. import canary as on_demand
from .. import watched as of
from .base import Wire


class Found(Wire):
    """One look at the canaries, compared with the first.

    Attributes:
        state: `steady`; `shifted` beyond its own noise; `disordered`: it cannot order them;
            `unchecked`.
        why: In one line.
        shift: Mean difference to the first look, in levels of 1 to 5; null where unchecked.
        allowed: How large it may be by the judge's own noise.
        changed: How many canaries have another score.
        tau: Agreement with the known order, from -1 to 1.
    """

    state: State
    why: str
    shift: float | None
    allowed: float | None
    changed: int
    tau: float | None

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """As JSON."""
        return cls.model_validate(finding._asdict())


class Watched(Found):
    """A judge in one session of a run.

    Attributes:
        service: `generalist.<name>`.
        began: When the session did.
    """

    service: str
    began: str

    @classmethod
    def in_session(cls, watched: of.Watched) -> Self:
        """As JSON."""
        told = {"service": watched.service, "began": watched.began}
        return cls.model_validate(told | watched.finding._asdict())


class Canary(Wire):
    """What a judge says of one canary.

    Attributes:
        place: Its known place in its scene, from 1, the best; equal ones are not compared.
        before: Mean of the first look, from 1 to 5; null where it has none.
        sd: Sample standard deviation of its repeats; null with fewer than two.
        now: Mean of this look; null where it could not be read.
        failure: Why it could not; empty where it could.
    """

    canary: str
    place: int
    before: float | None
    sd: float | None
    now: float | None
    failure: str


class Examined(Found):
    """`canary --json`: a judge, asked just now.

    Attributes:
        service: `generalist.<name>`.
        identity: Empty where it could not be asked.
        first: This was its first look, with which later ones are compared.
        since: When the first look was; null where there is none.
        calls: That were made.
        cost: Of these; null without a price.
    """

    service: str
    identity: str
    first: bool
    since: str | None
    calls: int
    cost: float | None
    canaries: tuple[Canary, ...]

    @classmethod
    def now(cls, examined: on_demand.Examined) -> Self:
        """As JSON."""
        before = examined.baseline.look.scores if examined.baseline else {}
        scores = examined.look.scores if examined.look else {}
        failures = examined.look.failures if examined.look else {}
        told = {
            "service": examined.service,
            "identity": examined.identity,
            "first": examined.is_first,
            "since": examined.baseline.look.when if examined.baseline else None,
            "calls": examined.calls,
            "cost": examined.cost,
            "canaries": tuple(
                Canary(
                    canary=name,
                    place=place,
                    before=_mean(before.get(name, ())),
                    sd=_deviation(before.get(name, ())),
                    now=_mean(scores.get(name, ())),
                    failure="" if name in scores else failures.get(name, ""),
                )
                for name, (_, place) in places().items()
            ),
        }
        return cls.model_validate(told | examined.finding._asdict())


def _mean(scores: Sequence[float]) -> float | None:
    return statistics.fmean(scores) if scores else None


def _deviation(scores: Sequence[float]) -> float | None:
    return statistics.stdev(scores) if len(scores) > 1 else None
