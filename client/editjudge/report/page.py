"""The report: one self-contained HTML page of judged edits, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from PIL import Image as Pil

from ..base.images import Image, Mask
from ..base.item import Item
from ..base.signature import package_version
from ..base.verdict import Outcome, Scored
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column
from ..benchmarks.dimension import Dimension
from ..engine.judge import Judgement
from .table import arrow, cell_text, note, value_text

_THUMBNAIL = 360
_JPEG_QUALITY = 88


@dataclass(frozen=True, slots=True)
class Page:
    """What a report shows.

    Attributes:
        title: Of the page.
        introduction: HTML paragraphs that say what is shown and how to read it.
        models: A line about each model under test, by its name.
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
    """Write the page as HTML; every text from data is escaped."""
    return page_template("editjudge.report", "report.html.j2").render(
        page=page,
        items=_items(page),
        plots={caption: Markup(svg) for caption, svg in page.plots.items()},  # noqa: S704 - ours
        version=package_version("editjudge"),
    )


def page_template(package: str, name: str) -> Template:
    """Load a page's template from the folder `templates` of a package; texts are escaped."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(arrow=arrow, cell=cell_text, note=note)
    return environment.get_template(name)


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


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A verdict as a cell of the page."""

    status: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A dimension with the verdicts of all models."""

    dimension: Dimension
    verdicts: Sequence[_Verdict]
    signature: str


@dataclass(frozen=True, slots=True)
class _Result:
    """What a model made of an item, with the verdicts shown beneath it."""

    model: str
    picture: str | None
    missing: str
    highlights: Sequence[tuple[Dimension, _Verdict]]


@dataclass(frozen=True, slots=True)
class _Shown:
    """An item: its pictures by caption, and what the models made of it."""

    item: Item
    pictures: Sequence[tuple[str, str]]
    results: Sequence[_Result]
    rows: Sequence[_Row]


def _items(page: Page) -> list[_Shown]:
    by_item: dict[str, list[Judgement]] = {}
    for judgement in page.judgements:
        by_item.setdefault(judgement.edit.item.id, []).append(judgement)
    return [_shown(judgements, page.highlights) for judgements in by_item.values()]


def _shown(judgements: Sequence[Judgement], highlights: Sequence[str]) -> _Shown:
    first = judgements[0]
    return _Shown(
        item=first.edit.item,
        pictures=_pictures(first.edit.item),
        results=[_result(judgement, highlights) for judgement in judgements],
        rows=[
            _Row(
                dimension,
                [_verdict(dimension, judgement.outcomes[name]) for judgement in judgements],
                str(first.signatures[name]),
            )
            for name, dimension in first.dimensions.items()
        ],
    )


def _pictures(item: Item) -> list[tuple[str, str]]:
    pictures: list[tuple[str, Image | Mask | None]] = [
        *(("source", source) for source in item.sources),
        ("mask (white may change)", item.mask),
        ("target", item.target),
    ]
    return [(caption, picture_uri(p)) for caption, p in pictures if p is not None]


def _result(judgement: Judgement, highlights: Sequence[str]) -> _Result:
    image = judgement.edit.image
    applies = [name for name in highlights if judgement.outcomes[name].status != "not_applicable"]
    dimensions = [judgement.dimensions[name] for name in applies]
    return _Result(
        model=judgement.edit.model,
        picture=picture_uri(image) if image else None,
        missing=str(judgement.edit.missing or ""),
        highlights=[(d, _verdict(d, judgement.outcomes[d.id])) for d in dimensions],
    )


def _verdict(dimension: Dimension, outcome: Outcome) -> _Verdict:
    value = value_text(outcome.value, dimension) if isinstance(outcome, Scored) else ""
    return _Verdict(outcome.status, value, note(outcome))
