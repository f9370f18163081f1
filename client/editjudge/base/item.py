"""Items of a benchmark, and their edits by a model under test."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Required, Self, TypeAlias, TypedDict

from .errors import ImageError, TextError
from .images import Image, ImageLike, Mask, load_image, load_mask
from .verdict import Failure, NoScore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TEXT_CHARACTERS = 16_384
# Control characters (but newline, return and tab), and the lone surrogates of broken UTF-8.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

Need: TypeAlias = Literal["source", "mask", "target", "target_text", "hint", "questions"]
"""Fields of an item that a dimension may need (`source`: exactly one source image)."""
Flaws: TypeAlias = Mapping[str, NoScore | Failure]
"""By field of an item (`source`, `instruction`, …) that the data holds in no usable form:
the verdict of every dimension that reads it."""


@dataclass(frozen=True, slots=True)
class Item:
    """One task of a benchmark, the same for every model under test.

    Attributes:
        id: Unique within the benchmark.
        instruction: What the editing model was told; at most 16,384 characters.
        sources: One or more source images.
        mask: Where the edit may change the source; white may change.
        target: The ground-truth result.
        target_text: Text that the result must show.
        hint: World knowledge for the judge.
        questions: Questions that came with the item.
        task: The benchmark's own task type; chooses prompts and dimensions.
        extra: What only this benchmark needs.
        flaws: What the data holds and cannot be used; those fields are empty here.

    Raises:
        TextError: `instruction` or `target_text` is too long, or holds control characters.
        ValueError: no source that is no flaw of the data, or an empty id.
    """

    id: str
    instruction: str
    sources: tuple[Image, ...]
    mask: Mask | None = None
    target: Image | None = None
    target_text: str | None = None
    hint: str | None = None
    questions: tuple[Mapping[str, Any], ...] = ()
    task: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    flaws: Flaws = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.id or not (self.sources or "source" in self.flaws):
            raise ValueError("an item needs an id and at least one source image")
        check_text("instruction", self.instruction)
        if self.target_text is not None:
            check_text("target text", self.target_text)

    @property
    def source(self) -> Image | None:
        """The source image if there is exactly one; preservation is measured against it."""
        return self.sources[0] if len(self.sources) == 1 else None

    def check_mask(self) -> None:
        """Check that the mask fits the source and the target, if there are any.

        Raises:
            ImageError: the mask belongs to another image.
        """
        for reference in (self.source, self.target):
            if self.mask is not None and reference is not None:
                self.mask.check_fits(reference.size)


MissingKind: TypeAlias = Literal["absent", "several", "unreadable"]


@dataclass(frozen=True, slots=True)
class Missing:
    """Why an edit has no output; `str` is the text for people.

    Attributes:
        kind: `absent` (no file), `several` (more than one), `unreadable` (no picture in it).
        reason: In one line.
    """

    kind: MissingKind
    reason: str

    def __str__(self) -> str:
        return _MISSING[self.kind] + self.reason

    @property
    def was_given(self) -> bool:
        """Whether the model gave an output that cannot be used."""
        return self.kind != "absent"


_MISSING: Mapping[MissingKind, str] = {"absent": "", "several": "several outputs: ", "unreadable": "unreadable: "}


class EditArguments(TypedDict, total=False):
    """The arguments of `Edit.load` by name."""

    source: Required[ImageLike | Sequence[ImageLike]]
    edited: Required[ImageLike]
    instruction: Required[str]
    mask: ImageLike | NDArray[np.bool_] | Mask | None
    target: ImageLike | None
    target_text: str | None
    item_id: str
    model: str


@dataclass(frozen=True, slots=True)
class Edit:
    """An item as one model edited it.

    ```python
    edit = Edit.load(source="a.png", edited="b.png", instruction="make the cup red")
    ```

    Attributes:
        item: The task: source, instruction, and what else the data has.
        model: The editing model (the one under test, not the judge).
        image: Its output; None when there is none.
        missing: Why there is no output; None also where nobody knows why.
    """

    item: Item
    model: str
    image: Image | None
    missing: Missing | None = None

    @classmethod
    def load(
        cls,
        *,
        source: ImageLike | Sequence[ImageLike],
        edited: ImageLike,
        instruction: str,
        mask: ImageLike | NDArray[np.bool_] | Mask | None = None,
        target: ImageLike | None = None,
        target_text: str | None = None,
        item_id: str = "edit",
        model: str = "",
        max_lazy_pixels: int = 0,
    ) -> Self:
        """Load an edit from files or from images in memory.

        Images are paths, encoded bytes, Pillow images or uint8 arrays of shape (H, W),
        (H, W, 3) or (H, W, 4), RGB order, 0..255.

        Args:
            source: The image before the edit, or several.
            edited: The image after the edit.
            instruction: The instruction for the editing model.
            mask: Where the edit may change the source: white (True in a bool array) may change.
            target: The ground-truth result.
            target_text: Text that the result must show.
            item_id: The name of the edit in results.
            model: The name of the editing model.
            max_lazy_pixels: Files of at most this many pixels are decoded only when their pixels
                are read, see `load_image`.

        Raises:
            ImageError: an image is not one still picture, or the mask fits neither the source
                nor the target.
            TextError: see `Item`.
        """
        is_several = isinstance(source, Sequence) and not isinstance(source, str | bytes)
        images = list(source) if is_several else [source]  # type: ignore[arg-type]
        if not images:
            raise ImageError("source", "no picture", "give one, or several")
        load = partial(load_image, max_lazy_pixels=max_lazy_pixels)
        item = Item(
            id=item_id,
            instruction=instruction,
            sources=tuple(_load_field("source", image, load) for image in images),
            mask=None if mask is None else _load_field("mask", mask, load_mask),
            target=None if target is None else _load_field("target", target, load),
            target_text=target_text,
        )
        item.check_mask()
        return cls(item, model, _load_field("edited", edited, load))

    @property
    def output(self) -> Image:
        """The output image; ValueError if there is none."""
        if self.image is None:
            raise ValueError(f"{self.item.id}: no output of {self.model}: {self.missing or ''}")
        return self.image

    @property
    def pictures(self) -> tuple[Image | Mask, ...]:
        """All images and masks of the edit: sources, mask, target and output."""
        item = self.item
        return tuple(filter(None, (*item.sources, item.mask, item.target, self.image)))


def _load_field(field_name: str, image: Any, load: Callable[[Any], Any]) -> Any:
    """Load an image. An error names its file, or the field of an image in memory."""
    try:
        return load(image)
    except ImageError as error:
        if isinstance(image, str | os.PathLike):
            raise
        raise ImageError(field_name, error.reason, error.fix) from error


def check_text(name: str, text: str) -> None:
    """Refuse text that a judge could not read as meant.

    Raises:
        TextError: no str, longer than 16,384 characters, control characters other than newline
            and tab, or bytes that are not UTF-8 (seen as lone surrogates).
    """
    if not isinstance(text, str):
        raise TextError(name, f"{type(text).__name__} where text is asked for", "give a str")
    if len(text) > MAX_TEXT_CHARACTERS:
        raise TextError(name, f"{len(text):,} characters", f"shorten it to {MAX_TEXT_CHARACTERS:,} at most")
    if text.isprintable():  # most texts, and without a search
        return
    if unreadable := _UNREADABLE.search(text):
        position, character = unreadable.start(), unreadable.group()
        if "\ud800" <= character <= "\udfff":
            raise TextError(name, f"not UTF-8 at character {position}", "encode it as UTF-8")
        raise TextError(name, f"control character U+{ord(character):04X} at {position}", "remove it")
