"""Builds the page of how far judges agree with people: one HTML file with pictures, without scripts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from markupsafe import Markup

from ..app.agreement import Agreement, AgreementTable
from ..app.human_agreement import Side
from ..app.view import RunView
from ..base.errors import EditjudgeError
from ..base.output_files import write_output
from ..base.signature import package_version
from ..base.templates import make_templates
from ..stats.preferences import TIE, VOTES, A
from .page import source_hash
from .pictures import make_thumbnail, to_data_uri
from .site import check_out

JsonObject: TypeAlias = dict[str, Any]
Rewards: TypeAlias = Mapping[str, Collection[str]]
_MOST_EDITS = 5
"""How many of the edits on which a judge and people differ most are shown."""
_MOST_REWARDED = 20
_MOST_CHARTS = 8
_MOST_POINTS = 2_000
_GROUPS = 5
_LONGEST_WORDS = 600
_SIDE = 220


def render_agreement(result: Agreement, views: Sequence[RunView], rewards: Rewards = MappingProxyType({})) -> str:
    """Render the page; text from data is escaped.

    Args:
        rewards: Of an audit the dimensions of each reward by its name: rewards stand in people's
            place, and the highest ones are shown.
    """
    folder = files(__package__)
    style = "".join((folder / name).read_text("utf-8") for name in ("web/10-base.css", "forms/agreement.css"))
    template = make_templates(__package__).get_template("forms/agreement.html.j2")
    return template.render(
        result=result,
        sections=[_section(table, result, views, rewards) for table in result.tables],
        is_audit=bool(rewards),
        title="Audit of rewards" if rewards else f"Agreement {'with people' if result.raters else 'of judges'}",
        axes=("the fact", "the reward") if rewards else ("the judge", "people"),
        style=Markup(style),  # noqa: S704 - ours
        policy=f"default-src 'none'; style-src {source_hash(style)}; img-src data:",
        version=package_version("editjudge"),
    )


def _section(table: AgreementTable, result: Agreement, views: Sequence[RunView], rewards: Rewards) -> JsonObject:
    judges: list[Side] = [side for side in table.sides if side.kind == "judge"]
    dimensions = {each.dimension for each in result.tables if each.unit == "edit"}
    shows = {"edit": _plot, "pair": _confuse, "model": _plot}[table.unit]
    differing = [] if table.unit == "model" or (table.unit == "pair" and table.dimension in dimensions) else judges
    shown_edits = [(f"Where {s.who} and people differ most", [*_differing(s, table, views)]) for s in differing]
    if rewards:
        most = sorted(judges, key=lambda side: -len(side.keys))[:1]
        shown_edits = [("The highest rewards", [*_list_highest(s, views[0], rewards[table.dimension])]) for s in most]
    return {
        "table": table,
        "names": list(dict.fromkeys(name for row in table.rows for name in row.figures)),
        "charts": [{"who": side.who} | shows(side) for side in judges[: _MOST_CHARTS if rewards else None]],
        "shown_edits": shown_edits,
    }


def _list_highest(side: Side, view: RunView, dimensions: Collection[str]) -> Iterator[JsonObject]:
    for place in np.argsort(-side.people, kind="stable")[:_MOST_REWARDED]:
        item, *models = side.keys[place]
        said_by = {"the reward": f"{side.people[place]:.3g}"}
        yield {"item": item, "models": models, "said": said_by, **_describe(view, item, models, dimensions)}


def _plot(side: Side) -> JsonObject:
    """Place the records in a square of 100: the judge's value from left to right, people's upwards."""
    places, ends = [], []
    for values in (side.values, side.people):
        low, high = float(values.min()), float(values.max())
        places.append((values - low) / ((high - low) or 1.0) * 100)
        ends.append((low, high))
    x, y = places
    groups = np.array_split(np.argsort(x, kind="stable"), min(_GROUPS, len(x)))
    step = -(-len(x) // _MOST_POINTS)
    return {
        "points": [(a, 100 - b) for a, b in zip(x[::step].round(1), y[::step].round(1), strict=True)],
        "line": " ".join(f"{x[own].mean():.1f},{100 - y[own].mean():.1f}" for own in groups if len(own)),
        "ends": ends,
    }


def _confuse(side: Side) -> JsonObject:
    """Count the votes of both, and say how often each prefers the first edit."""
    kinds = [vote for vote in range(len(VOTES)) if vote in side.people or vote in side.values]
    counts = [[int(((side.people == own) & (side.values == other)).sum()) for other in kinds] for own in kinds]
    sides = [values[values < TIE] for values in (side.values, side.people)]
    return {
        "kinds": [VOTES[kind] for kind in kinds],
        "counts": counts,
        "first": [float((votes == A).mean()) if len(votes) else None for votes in sides],
    }


def _differing(side: Side, table: AgreementTable, views: Sequence[RunView]) -> Iterator[JsonObject]:
    """Yield the records that the judge and people see most differently, by their places in the order of each."""
    from scipy.stats import rankdata

    if table.unit == "edit":
        gaps = np.abs(rankdata(side.values) - rankdata(side.people))
    else:
        gaps = ((side.values != side.people) & (side.values < TIE) & (side.people < TIE)).astype(float)
    for place in np.argsort(-gaps, kind="stable")[:_MOST_EDITS]:
        if gaps[place] > 0:
            item, *models = side.keys[place]
            values = {"the judge": side.values[place], "people": side.people[place]}
            view = next((v for v in views if side.who.partition(":")[0] == v.folder.name), None)
            yield {
                "item": item,
                "models": models,
                "said": {who: f"{v:.3g}" if table.unit == "edit" else VOTES[v] for who, v in values.items()},
                **(_describe(view, item, models, [table.dimension]) if view else {}),
            }


def _describe(view: RunView, item: str, models: Sequence[str], dimensions: Collection[str]) -> JsonObject:
    """Find the instruction, the pictures and the judge's words about an edit, or two."""
    of_item = view.item(item)
    verdicts = [v for model in models for v in view.verdicts(model, item=item)]
    own_verdicts = [v for v in verdicts if {v.dimension, v.dimension.partition("@")[0]} & {*dimensions}]
    words = [text[:_LONGEST_WORDS] for v in own_verdicts for text in v.texts]
    try:
        pictures = view.make_picture_finder().find(item)
        files = {"source": next(iter(pictures.sources), None)} | {m: pictures.outputs.get(m) for m in models}
        thumbnails = {name: to_data_uri(make_thumbnail(file, _SIDE)) for name, file in files.items() if file}
    except EditjudgeError:
        thumbnails = {}
    return {"instruction": of_item.instruction if of_item else "", "pictures": thumbnails, "words": words}


def write_agreement(
    result: Agreement, views: Sequence[RunView], out: Path, rewards: Rewards = MappingProxyType({})
) -> None:
    """Write the page to a file; see `render_agreement`."""
    check_out(out, is_file=True)
    write_output(out, render_agreement(result, views, rewards).encode("utf-8", "replace"))
