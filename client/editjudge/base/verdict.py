"""The outcomes of judging one edit on one dimension.

A run stores four of them, the verdicts: `Score`, `NoScore`, `Failure`, and `NotApplicable` where a
judge found that its question does not apply. Tables report four more that a later run can change:
`NotServed`, `MissingOutput`, `Pending` and `LeftOut`. Every outcome has a `value` and a `reason`;
only `Score` has a number, so that nothing else can enter a mean by accident.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, FiniteFloat, JsonValue

from .errors import Abstention, EditjudgeError
from .strict import Strict

Status: TypeAlias = Literal[
    "scored", "unscored", "failed", "not_applicable", "not_served", "missing_output", "pending", "left_out"
]
"""How a dimension ended on an edit, as all JSON has it."""
NoScoreKind: TypeAlias = Literal["abstained", "unparsable", "refused", "degenerate"]
Evidence: TypeAlias = dict[str, JsonValue]


class _NoNumber(Strict):
    """An outcome without a number."""

    @property
    def value(self) -> None:
        """None, so that `outcome.value` works for every outcome."""
        return None


class Score(Strict):
    """A number within the dimension's range.

    ```python
    score = Score(value=0.75, evidence={"read": "SALE"})
    ```

    Attributes:
        value: Finite, in the unit and direction of the dimension.
        evidence: What the number rests on beside the replies to `calls`: how they were read, and
            what was measured.
        calls: Keys of the calls whose replies the number rests on: those of judges in order, then
            those of specialists.
        imputed: True where a rule of the benchmark set the number, not a judge.
    """

    status: Literal["scored"] = "scored"
    value: FiniteFloat
    evidence: Evidence = Field(default_factory=dict)
    calls: tuple[str, ...] = ()
    imputed: bool = False

    @property
    def reason(self) -> None:
        """None: only an outcome without a number has a reason."""
        return None


class CountedMissing(Score):
    """The number that a rule gives a missing output. It is never stored."""

    imputed: Literal[True] = True


class NoScore(_NoNumber):
    """The edit was judged and has no number.

    ```python
    verdict = NoScore(kind="degenerate", reason="the mask is empty")
    ```

    Attributes:
        kind: `abstained` (the judge declined), `unparsable` (its reply holds no valid
            answer), `refused` (its provider blocked the call, or it declined in words),
            `degenerate` (the metric is not defined here: empty mask, failed alignment).
        evidence: As in `Score`.
        calls: As in `Score`.
    """

    status: Literal["unscored"] = "unscored"
    kind: NoScoreKind
    reason: str
    evidence: Evidence = Field(default_factory=dict)
    calls: tuple[str, ...] = ()


class Failure(_NoNumber):
    """A service failed, so that the edit was not judged. The next run tries again.

    Attributes:
        error: Names the service, the endpoint and the attempts.
        retryable: Whether a later call can succeed.
    """

    status: Literal["failed"] = "failed"
    error: str
    retryable: bool = False

    @property
    def reason(self) -> str:
        """The error, under the name that the other outcomes have for it."""
        return self.error


class NotApplicable(_NoNumber):
    """The dimension does not apply to this edit; composites renormalise.

    Most often the item alone shows this, before any call. A scorer may return it too, where its
    judge finds nothing to ask about (I2I-Bench: no subject is to be preserved); it then has
    evidence and calls. In both cases means and their coverage leave the edit out.
    """

    status: Literal["not_applicable"] = "not_applicable"
    reason: str
    evidence: Evidence = Field(default_factory=dict)
    calls: tuple[str, ...] = ()


class NotServed(_NoNumber):
    """No available service can judge this dimension."""

    status: Literal["not_served"] = "not_served"
    reason: str


class MissingOutput(_NoNumber):
    """The model under test produced no image for this item. Coverage counts the edit."""

    status: Literal["missing_output"] = "missing_output"
    reason: str


class Pending(_NoNumber):
    """The edit is not judged yet. The coverage of an unfinished run counts it."""

    status: Literal["pending"] = "pending"
    reason: str = "not judged yet"


class LeftOut(_NoNumber):
    """The table leaves the number out: another model has none for this item (`--common`)."""

    status: Literal["left_out"] = "left_out"
    reason: str = "not all models have a number"


Verdict: TypeAlias = Annotated[Score | NoScore | Failure | NotApplicable, Field(discriminator="status")]
Verdicts: TypeAlias = Mapping[str, Verdict]
"""Verdicts by field or dimension."""
Outcome: TypeAlias = Score | NoScore | Failure | NotApplicable | NotServed | MissingOutput | Pending | LeftOut


def make_no_score(abstention: Abstention) -> NoScore:
    """Turn a judge's abstention into a verdict."""
    fields = {name: getattr(abstention, name) for name in ("kind", "reason", "evidence", "calls")}
    return NoScore.model_validate(fields)


def calls_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the keys of the calls that an outcome rests on; none where no call was made."""
    return outcome.calls if isinstance(outcome, Score | NoScore | NotApplicable) else ()


def add_calls(verdict: Verdict, calls: Iterable[str]) -> Verdict:
    """Return a score or a `NoScore` with further calls, sorted, after its own; others unchanged."""
    further = [key for key in sorted(calls) if key not in calls_of(verdict)]
    if not isinstance(verdict, Score | NoScore) or not further:
        return verdict
    return verdict.model_copy(update={"calls": (*verdict.calls, *further)})


def make_failure(error: Exception) -> Failure:
    """Turn an error that occurred while judging into a verdict; an unexpected one is named by its type."""
    if isinstance(error, EditjudgeError):
        return Failure(error=str(error), retryable=bool(getattr(error, "retryable", False)))
    return Failure(error=f"{type(error).__name__}: {error}")
