"""What the Judge service takes and gives as JSON; unknown fields are refused."""

from __future__ import annotations

import binascii
from typing import Annotated

import pybase64
from pydantic import Field

from ..app.wire.base import Wire
from ..app.wire.lists import Dimension
from ..app.wire.verdict import Score
from .asked import Asked, Picture, Unusable

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


class EditSent(Wire):
    """An item, as one model edited it.

    Attributes:
        id: How results call it.
        model: The editing model.
        instruction: What it was told.
        sources: The pictures before the edit.
        edited: The picture after it.
        mask: Where the edit may change the source: what is not black may.
        target: The ground-truth result.
        target_text: Text that the result must show.
    """

    id: str = ""
    model: str = ""
    instruction: str
    sources: tuple[PictureSent, ...]
    edited: PictureSent
    mask: PictureSent | None = None
    target: PictureSent | None = None
    target_text: str | None = None


class ScoreAsked(Wire):
    """`POST /v1/score`.

    Attributes:
        dimensions: Ids or globs; none means all of `core`.
    """

    edit: EditSent
    dimensions: tuple[str, ...] = ()

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
            edited=edit.edited.picture("edit.edited"),
            mask=edit.mask.picture("edit.mask") if edit.mask else None,
            target=edit.target.picture("edit.target") if edit.target else None,
            target_text=edit.target_text,
            dimensions=self.dimensions,
        )


class BatchAsked(Wire):
    """`POST /v1/score:batch`."""

    requests: Annotated[tuple[ScoreAsked, ...], Field(min_length=1, max_length=_MOST_IN_BATCH)]


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
