"""Requests and replies of the reward schema (docs/howto/reward_schema.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import pybase64
from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import models_json_schema

from ..base.digest import content_digest
from ..base.errors import EditjudgeError, InputError
from ..base.item import MAX_TEXT_CHARACTERS
from ..base.strict import Strict

MAX_EDITS = 1024
_MAX_REFERENCES = 15
MAX_PICTURES = MAX_EDITS * (_MAX_REFERENCES + 3)
"""Of a batch: source, references, edited picture and mask of each edit."""
_Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]
_Name = Annotated[str, Field(max_length=200)]
NoRewardKind: TypeAlias = Literal[
    "abstained",
    "unparsable",
    "refused",
    "degenerate",
    "failed",
    "not_applicable",
    "not_served",
    "missing_output",
    "input",
    "deadline",
]


class RewardError(EditjudgeError):
    """An edit of a batch has no reward, and `without_number` is `error`."""


class _SchemaModel(Strict):
    model_config = ConfigDict(use_attribute_docstrings=True)


class PictureSource(_SchemaModel):
    """A picture, by exactly one of its fields."""

    data: str | None = None
    """The bytes of a PNG, JPEG, WebP, GIF, BMP or TIFF file, in base64."""
    part: _Name | None = None
    """The name of a part of the multipart body, which is the file."""
    digest: _Name | None = None
    """`sha256:` and 64 hex digits of a file that was sent before."""
    path: Annotated[str, Field(max_length=4096)] | None = None
    """A path below the folder of the team."""

    @model_validator(mode="after")
    def _is_one(self) -> PictureSource:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give one of data, part, digest, path")
        return self

    def read(self, field: str, pictures: Mapping[str, tuple[str, bytes]]) -> tuple[str, bytes]:
        """Return the digest and the bytes of a picture that was sent.

        Args:
            field: Its path in the request.
            pictures: Digests and bytes, by the names of parts, and by keys that stand in `data`.

        Raises:
            InputError: it was not sent, or is no base64.
        """
        if picture := pictures.get(self.part or self.data or ""):
            return picture
        if self.part is not None:
            raise InputError(f"{field}.part", "no part has this name", "send it as a part")
        try:
            data = pybase64.b64decode(self.data or "", validate=True)
        except ValueError as error:
            raise InputError(f"{field}.data", "it is no base64", "encode the file") from error
        return content_digest(data), data


class RewardEdit(_SchemaModel):
    """An edit to score."""

    id: _Text = ""
    """An id, which the reply repeats; by default the place in the batch."""
    source: PictureSource
    """The picture before the edit."""
    instruction: _Text
    """What the editor was told."""
    edited: PictureSource
    """The picture after the edit."""
    references: Annotated[tuple[PictureSource, ...], Field(max_length=_MAX_REFERENCES)] = ()
    """Further pictures that the editor was given."""
    mask: PictureSource | None = None
    """The region that the edit may change: the pixels that are not black."""


class RewardRequest(_SchemaModel):
    """The body of `POST /v1/rewards`."""

    edits: Annotated[tuple[RewardEdit, ...], Field(min_length=1, max_length=MAX_EDITS)]
    """The edits, in any order; those of one source are judged together."""
    want: Annotated[tuple[_Name, ...], AfterValidator(lambda names: tuple(dict.fromkeys(names)))] = ()
    """The names of the rewards; none means all."""
    deadline_ms: Annotated[int, Field(gt=0)] | None = None
    """Milliseconds; what is not judged by then has no number. The server's limit holds too."""

    def list_pictures(self) -> Iterator[tuple[str, PictureSource]]:
        """Yield each picture after its path in the request, for example `edits[0].references[1]`."""
        for place, each in enumerate(self.edits):
            fields = {"source": each.source, "edited": each.edited, "mask": each.mask}
            fields |= {f"references[{i}]": one for i, one in enumerate(each.references)}
            yield from ((f"edits[{place}].{name}", one) for name, one in fields.items() if one)


class PartValue(_SchemaModel):
    """One dimension of a reward, or the dimension of a gate (`gate.NAME`)."""

    value: float | None = None
    """The value on the dimension's own scale; null where there is none."""
    range: tuple[float, float] | None = None
    """The values at the worst and the best end of the reward's scale; null for a gate."""
    weight: float = 0.0
    """The share of the mix, relative to the other parts; 0 for a gate."""
    cap: float | None = None
    """Of a closed gate: the highest reward that it lets through."""
    reason: str | None = None
    """Why there is no value."""


class NoReward(_SchemaModel):
    """Why an edit has no reward."""

    kind: NoRewardKind
    """What went wrong. `failed` and `deadline` say nothing about the edit."""
    reason: str
    """One line for people."""
    retry: bool = False
    """Whether the same request may succeed later."""


class RewardValue(_SchemaModel):
    """One reward of an edit."""

    reward: float | None = None
    """The number; null where there is none."""
    parts: dict[str, PartValue] = Field(default_factory=dict)
    """What it was made of, by dimension; a gate is `gate.NAME`."""
    unscored: NoReward | None = None
    """Why there is no number; null where there is one."""
    imputed: bool = False
    """Whether the number is the constant of `without_number`, with `unscored` beside it."""
    signature: str = ""
    """All that the number depends on, in 12 hex digits."""
    seconds: dict[str, float] = Field(default_factory=dict, exclude=True)
    """How long each dimension took; in the summary alone, so that a batch sent again has an equal reply."""


class EditReward(_SchemaModel):
    """The rewards of one edit."""

    id: str
    """The id of the edit in the request."""
    rewards: dict[str, RewardValue]
    """By name of the reward."""


class Summary(_SchemaModel):
    """One reward over a batch: what a trainer should look at."""

    edits: int
    """How many edits there are."""
    unscored: dict[NoRewardKind, int]
    """How many have no number, by kind."""
    imputed: int
    """How many of these got the constant instead."""
    lowest: int
    """How many have the lowest reward of the scale."""
    highest: int
    """How many have the highest reward of the scale."""
    gates: dict[str, int]
    """How many stand at each closed gate."""
    groups: int
    """How many pairs of source and instruction have at least two rewards."""
    flat_groups: int
    """How many of these have no spread: they teach nothing."""
    spread: float | None
    """The mean standard deviation of the reward within a group; null without groups."""
    agreement: dict[str, float]
    """Rank correlation of two parts, -1 to 1, by `part~part`; absent where one is constant."""
    seconds: dict[str, float]
    """How long each dimension took for an edit on average; next to nothing where it was answered before."""

    def counts(self) -> dict[str, Mapping[str, int]]:
        """What became of edits and groups, as metrics count it."""
        numbers, flat = self.edits - sum(self.unscored.values()), self.flat_groups
        outcomes = {str(kind): count for kind, count in self.unscored.items()}
        return {
            "edits": {**outcomes, "scored": numbers, "imputed": self.imputed},
            "ends": {"lowest": self.lowest, "highest": self.highest},
            "gates": self.gates,
            "groups": {"flat": flat, "some": self.groups - flat},
        }


class RewardReply(_SchemaModel):
    """The reply to a batch."""

    results: tuple[EditReward, ...]
    """In the order of the edits."""
    summary: dict[str, Summary]
    """By name of the reward."""
    seconds: float
    """How long the batch took."""

    def numbers(self, name: str, without_number: object = "error") -> list[float | None]:
        """Return one reward of every edit.

        Args:
            without_number: `error` raises for an edit without a number; else it has None.

        Raises:
            RewardError: naming the first edit without a number, and the reason.
        """
        for result in self.results if without_number == "error" else ():
            value = result.rewards[name]
            if value.unscored and value.reward is None:
                raise RewardError(f"{result.id} has no reward {name}: {value.unscored.reason}")
        return [result.rewards[name].reward for result in self.results]


def make_reward_schema() -> dict[str, Any]:
    """Make the JSON schema of requests and replies."""
    models = [(RewardRequest, "validation"), (RewardReply, "serialization")]
    schema = models_json_schema(models, title="Rewards of image edits")[1]  # type: ignore[arg-type]
    draft = "https://json-schema.org/draft/2020-12/schema"
    one_of = [{"$ref": f"#/$defs/{model.__name__}"} for model, _ in models]
    return {"$schema": draft, **schema, "oneOf": one_of}
