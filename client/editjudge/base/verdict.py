"""What became of judging one edit on one dimension.

Four verdicts are stored: `Score`, `NoScore`, `Failure`, and `NotApplicable` where a judge found
it out. Four more outcomes are reported but never stored, because a later run can change them:
`NotServed`, `MissingOutput`, `Pending`, `LeftOut`. So is a `NotApplicable` that the item shows by
itself.
Only `Score` carries a number, so nothing else can enter a mean by accident.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, FiniteFloat, JsonValue

from .errors import Abstained, EditjudgeError
from .strict import Strict

Status: TypeAlias = Literal[
    "scored",
    "unscored",
    "failed",
    "not_applicable",
    "not_served",
    "missing_output",
    "pending",
    "left_out",
]
"""What became of a dimension on an edit, everywhere."""
NoScoreKind: TypeAlias = Literal["abstained", "unparsable", "refused", "degenerate"]
Evidence: TypeAlias = dict[str, JsonValue]


class Score(Strict):
    """A number within the dimension's range.

    Attributes:
        value: Finite; its unit and direction are the dimension's.
        evidence: What the number rests on beside the replies to `calls`: what they were read
            as, what was measured.
        calls: Keys of the calls whose replies it rests on: generalists' in order, then
            specialists'.
        imputed: True when a rule of the benchmark put the number in, not a judge.
    """

    status: Literal["scored"] = "scored"
    value: FiniteFloat
    evidence: Evidence = Field(default_factory=dict)
    calls: tuple[str, ...] = ()
    imputed: bool = False


class CountedMissing(Score):
    """What an output that is not there counts as, by a rule; never stored."""

    imputed: Literal[True] = True


class NoScore(Strict):
    """Judged, without a number.

    Attributes:
        kind: `abstained` (the judge declined), `unparsable` (its reply holds no valid
            answer), `refused` (its provider blocked the call, or it declined in words),
            `degenerate` (the metric is not defined here: empty mask, failed alignment).
        evidence: As of `Score`.
        calls: As of `Score`.
    """

    status: Literal["unscored"] = "unscored"
    kind: NoScoreKind
    reason: str
    evidence: Evidence = Field(default_factory=dict)
    calls: tuple[str, ...] = ()


class Failure(Strict):
    """Not judged, because a service failed. Planned again by the next run.

    Attributes:
        error: Names the service, the endpoint and the attempts.
        retryable: Whether asking again later can help.
    """

    status: Literal["failed"] = "failed"
    error: str
    retryable: bool = False

    @property
    def reason(self) -> str:
        """The error, under the name the other outcomes use."""
        return self.error


class NotApplicable(Strict):
    """The dimension does not ask anything about this edit; composites renormalise.

    Most often the item alone shows it, before any call. A scorer may return it too, where its
    judge finds nothing to ask about (I2I-Bench: no subject is to be preserved); it then has
    evidence and calls. Either way it is left out of means and out of their coverage.
    """

    status: Literal["not_applicable"] = "not_applicable"
    reason: str
    evidence: Evidence = Field(default_factory=dict)
    calls: tuple[str, ...] = ()


class NotServed(Strict):
    """No service at hand can judge this dimension."""

    status: Literal["not_served"] = "not_served"
    reason: str


class MissingOutput(Strict):
    """The model under test produced no image for this item; counted in coverage."""

    status: Literal["missing_output"] = "missing_output"
    reason: str


class Pending(Strict):
    """Not judged yet; counted in the coverage of a run that is not done."""

    status: Literal["pending"] = "pending"
    reason: str = "not judged yet"


class LeftOut(Strict):
    """Judged, and not counted: another model has no number for the item, and all were asked for."""

    status: Literal["left_out"] = "left_out"
    reason: str = "not all models have a number"


Verdict: TypeAlias = Annotated[
    Score | NoScore | Failure | NotApplicable, Field(discriminator="status")
]
Outcome: TypeAlias = (
    Score | NoScore | Failure | NotApplicable | NotServed | MissingOutput | Pending | LeftOut
)


def make_no_score(abstained: Abstained) -> NoScore:
    """Turn a judge's abstention into a verdict."""
    told = {"kind": abstained.kind, "reason": abstained.reason, "evidence": abstained.evidence}
    return NoScore.model_validate({**told, "calls": abstained.calls})


def calls_of(outcome: Outcome) -> tuple[str, ...]:
    """Keys of the calls that an outcome rests on; none where nobody was asked."""
    return outcome.calls if isinstance(outcome, Score | NoScore | NotApplicable) else ()


def add_calls(verdict: Verdict, calls: Iterable[str]) -> Verdict:
    """What was judged, a number or none, with further calls after its own."""
    further = [key for key in sorted(calls) if key not in calls_of(verdict)]
    if not isinstance(verdict, Score | NoScore) or not further:
        return verdict
    return verdict.model_copy(update={"calls": (*verdict.calls, *further)})


def make_failure(error: EditjudgeError) -> Failure:
    """Turn an error met while judging into a verdict."""
    return Failure(error=str(error), retryable=bool(getattr(error, "retryable", False)))
