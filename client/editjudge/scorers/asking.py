"""A prompt about one edit: a template, ours or the authors', with the edit in its fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..images import Image
from ..item import Edit
from ..panel.generalist import Generalist
from ..panel.prompt import Prompt
from ..prompts import Labelled, Template, Value
from ..prompts.originals import OriginalTemplate


def ask(one: Template, edit: Edit, judge: Generalist, **more: str) -> Prompt:
    """A template about an edit, with its images as the judge gets them.

    In the authors' prompts their labels stand before the images, and a text that the item lacks is
    empty.

    Args:
        more: Fields that the edit does not have itself.

    Raises:
        ValueError: a template of ours needs a text or image that the item lacks; the dimension's
            `needs` do not let this happen.
    """
    if isinstance(one, OriginalTemplate):
        return _as_released(one, edit, judge, more)
    item = edit.item

    def shown(label: str, image: Image | None) -> tuple[Labelled, ...]:
        return () if image is None else (Labelled(label, judge.picture(image)),)

    def sources() -> tuple[Labelled, ...]:
        count = len(item.sources)
        return tuple(
            Labelled(f"Source image {i} of {count}" if count > 1 else "Source image", p)
            for i, p in enumerate(map(judge.picture, item.sources), 1)
        )

    def frames() -> tuple[Labelled, ...]:
        # `position`, from 1, is where the edited image stands among the others.
        given: list[tuple[str, Image | None]] = [("given", one) for one in item.sources]
        given.insert(int(item.extra.get("position", len(given) + 1)) - 1, ("edited", edit.image))
        return tuple(
            one
            for number, (kind, image) in enumerate(given, 1)
            for one in shown(f"Frame {number} ({kind})", image)
        )

    known: dict[str, Any] = {
        "sources": sources,
        "frames": frames,
        "edited": lambda: shown("Edited image", edit.image),
        "target": lambda: shown("Target image", item.target),
        "instruction": lambda: item.instruction,
        "hint": lambda: item.hint,
        "target_text": lambda: item.target_text,
    }
    values: dict[str, Value] = {}
    absent = dict(one.absent)
    for name in one.fields:
        value = more[name] if name in more else known[name]()
        if not value and name in absent:
            continue
        if value is None or value == ():
            raise ValueError(f"prompt {one.name} needs {name}, which {item.id} lacks")
        values[name] = value
    return one.prompt(values)


def _as_released(
    one: OriginalTemplate, edit: Edit, judge: Generalist, more: Mapping[str, str]
) -> Prompt:
    item, labels = edit.item, one.labels

    def shown(label: str, images: Iterable[Image | None]) -> tuple[Labelled, ...]:
        given = (image for image in images if image is not None)
        return tuple(
            Labelled(label.format(n=n), judge.picture(image)) for n, image in enumerate(given, 1)
        )

    def frames() -> tuple[Labelled, ...]:
        each = [(labels.given, image) for image in item.sources]
        each.insert(int(item.extra["position"]) - 1, (labels.made, edit.output))
        return tuple(
            Labelled(label.format(n=n), judge.picture(image))
            for n, (label, image) in enumerate(each, 1)
        )

    known: dict[str, Any] = {
        "sources": lambda: shown(labels.source, item.sources),
        "edited": lambda: shown(labels.edited, (edit.image,)),
        "target": lambda: shown(labels.target, (item.target,)),
        "frames": frames,
        "instruction": lambda: item.instruction,
        "hint": lambda: item.hint or "",
    }
    values: dict[str, Value] = {
        name: more[name] if name in more else known[name]() for name in one.fields
    }
    return one.prompt(values)
