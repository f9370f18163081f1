"""The schemas of requests and replies, in JSON; messages of the proto are read by the same ones."""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
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
from editjudge.base.errors import EditjudgeError, ImageError, InputError
from editjudge.base.identity import untrained_services
from editjudge.base.images import Image, Mask, count_pixels, leave_encoded, load_image, load_mask
from editjudge.base.item import MAX_TEXT_CHARACTERS, Edit, Flaws, Item, Missing, MissingKind, Need, check_text
from editjudge.base.parse import plain_message
from editjudge.base.signature import package_version
from editjudge.base.strict import Strict
from editjudge.base.text import join_surrogates
from editjudge.base.verdict import Evidence, Failure, NoScore, NoScoreKind
from editjudge.service import DimensionEntry, ScoreReport

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
_MAX_SOURCES = 16
_MAX_BATCH = 64
_MAX_JUDGES = 16
_MAX_NAME_CHARS = 200
_MAX_FLAWS = 16
_MAX_SWITCHES = 64
_MAX_QUESTIONS = 256
_MAX_JSON_CHARACTERS = 256 * 1024
MAX_DIMENSIONS = 8192
"""How many dimensions a request may name, and a protocol have in all rounds of all judges."""
_MAX_UNCOUNTED_PIXELS = 4 * 1024 * 1024
"""The largest picture that is checked before there is room to decode it."""
MAX_PROMPTS = 512
"""How many files of templates a protocol may have."""
_SEE = "see /v1/openapi.json"
_LOCAL = re.compile(r"\beditjudge [a-z]|(?<![\w-])--[a-z]|\bdocs/")
"""What callers of the service do not have: commands, options, pages."""


class InvalidRequest(InputError):
    """A request with a field that cannot be used.

    A fix for who has the command line or this repository is replaced by one for callers.

    Attributes:
        field: The path of the field, for example `edit.mask`.
    """

    def __init__(self, field: str, reason: str, fix: str = "") -> None:
        super().__init__(field, reason, _SEE if _LOCAL.search(fix) else fix)
        self.field = field


@contextmanager
def refuse_input() -> Iterator[None]:
    """Turn the client's errors about what was sent, within the block, into `InvalidRequest`."""
    try:
        yield
    except InputError as error:
        raise InvalidRequest(error.name, error.reason, error.fix) from error


def drop_hints(reason: str) -> str:
    """A reason without its hints in brackets for who has the command line or this repository."""
    return re.sub(rf" \([^()]*(?:{_LOCAL.pattern})[^()]*\)", "", reason)


class JsonModel(Strict):
    """The base of all requests and replies; a field that is not declared is refused."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def _decode_base64(data: object) -> object:
    return pybase64.b64decode(data, validate=True) if isinstance(data, str) else data


def _check_size(value: T) -> T:
    size = len(json.dumps(value, ensure_ascii=False))
    if size > _MAX_JSON_CHARACTERS:
        raise ValueError(f"{size:,} characters of JSON, {_MAX_JSON_CHARACTERS:,} are the most")
    return value


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)]
Name = Annotated[str, StringConstraints(max_length=_MAX_NAME_CHARS)]
BoundedJson = AfterValidator(_check_size)


class EncodedImage(JsonModel):
    """An encoded image."""

    data: Annotated[
        bytes, BeforeValidator(_decode_base64), WithJsonSchema({"type": "string", "contentEncoding": "base64"})
    ]
    """The bytes of a PNG, JPEG, WebP, GIF, BMP or TIFF file, in base64."""
    name: Text = ""
    """The image's name in messages."""
    _digest: str = ""

    @classmethod
    def of(cls, data: bytes, digest: str) -> Self:
        """Make an image of bytes whose digest is known."""
        image = cls(data=data)
        image._digest = digest
        return image

    def leave_encoded(self, max_pixels: int) -> Image | None:
        """Make an image that is decoded only when its pixels are read; see `editjudge.base.images`."""
        return leave_encoded(self.data, self.name, max_pixels, digest=self._digest)

    def decode(self, field: str, max_lazy_pixels: int) -> Image:
        """Load the image; errors name `field`, its path in the request."""
        return _name_field(field, lambda: load_image(self.data, self.name, max_lazy_pixels=max_lazy_pixels))

    def decode_mask(self, field: str) -> Mask:
        """Decode the image as a mask; errors name `field`, its path in the request."""
        return _name_field(field, lambda: load_mask(self.data, self.name))


class ItemFlaw(JsonModel):
    """A field of the item that its data set has in an unusable form."""

    field: Literal["instruction", Need]
    """The field of the edit."""
    status: Literal["unscored", "failed"] = "unscored"
    """`failed` where a later attempt may be able to read the field."""
    kind: NoScoreKind | None = None
    """With `unscored`: the kind of reason, which is then required."""
    reason: Text = ""
    """The reason in one line."""
    retryable: bool = False
    """With `failed`: whether the same request may succeed later."""
    evidence: Annotated[Evidence, BoundedJson] = Field(default_factory=dict)
    """With `unscored`: facts that support the reason."""

    def outcome(self) -> NoScore | Failure:
        """Make the outcome of every dimension that reads the field."""
        if self.status == "failed":
            return Failure(error=self.reason, retryable=self.retryable)
        if self.kind is None:
            fix = f"use one of {', '.join(get_args(NoScoreKind))}"
            raise InvalidRequest("edit.flaws", f"{self.field}: the kind is missing", fix)
        return NoScore(kind=self.kind, reason=self.reason, evidence=self.evidence)


class MissingImage(JsonModel):
    """The reason why there is no image after the edit."""

    kind: MissingKind
    """Whether there is no file, there are several, or the file holds no image."""
    reason: Text = ""
    """The reason in one line."""


def _check_name(judge: str) -> str:
    if not judge.isidentifier():
        raise ValueError("this is not a valid name")
    return judge


Switches = Annotated[tuple[Name, ...], Field(max_length=_MAX_SWITCHES)]


class Protocol(JsonModel):
    """The rules by which edits are judged, and the judges."""

    benchmark: Name = "core"
    """The name of the benchmark."""
    name: Name = ""
    """The benchmark's protocol, by its short or full name; empty for the default one."""
    on: Switches = ()
    """Switches to turn on."""
    off: Switches = ()
    """Switches to turn off."""
    judges: Annotated[
        tuple[Annotated[Name, AfterValidator(_check_name)], ...], Field(min_length=1, max_length=_MAX_JUDGES)
    ] = ("judge",)
    """The names of the judges (VLMs); each gives verdicts of its own."""
    rounds: Annotated[int, Field(ge=1)] = 1
    """How many times each judge judges."""
    prompts: dict[Name, str] = Field(default_factory=dict, max_length=MAX_PROMPTS)
    """Custom prompt templates: their texts by file name."""


class EncodedEdit(JsonModel):
    """An item, and one model's output for it."""

    id: Text = ""
    """The id of the item, which the results repeat."""
    model: Text = ""
    """The name of the model under test."""
    instruction: str
    """The instruction that the model under test was given."""
    sources: Annotated[tuple[EncodedImage, ...], Field(max_length=_MAX_SOURCES)] = ()
    """The images before the edit."""
    edited: EncodedImage | None = None
    """The image after the edit; absent only where `missing` gives the reason."""
    mask: EncodedImage | None = None
    """The region that the edit may change: the pixels that are not black."""
    target: EncodedImage | None = None
    """The ground-truth result."""
    target_text: str | None = None
    """The text that the result must show."""
    hint: str | None = None
    """World knowledge for the judge."""
    questions: Annotated[tuple[dict[str, JsonValue], ...], Field(max_length=_MAX_QUESTIONS), BoundedJson] = ()
    """The item's own questions."""
    task: str = ""
    """The benchmark's own task type."""
    extra: Annotated[dict[str, JsonValue], BoundedJson] = Field(default_factory=dict)
    """Fields that only this benchmark has."""
    flaws: Annotated[tuple[ItemFlaw, ...], Field(max_length=_MAX_FLAWS)] = ()
    """Fields that the data set has in an unusable form."""
    missing: MissingImage | None = None
    """The reason why there is no image after the edit."""
    mask_over_frame: bool = False
    """Whether the mask is stretched over whole images, whatever their aspect ratio."""

    def leave_encoded(self, max_pixels: int) -> dict[str, Image]:
        """Make images of those pictures that need not be decoded, by their paths in the request.

        Those of more than 4 megapixels are left out: to check them takes memory, as decoding does.
        """
        most, images = min(max_pixels, _MAX_UNCOUNTED_PIXELS), {}
        for field, picture in self._pictures().items() if most else ():
            with suppress(ImageError):  # which decoding tells
                images[field] = picture.leave_encoded(most)
        return {field: image for field, image in images.items() if image is not None}

    def count_pixels(self, encoded_images: Container[str] = ()) -> int:
        """Add up the pixels of images as their headers state them; decodes nothing.

        Args:
            encoded_images: Paths of the images that stay encoded, which are left out.
        """
        pictures = self._pictures() | ({"edit.mask": self.mask} if self.mask else {})
        data = (each.data for field, each in pictures.items() if field not in encoded_images)
        return sum(map(count_pixels, data))

    def _pictures(self) -> dict[str, EncodedImage]:
        """All pictures but the mask, by their paths in the request."""
        sources = {f"edit.sources[{i}]": each for i, each in enumerate(self.sources)}
        others = {"edit.edited": self.edited, "edit.target": self.target}
        return sources | {field: each for field, each in others.items() if each is not None}

    def decode(self, mask_fits: bool, encoded_images: Mapping[str, Image], max_lazy_pixels: int = 0) -> Edit:
        """Decode the images and make the edit; it takes long, so call it in a thread.

        Args:
            mask_fits: Whether the mask must have the size of the source and the target.
            encoded_images: The images that stay encoded, by their paths in the request.
            max_lazy_pixels: See `load_image`.

        Raises:
            InvalidRequest: naming the field.
        """
        flaws: Flaws = {str(flaw.field): flaw.outcome() for flaw in self.flaws}
        self._check(flaws)
        lazy = max_lazy_pixels if max_lazy_pixels > _MAX_UNCOUNTED_PIXELS else 0
        images = {
            field: encoded_images.get(field) or each.decode(field, lazy) for field, each in self._pictures().items()
        }
        sources = [images[f"edit.sources[{i}]"] for i in range(len(self.sources))]
        output, target = images.get("edit.edited"), images.get("edit.target")
        mask = self.mask.decode_mask("edit.mask") if self.mask else None
        item = _name_field(
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
            _name_field("edit.mask", item.check_mask)
        missing = Missing(self.missing.kind, self.missing.reason) if self.missing else None
        return Edit(item, self.model, output, missing)

    def _check(self, flaws: Flaws) -> None:
        if not self.sources and "source" not in flaws:
            raise InvalidRequest("edit.sources", "there is none", "send the image before the edit")
        if self.edited is None and self.missing is None:
            raise InvalidRequest("edit.edited", "there is none", "send the image after the edit")
        if self.edited is not None and self.missing is not None:
            raise InvalidRequest("edit.missing", "there is also an image", "send one of the two")
        for name in ("instruction", "target_text", "hint", "task"):
            text = getattr(self, name)
            if text is not None:
                _name_field(f"edit.{name}", partial(check_text, name, text))


class ScoreRequest(JsonModel):
    """The body of `POST /v1/score`."""

    edit: EncodedEdit
    """The edit to judge."""
    dimensions: Annotated[tuple[str, ...], Field(max_length=MAX_DIMENSIONS)] = ()
    """Ids or globs of dimensions; none means all of the benchmark."""
    protocol: Protocol = Protocol()
    """The rules by which the edit is judged; by default those of `core`."""


class BatchRequest(JsonModel):
    """The body of `POST /v1/score:batch`."""

    requests: Annotated[
        # Not validated here, so that an invalid request does not refuse the batch.
        tuple[Annotated[ScoreRequest, WrapValidator(lambda body, _: body)], ...],
        Field(min_length=1, max_length=_MAX_BATCH),
    ]
    """Requests that are judged or refused one by one."""


def parse_request(validate: Callable[[Any], M], data: object, within: str = "") -> M:
    """Validate a request or a part of it.

    Args:
        validate: The validation method of a model.
        data: What was sent.
        within: The path of the part in the request; "" for the whole.

    Raises:
        InvalidRequest: naming the first field that cannot be used.
    """
    try:
        return validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
        field = within + field
        reason = plain_message(first["type"], first["msg"])
        raise InvalidRequest(field.lstrip(".") or "body", reason, _SEE) from error


def _name_field(field: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except InputError as error:
        raise InvalidRequest(field, error.reason, error.fix) from error
    except (ValueError, EditjudgeError) as error:
        raise InvalidRequest(field, str(error)) from error


class Refusal(JsonModel):
    """The error of a request that was not judged."""

    code: str
    """The code as gRPC names it, for example INVALID_ARGUMENT."""
    message: str
    """The reason in one line."""
    field: str = ""
    """The path of the field that is wrong; empty where the error is about no field."""
    fix: str = ""
    """What to change."""


class ErrorReply(JsonModel):
    """The body of every reply with an error status."""

    error: Refusal
    """The error."""


class BatchResult(JsonModel):
    """The result of one request of a batch: a score or an error."""

    score: ScoreReport | None = None
    """The verdicts on the edit; absent where there is an error."""
    error: Refusal | None = None
    """The error; absent where there is a score."""


class BatchReply(JsonModel):
    """The reply to a batch."""

    results: tuple[BatchResult, ...]
    """The results, in the order of the requests."""


class ServedDimension(DimensionEntry):
    """A dimension, and whether this service can judge it."""

    model_config = JsonModel.model_config
    served: bool
    """Whether every judge and specialist that the dimension needs is available."""

    @classmethod
    def list_served(cls, dimensions: Iterable[Dimension], available: frozenset[str]) -> list[Self]:
        """Describe dimensions as the judges and specialists of these names can judge them."""
        entries = (DimensionEntry.of(each) for each in dimensions)
        return [cls(**dict(each), served=available.issuperset(each.services)) for each in entries]


class PanelService(JsonModel):
    """A judge or specialist of the panel."""

    role: str
    """The role and the variant, for example `quality.piqe` or `generalist.judge`."""
    identity: str
    """The identity as signatures have it."""
    untrained: bool
    """Whether the weights are random, so that no value is a result."""
    name: str
    """The name of the model."""
    facts: dict[str, str]
    """Further facts of the identity."""
    priced: bool
    """Whether the price of a judge is set, so that costs are reported."""


class PanelReply(JsonModel):
    """The panel: the judges and specialists of this service."""

    services: tuple[PanelService, ...]
    """The judges and specialists that are available."""
    problems: tuple[str, ...]
    """Endpoints in the settings that cannot be used, with the reasons."""
    version: str
    """The version of the package editjudge."""

    @classmethod
    def of(cls, panel: Panel) -> Self:
        """Describe a panel as it is now."""
        identities = panel.identities()
        random = set(untrained_services(identities))
        with_price = {r for r, one in panel.judges.items() if one.endpoint.price is not None}
        services = tuple(
            PanelService(
                role=role,
                identity=str(identity),
                untrained=role in random,
                name=identity.name,
                facts=dict(identity.facts),
                priced=role in with_price,
            )
            for role, identity in sorted(identities.items())
        )
        problems = tuple(join_surrogates(f"{url}: {why}") for url, why in sorted(panel.problems.items()))
        return cls(services=services, problems=problems, version=package_version("editjudge"))
