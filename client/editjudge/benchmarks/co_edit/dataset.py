"""Items of Co-EditBench in `items.jsonl`; its own data is not released."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from ...base.text import suggest_name
from ..items import ItemsFile, Line
from .taxonomy import ABOUT_A_SUBJECT, AROUND, GLOBAL, IN_CONTEXT, LOCAL, MUST_SAY, SUBJECT_REGION, TYPES


def _edit_type(text: str) -> str:
    if text not in TYPES:
        fix = suggest_name(text.replace(" ", "_"), TYPES)
        raise ValueError(f"{text!r} is no type of edit; {fix}")
    return text


class CoEditLine(Line):
    """One line of `items.jsonl`.

    The mask shows the object that the edit is about, as the paper's masks do (section 3.1):
    `mask_shows` says whether that is what is edited, or what is kept. Types that change what is
    around the object, and subject customization, must say it: read the wrong way round, what is
    kept would be what changed.

    Attributes:
        type: One of the 16 types, or `in_context`.
        subject: Whether what the mask shows (of the types that change what is around it: what is
            kept), or without a mask the whole image, is a subject that must stay who it is; by
            default so for `subject_customization` and `portrait_editing`.
    """

    type: Annotated[str, AfterValidator(_edit_type)]
    subject: bool | None = None

    @model_validator(mode="after")
    def _as_its_type_needs(self) -> Self:
        count = len(self.images)
        if self.task:
            raise ValueError("task: the type of the edit is called `type` here")
        if self.type in LOCAL and self.mask is None:
            raise ValueError(
                f"mask: {self.type} changes a part of the image, say which (`editjudge prepare masks` draws it)"
            )
        if self.type in MUST_SAY and "mask_shows" not in self.model_fields_set:
            raise ValueError(
                f"mask_shows: of {self.type} say whether white in the mask is what is edited"
                " ('edited') or the object that is kept ('kept')"
            )
        if self.type != IN_CONTEXT and count > 1:
            raise ValueError(f"sources: {self.type} has one source, not {count}")
        if self.has_subject and count > 1:
            raise ValueError(f"subject: identity is compared with one source, not {count}")
        return self

    @classmethod
    def why_no_mask(cls, fields: Mapping[str, Any]) -> str:
        """Return that edits of the whole image need no mask."""
        kind = fields.get("type")
        whole = isinstance(kind, str) and kind in GLOBAL
        return f"{kind} is of the whole image" if whole else ""

    @property
    def has_subject(self) -> bool:
        """Whether identity is judged."""
        return self.type in ABOUT_A_SUBJECT if self.subject is None else self.subject

    @property
    def texts(self) -> dict[str, Any]:
        """The item's fields, with the type as task and the subject's region in `extra`."""
        texts = super().texts
        extra = {k: v for k, v in texts["extra"].items() if k != SUBJECT_REGION}
        if self.has_subject:
            extra[SUBJECT_REGION] = self._subject_region
        return texts | {"task": self.type, "extra": extra}

    @property
    def _subject_region(self) -> str:
        """The subject's region: `whole`, or `inside` or `outside` the mask."""
        if self.mask is None:
            return "whole"
        return "outside" if self.type in AROUND or self.mask_shows == "kept" else "inside"


class CoEditData(ItemsFile):
    """Items of one's own, each with its type of edit."""

    line = CoEditLine
