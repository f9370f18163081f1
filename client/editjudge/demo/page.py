"""The demo's page: that of a run, of edits that were judged without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..app.results import Results
from ..app.view import Pictures, StoredVerdict
from ..base.images import Image, Mask
from ..base.signature import versions
from ..base.verdict import Failed, NotApplicable, NotServed, Scored, Unscored, calls_of
from ..base.writing import put
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column, Row
from ..benchmarks.registry import benchmark
from ..engine.items import ItemChanges
from ..engine.judge import Judgement
from ..report.contents import About, ShownRun
from ..report.gathered import Gathered, ShownEdit
from ..report.pictures import PictureNames
from ..report.plots import scatter
from ..report.written import Chunks, whole_page
from .editors import EDITORS

OUTSIDE = "core.psnr.source.outside"
INSIDE = "core.aligned_psnr.target.inside"
_PLOT = "One point per edit and editor. Only up and to the right is a good edit."
_INTRODUCTION = (
    (
        "",
        (
            "Photographs that ship inside scikit-image, edited on the spot. Each edit was made by "
            "three editors whose quality is known, because we wrote them: exact does what was "
            "asked and nothing else, damaged does what was asked and spoils the rest (colour "
            "shift, blur, a shift of the whole picture), no_edit returns the source. All three "
            "end in JPEG noise. Every number comes from the pixels or from a service behind a "
            "real Triton server."
        ),
    ),
    (
        "Why no single preservation number can rank them",
        (
            "Preservation compares the result with the source. By that measure the editor that "
            "did nothing is as good as the exact one outside the mask, and over the whole image "
            "it is the best of the three: a higher number for ignoring the instruction. Whether "
            "the edit was made is seen only inside the mask, against a target, after the picture "
            "has been aligned, and there the damaged editor beats the one that did nothing. Both "
            "are needed, and only a synthetic set has a target to measure the second one with. "
            "Real instructions have many right answers and no target, which is why published "
            "protocols ask a multimodal LLM whether the instruction was followed, and keep pixel "
            "measures for what must stay."
        ),
    ),
)


def write_page(
    out: Path,
    judgements: Sequence[Judgement],
    columns: Sequence[Column],
    cells: Mapping[str, Mapping[str, Cell]],
    highlights: Sequence[str],
) -> None:
    """Write the page of the judged demo set, whole in itself.

    Args:
        cells: By editor and column.
        highlights: Dimensions shown beneath a picture.
    """
    chunks = Chunks()
    gathered = Gathered(PictureNames(), chunks.keep)
    editors = list(EDITORS)
    for judgement in judgements:
        editor = editors.index(judgement.edit.model)
        gathered.add(_shown(judgement), 0, editor, "demo", lambda _: None)
    shown = ShownRun(
        name="demo",
        results=_results(judgements, columns, cells),
        header=None,
        dimensions=judgements[0].dimensions,
        models={name: editor.description for name, editor in EDITORS.items()},
        waiting=_waiting(judgements),
        highlights=highlights,
        plots={_PLOT: _plot(judgements, cells)},
    )
    about = About("editjudge demo", introduction=_INTRODUCTION)
    page, _ = whole_page((shown,), gathered, chunks.texts, about)
    put(out, page.encode())


def _results(
    judgements: Sequence[Judgement],
    columns: Sequence[Column],
    cells: Mapping[str, Mapping[str, Cell]],
) -> Results:
    core, items = benchmark("core"), {j.edit.item.id for j in judgements}
    return Results(
        benchmark=core,
        protocol=f"core.{core.version}",
        switches=frozenset(),
        items=len(items),
        words=None,
        identities=judgements[0].services,
        columns=tuple(columns),
        cells=cells,
        changes=ItemChanges(),
    )


def _shown(judgement: Judgement) -> ShownEdit:
    edit, item = judgement.edit, judgement.edit.item
    stored = [
        StoredVerdict(
            item.id,
            edit.model,
            name,
            outcome,
            str(judgement.signatures[name]),
            versions(),
            tuple(judgement.said[key] for key in calls_of(outcome) if key in judgement.said),
        )
        for name, outcome in judgement.outcomes.items()
        if isinstance(outcome, Scored | Unscored | Failed | NotApplicable)
    ]
    sources = tuple(path for source in item.sources if (path := _file(source)))
    mask, target, output = _file(item.mask), _file(item.target), _file(edit.image)
    return ShownEdit(
        row=Row(item, edit.model, judgement.outcomes, judgement.signatures),
        stored=stored,
        pictures=Pictures({edit.model: output}, sources, mask, target),
        digest=edit.image.digest if edit.image else None,
        missing=str(edit.missing) if edit.missing else None,
        became="same",
    )


def _file(picture: Image | Mask | None) -> Path | None:
    return Path(picture.file) if picture is not None and picture.file else None


def _waiting(judgements: Sequence[Judgement]) -> dict[str, str]:
    return {
        name: outcome.reason
        for judgement in judgements
        for name, outcome in judgement.outcomes.items()
        if isinstance(outcome, NotServed)
    }


def _plot(judgements: Sequence[Judgement], cells: Mapping[str, object]) -> str:
    points = {
        model: [
            (x.value, y.value)
            for j in judgements
            if j.edit.model == model
            and isinstance(x := j.outcomes[OUTSIDE], Scored)
            and isinstance(y := j.outcomes[INSIDE], Scored)
        ]
        for model in cells
    }
    return scatter(
        points,
        "kept outside the mask: PSNR against the source, dB",
        "met inside the mask: aligned PSNR, target, dB",
    )
