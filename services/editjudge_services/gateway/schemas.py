"""What callers send and get: declared once, as JSON; messages of the proto are read as it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import pybase64
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
)

from editjudge import Dimension, Panel
from editjudge.base.errors import EditjudgeError, InputError
from editjudge.base.identity import untrained_services
from editjudge.base.images import Image, Mask, count_pixels, load_image, load_mask
from editjudge.base.item import Edit, Flaws, Item, Missing, MissingKind, Need, check_text
from editjudge.base.signature import package_version
from editjudge.base.strict import Strict
from editjudge.base.text import join_surrogates
from editjudge.base.verdict import Evidence, Failure, NoScore, NoScoreKind
from editjudge.service import DimensionEntry, ScoreReport

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
_MOST_SOURCES = 16
_MOST_IN_BATCH = 64
_MOST_JUDGES = 16
_LONGEST_NAME = 200
_SEE = "see /v1/openapi.json"


class InvalidRequest(InputError):
    """A request that cannot be judged.

    Attributes:
        field: Of the request, for example `edit.mask`.
    """

    def __init__(self, field: str, reason: str, mend: str = "") -> None:
        super().__init__(field, reason, mend)
        self.field = field


class JsonModel(Strict):
    """A part of what travels as JSON; a field that is not declared is refused."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def _decoded(data: object) -> object:
    return pybase64.b64decode(data, validate=True) if isinstance(data, str) else data


class EncodedImage(JsonModel):
    """An encoded picture."""

    data: Annotated[
        bytes,
        BeforeValidator(_decoded),
        WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
    ]
    """Its bytes (PNG, JPEG, WebP, GIF, BMP, TIFF) in base64."""
    name: str = ""
    """How messages about it call it."""

    def decode(self, field: str) -> Image:
        """The picture, decoded; `field` is where it stands in the request."""
        return _tried(field, lambda: load_image(self.data, self.name))

    def decode_mask(self, field: str) -> Mask:
        """The same of a mask."""
        return _tried(field, lambda: load_mask(self.data, self.name))


class ItemFlaw(JsonModel):
    """What the data of an item holds and cannot be used."""

    field: Literal["instruction", Need]
    """Of the edit."""
    status: Literal["unscored", "failed"] = "unscored"
    """`failed` where it may be readable another time."""
    kind: NoScoreKind | None = None
    """Of an unscored one."""
    reason: str = ""
    """In one line."""
    retryable: bool = False
    """Of a failed one: whether account again later can help."""
    evidence: Evidence = Field(default_factory=dict)
    """Of an unscored one: what was found."""

    def outcome(self) -> NoScore | Failure:
        """What every dimension becomes that reads the field."""
        if self.status == "failed":
            return Failure(error=self.reason, retryable=self.retryable)
        if self.kind is None:
            there = f"there are {', '.join(get_args(NoScoreKind))}"
            raise InvalidRequest("edit.flaws", f"{self.field}: it has no kind", there)
        return NoScore(kind=self.kind, reason=self.reason, evidence=self.evidence)


class MissingImage(JsonModel):
    """Why there is no picture after the edit."""

    kind: MissingKind
    """Whether there is no file, there are several, or it holds no picture."""
    reason: str = ""
    """In one line."""


def _named(judge: str) -> str:
    if not judge.isidentifier():
        raise ValueError("this is no name")
    return judge


class Protocol(JsonModel):
    """Which rules judge, and who is asked."""

    benchmark: str = "core"
    """Its name."""
    name: str = ""
    """Of its protocol, in short or in full; empty for the usual one."""
    on: tuple[str, ...] = ()
    """Switches to turn on."""
    off: tuple[str, ...] = ()
    """Switches to turn off."""
    judges: Annotated[
        tuple[
            Annotated[str, StringConstraints(max_length=_LONGEST_NAME), AfterValidator(_named)], ...
        ],
        Field(min_length=1, max_length=_MOST_JUDGES),
    ] = ("judge",)
    """Names of the judges that judge, side by side."""
    rounds: Annotated[int, Field(ge=1)] = 1
    """How often each of them judges."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """Templates of one's own, texts by file."""


class EncodedEdit(JsonModel):
    """An item, as one model edited it."""

    id: str = ""
    """How results call it."""
    model: str = ""
    """The editing model."""
    instruction: str
    """What it was told."""
    sources: Annotated[tuple[EncodedImage, ...], Field(max_length=_MOST_SOURCES)] = ()
    """The pictures before the edit."""
    edited: EncodedImage | None = None
    """The picture after it; absent only where `missing` says why."""
    mask: EncodedImage | None = None
    """Where the edit may change the source: what is not black may."""
    target: EncodedImage | None = None
    """The ground-truth result."""
    target_text: str | None = None
    """Text that the result must show."""
    hint: str | None = None
    """World knowledge for the judge."""
    questions: tuple[dict[str, JsonValue], ...] = ()
    """That came with the item."""
    task: str = ""
    """The benchmark's own task type."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """What only this benchmark needs."""
    flaws: tuple[ItemFlaw, ...] = ()
    """What the data holds and cannot be used."""
    missing: MissingImage | None = None
    """Why there is no picture after the edit."""
    mask_over_frame: bool = False
    """The mask is stretched over whole pictures, whatever their sides."""

    def pixels(self) -> int:
        """How many the heads of its pictures tell; nothing is decoded."""
        sent = (*self.sources, self.edited, self.mask, self.target)
        return sum(count_pixels(picture.data) for picture in sent if picture is not None)

    def decode(self, mask_fits: bool) -> Edit:
        """The edit, its pictures decoded; it takes long, so it is made in a thread.

        Args:
            mask_fits: Whether the mask must lie over the source and the target.

        Raises:
            InvalidRequest: naming the field.
        """
        flaws: Flaws = {str(flaw.field): flaw.outcome() for flaw in self.flaws}
        self._check(flaws)
        sources = [each.decode(f"edit.sources[{i}]") for i, each in enumerate(self.sources)]
        edited = self.edited.decode("edit.edited") if self.edited else None
        target = self.target.decode("edit.target") if self.target else None
        mask = self.mask.decode_mask("edit.mask") if self.mask else None
        item = _tried(
            "edit.instruction",
            lambda: Item(
                id=self.id or "edit",
                instruction=self.instruction,
                sources=tuple(sources),
                mask=mask and replace(mask, stretches_to_frame=self.mask_over_frame),
                target=target,
                target_text=self.target_text,
                hint=self.hint,
                questions=self.questions,
                task=self.task,
                extra=self.extra,
                flaws=flaws,
            ),
        )
        if mask_fits and not self.mask_over_frame:
            _tried("edit.mask", item.check_mask)
        missing = Missing(self.missing.kind, self.missing.reason) if self.missing else None
        return Edit(item, self.model, edited, missing)

    def _check(self, flaws: Flaws) -> None:
        if not self.sources and "source" not in flaws:
            raise InvalidRequest(
                "edit.sources", "there is none", "send the picture before the edit"
            )
        if self.edited is None and self.missing is None:
            raise InvalidRequest("edit.edited", "there is none", "send the picture after the edit")
        if self.edited is not None and self.missing is not None:
            raise InvalidRequest("edit.missing", "there is a picture", "send one of the two")
        hint = self.hint
        if hint is not None:
            _tried("edit.hint", lambda: check_text("hint", hint))
        _tried("edit.task", lambda: check_text("task", self.task))


class ScoreRequest(JsonModel):
    """`POST /v1/score`."""

    edit: EncodedEdit
    """What is judged."""
    dimensions: tuple[str, ...] = ()
    """Ids or globs; none means all of the benchmark."""
    protocol: Protocol = Protocol()
    """Which rules judge; by default those of `core`."""


class BatchRequest(JsonModel):
    """`POST /v1/score:batch`."""

    requests: Annotated[
        # As they were sent: each is checked, and refused, by itself.
        tuple[Annotated[ScoreRequest, WrapValidator(lambda sent, _: sent)], ...],
        Field(min_length=1, max_length=_MOST_IN_BATCH),
    ]
    """Each is judged, or refused, by itself."""


def parse_request(validate: Callable[[Any], M], sent: object, within: str = "") -> M:
    """What was sent, as the model that it is.

    Args:
        within: The field of the request that it is; "" for the whole.

    Raises:
        InvalidRequest: naming the first field that cannot be used.
    """
    try:
        return validate(sent)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
        field = within + field
        reason = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(field.lstrip(".") or "body", reason, _SEE) from error


def _tried(field: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except InputError as error:
        raise InvalidRequest(field, error.reason, error.mend) from error
    except (ValueError, EditjudgeError) as error:
        raise InvalidRequest(field, str(error)) from error


class Refusal(JsonModel):
    """Why a request was not judged."""

    code: str
    """As gRPC names it, for example INVALID_ARGUMENT."""
    message: str
    """In one line."""
    field: str = ""
    """Of the request; empty where it is not about one."""
    mend: str = ""
    """What to do about it."""


class ErrorReply(JsonModel):
    """The body of a reply that is no success."""

    error: Refusal
    """What is wrong."""


class BatchResult(JsonModel):
    """A request of a batch: judged, or refused."""

    score: ScoreReport | None = None
    """What became of the edit."""
    error: Refusal | None = None
    """Why there is no score."""


class BatchReply(JsonModel):
    """The results of a batch."""

    results: tuple[BatchResult, ...]
    """In the order of its requests."""


class ServedDimension(DimensionEntry):
    """A dimension that can be asked for."""

    model_config = JsonModel.model_config
    served: bool
    """Whether everything that it calls is here."""

    @classmethod
    def list_served(cls, dimensions: Iterable[Dimension], panel: Panel) -> list[Self]:
        """Dimensions as they are served by a panel."""
        served = frozenset(map(str, panel.service_names))
        known = (DimensionEntry.of(each) for each in dimensions)
        return [cls(**dict(each), served=served.issuperset(each.services)) for each in known]


class PanelService(JsonModel):
    """A service that judges."""

    role: str
    """For example `quality.piqe` or `generalist.judge`."""
    identity: str
    """As signatures have it."""
    untrained: bool
    """Its weights are random: nothing judged with it is a result."""
    name: str
    """Of the model."""
    facts: dict[str, str]
    """What else tells it from others."""
    priced: bool
    """Of a judge: its price is known, so that costs are told."""


class PanelReply(JsonModel):
    """Who judges."""

    services: tuple[PanelService, ...]
    """Those at hand."""
    problems: tuple[str, ...]
    """Why endpoints that are configured cannot be used."""
    version: str
    """Of the package that judges."""

    @classmethod
    def of(cls, panel: Panel) -> Self:
        """The services of a panel."""
        identities = panel.identities()
        random = set(untrained_services(identities))
        priced = {r for r, one in panel.judges.items() if one.endpoint.price is not None}
        services = tuple(
            PanelService(
                role=role,
                identity=str(identity),
                untrained=role in random,
                name=identity.name,
                facts=dict(identity.facts),
                priced=role in priced,
            )
            for role, identity in sorted(identities.items())
        )
        problems = tuple(
            join_surrogates(f"{url}: {why}") for url, why in sorted(panel.problems.items())
        )
        return cls(services=services, problems=problems, version=package_version("editjudge"))
