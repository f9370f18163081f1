"""What the Judge service takes and gives as JSON; unknown fields are refused."""

from __future__ import annotations

import binascii
from typing import Annotated, Literal, get_args

import pybase64
from pydantic import Field, JsonValue, WrapValidator

from editjudge.app.wire.base import Wire
from editjudge.app.wire.lists import Dimension
from editjudge.app.wire.verdict import Score
from editjudge.base.item import Missing, MissingKind
from editjudge.base.verdict import Evidence, Failed, Unscored, UnscoredKind
from editjudge.benchmarks.registry import CORE
from editjudge.benchmarks.rounds import USUAL

from .asked import Asked, Picture
from .protocols import Protocol, Unusable

_MOST_IN_BATCH = 64


class PictureSent(Wire):
    """An encoded picture.

    Attributes:
        data: Its bytes (PNG, JPEG, WebP, GIF, BMP, TIFF) in base64.
        name: How messages about it call it.
    """

    data: str
    name: str = ""

    def picture(self, field: str) -> Picture:
        """Its bytes.

        Raises:
            Unusable: this is no base64.
        """
        try:
            return Picture(pybase64.b64decode(self.data, validate=True), self.name)
        except (binascii.Error, ValueError) as error:
            raise Unusable(f"{field}.data", f"this is no base64: {error}") from error


class FlawSent(Wire):
    """What the data of an item holds and cannot be used.

    Attributes:
        field: Of the edit.
        status: `failed` where it may be readable another time.
        kind: Of an unscored one.
    """

    field: str
    status: Literal["unscored", "failed"] = "unscored"
    kind: UnscoredKind | None = None
    reason: str
    retryable: bool = False
    evidence: Evidence = Field(default_factory=dict)

    def outcome(self) -> Unscored | Failed:
        """What every dimension becomes that reads the field.

        Raises:
            Unusable: it has no kind.
        """
        if self.status == "failed":
            return Failed(error=self.reason, retryable=self.retryable)
        if self.kind is None:
            there = f"there are {', '.join(get_args(UnscoredKind))}"
            raise Unusable("edit.flaws", f"{self.field}: it has no kind", there)
        return Unscored(kind=self.kind, reason=self.reason, evidence=self.evidence)


class MissingSent(Wire):
    """Why there is no picture after the edit."""

    kind: MissingKind
    reason: str = ""


class ProtocolSent(Wire):
    """By which rules is judged, and who is asked.

    Attributes:
        benchmark: Its name.
        name: Of its protocol, in short or in full; empty for the usual one.
        on: Switches to turn on.
        off: Switches to turn off.
        judges: Names of the generalists that judge, side by side.
        rounds: How often each of them judges.
        prompts: Templates of one's own, texts by file.
    """

    benchmark: str = CORE
    name: str = ""
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    judges: tuple[str, ...] = (USUAL,)
    rounds: int = 1
    prompts: dict[str, str] = Field(default_factory=dict)

    def protocol(self) -> Protocol:
        """As it is judged by."""
        fields = self.model_dump(exclude={"prompts"})
        return Protocol(prompts=tuple(sorted(self.prompts.items())), **fields)


class EditSent(Wire):
    """An item, as one model edited it.

    Attributes:
        id: How results call it.
        model: The editing model.
        instruction: What it was told.
        sources: The pictures before the edit.
        edited: The picture after it; absent only where `missing` says why.
        mask: Where the edit may change the source: what is not black may.
        target: The ground-truth result.
        target_text: Text that the result must show.
        hint: World knowledge for the judge.
        questions: That came with the item.
        task: The benchmark's own task type.
        extra: What only this benchmark needs.
        flaws: What the data holds and cannot be used.
        missing: Why there is no picture after the edit.
        mask_over_frame: The mask is stretched over whole pictures, whatever their sides.
    """

    id: str = ""
    model: str = ""
    instruction: str
    sources: tuple[PictureSent, ...]
    edited: PictureSent | None = None
    mask: PictureSent | None = None
    target: PictureSent | None = None
    target_text: str | None = None
    hint: str | None = None
    questions: tuple[dict[str, JsonValue], ...] = ()
    task: str = ""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    flaws: tuple[FlawSent, ...] = ()
    missing: MissingSent | None = None
    mask_over_frame: bool = False


class ScoreAsked(Wire):
    """`POST /v1/score`.

    Attributes:
        dimensions: Ids or globs; none means all of the benchmark.
        protocol: By which rules is judged; by default those of `core`.
    """

    edit: EditSent
    dimensions: tuple[str, ...] = ()
    protocol: ProtocolSent = ProtocolSent()

    def asked(self) -> Asked:
        """What it asks.

        Raises:
            Unusable: a picture is no base64.
        """
        edit = self.edit
        return Asked(
            id=edit.id,
            model=edit.model,
            instruction=edit.instruction,
            sources=tuple(p.picture(f"edit.sources[{i}]") for i, p in enumerate(edit.sources)),
            edited=edit.edited.picture("edit.edited") if edit.edited else None,
            mask=edit.mask.picture("edit.mask") if edit.mask else None,
            target=edit.target.picture("edit.target") if edit.target else None,
            target_text=edit.target_text,
            hint=edit.hint,
            questions=edit.questions,
            task=edit.task,
            extra=edit.extra,
            flaws={flaw.field: flaw.outcome() for flaw in edit.flaws},
            missing=Missing(edit.missing.kind, edit.missing.reason) if edit.missing else None,
            mask_over_frame=edit.mask_over_frame,
            protocol=self.protocol.protocol(),
            dimensions=self.dimensions,
        )


_Unchecked = Annotated[ScoreAsked, WrapValidator(lambda sent, _: sent)]
"""As it was sent: each request of a batch is checked, and refused, by itself."""


class BatchAsked(Wire):
    """`POST /v1/score:batch`."""

    requests: Annotated[tuple[_Unchecked, ...], Field(min_length=1, max_length=_MOST_IN_BATCH)]


class Refused(Wire):
    """Why a request was not judged.

    Attributes:
        code: As gRPC names it, for example INVALID_ARGUMENT.
        field: Of the request; empty where it is not about one.
        mend: What to do about it.
    """

    code: str
    message: str
    field: str = ""
    mend: str = ""


class Error(Wire):
    """The body of a reply that is no success."""

    error: Refused


class Result(Wire):
    """A request of a batch: judged, or refused."""

    score: Score | None = None
    error: Refused | None = None


class Batch(Wire):
    """The results of a batch, in the order of its requests."""

    results: tuple[Result, ...]


class DimensionServed(Dimension):
    """A dimension that can be asked for.

    Attributes:
        served: Whether everything that it calls is here.
    """

    served: bool


class PanelServed(Wire):
    """Who judges.

    Attributes:
        services: Identities, by role.
        untrained: Roles whose weights are random: nothing judged with them is a result.
        problems: Why endpoints that are configured cannot be used, by address.
        version: Of the package that judges.
    """

    services: dict[str, str]
    untrained: tuple[str, ...]
    problems: dict[str, str]
    version: str
