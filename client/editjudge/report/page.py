"""The report: one self-contained HTML page of judged edits, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image as Pil

from ..column import Cell, Column
from ..dimension import Dimension
from ..images import Image, Mask
from ..item import Item
from ..run.judge import Judgement
from ..signature import package_version
from ..verdict import Outcome, Scored
from .table import arrow, cell_text, note, value_text

_THUMBNAIL = 360
_JPEG_QUALITY = 88


@dataclass(frozen=True, slots=True)
class Page:
    """What a report shows.

    Attributes:
        title: Of the page.
        introduction: HTML paragraphs that say what is shown and how to read it.
        models: What is said of each model under test.
        columns: The summary's columns.
        cells: The summary, by model and column id.
        judgements: Every judged edit; those of one item stand together.
        highlights: Dimension ids shown beneath each result.
        plots: SVG pictures by caption.
    """

    title: str
    introduction: Markup
    models: Mapping[str, str]
    columns: Sequence[Column]
    cells: Mapping[str, Mapping[str, Cell]]
    judgements: Sequence[Judgement]
    highlights: Sequence[str]
    plots: Mapping[str, str]


def render(page: Page) -> str:
    """The page as HTML; every text from data is escaped."""
    environment = Environment(
        loader=PackageLoader("editjudge.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(arrow=arrow, cell=cell_text, note=note)
    return environment.get_template("report.html.j2").render(
        page=page,
        items=_items(page),
        plots={caption: Markup(svg) for caption, svg in page.plots.items()},  # noqa: S704 - ours
        version=package_version("editjudge"),
    )


def picture_uri(picture: Image | Mask) -> str:
    """A thumbnail as a data URI: PNG for masks, JPEG for images."""
    pixels = picture.pixels
    small = Pil.fromarray(pixels.astype(np.uint8) * 255 if pixels.dtype == np.bool_ else pixels)
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    kind = "PNG" if isinstance(picture, Mask) else "JPEG"
    buffer = io.BytesIO()
    small.save(buffer, kind, quality=_JPEG_QUALITY)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f"data:image/{kind.lower()};base64,{data}"


def _items(page: Page) -> list[dict[str, Any]]:
    by_item: dict[str, list[Judgement]] = {}
    for judgement in page.judgements:
        by_item.setdefault(judgement.edit.item.id, []).append(judgement)
    return [_item(judgements, page.highlights) for judgements in by_item.values()]


def _item(judgements: Sequence[Judgement], highlights: Sequence[str]) -> dict[str, Any]:
    item = judgements[0].edit.item
    return {
        "id": item.id,
        "task": item.task,
        "instruction": item.instruction,
        "target_text": item.target_text,
        "given": _given(item),
        "results": [_result(judgement, highlights) for judgement in judgements],
        "rows": [
            {
                "dimension": dimension,
                "verdicts": [_verdict(dimension, j.outcomes[name]) for j in judgements],
                "signature": str(judgements[0].signatures[name]),
            }
            for name, dimension in judgements[0].dimensions.items()
        ],
    }


def _given(item: Item) -> list[tuple[str, str]]:
    pictures: list[tuple[str, Image | Mask | None]] = [
        *(("source", source) for source in item.sources),
        ("mask (white may change)", item.mask),
        ("target", item.target),
    ]
    return [(caption, picture_uri(one)) for caption, one in pictures if one is not None]


def _result(judgement: Judgement, highlights: Sequence[str]) -> dict[str, Any]:
    image = judgement.edit.image
    shown = [name for name in highlights if judgement.outcomes[name].status != "not_applicable"]
    return {
        "model": judgement.edit.model,
        "picture": picture_uri(image) if image else None,
        "missing": judgement.edit.missing,
        "highlights": [
            (judgement.dimensions[n], _verdict(judgement.dimensions[n], judgement.outcomes[n]))
            for n in shown
        ],
    }


def _verdict(dimension: Dimension, outcome: Outcome) -> dict[str, str]:
    value = value_text(outcome.value, dimension) if isinstance(outcome, Scored) else ""
    return {"status": outcome.status, "value": value, "note": note(outcome)}
