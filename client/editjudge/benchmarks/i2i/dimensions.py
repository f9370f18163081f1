"""The dimensions of I2I-Bench: section 3.2, by the pipelines of appendix F."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...base.identity import JUDGE
from ...scorers.region_similarity import RegionSimilarity
from ...scorers.rubric import Rubric
from ...scorers.scorer import Scorer
from ...scorers.specialists import Quality, TextContent
from ...scorers.vqa import FiveLevel, QuestionList, UnnormalisedYesNo, YesNo
from ..dimension import Dimension, Formula, Reading, change_scorers, make_dimension, make_formula
from ..fusion import product, styled_text
from .switches import I2iSwitches
from .taxonomy import ARTIFACTS, METHODS, NEEDS, ROWS, TABLES, TEXT, Track, not_asked

_FORMULAS: Mapping[str, Formula] = {
    TEXT: make_formula(
        styled_text,
        of={
            "content": Reading(TextContent("ocr.got"), "accuracy"),
            "style": Reading(Rubric(JUDGE, "i2i/text_style"), "style_score"),
        },
        complete=True,
    ),
    "subject_extraction_composition": make_formula(
        product,
        "i2i.me.subject_consistency",
        of={"count": Reading(YesNo(JUDGE, "i2i/subject_count"), "score")},
        complete=True,
    ),
}


def _change(table: Mapping[str, Any], switches: I2iSwitches) -> Mapping[str, Any]:
    """Return a table of `tables.toml` with what stands below `with` for the switches."""
    changes = table.get("with", {})
    for switch in switches.on & changes.keys():
        table = {**table, **changes[switch]}
    return table


def _row(name: str, row: Mapping[str, Any], switches: I2iSwitches) -> Mapping[str, Any]:
    """Return a row of `tables.toml` with the changes that the switches make."""
    row = _change(row, switches)
    if switches.lmm_baseline:  # every dimension by equation 1 (section 4.3)
        return {"levels": row.get("levels", f"i2i/baseline_{name}")}
    return row


def _unnormalise(scorer: Scorer) -> Scorer:
    if type(scorer) is not YesNo:
        return scorer
    return UnnormalisedYesNo(scorer.service, scorer.prompt)


def _how(name: str, row: Mapping[str, Any], switches: I2iSwitches) -> Reading | Formula:
    how = _make_how(name, row)
    return change_scorers(how, _unnormalise) if switches.unnormalised else how


def _make_how(name: str, row: Mapping[str, Any]) -> Reading | Formula:
    match row:
        case {"levels": prompt}:
            return Reading(FiveLevel(JUDGE, prompt), "score")
        case {"yes_no": prompt}:
            return Reading(YesNo(JUDGE, prompt), "score")
        case {"questions": prompt}:
            return Reading(QuestionList(JUDGE, prompt, "core/question"), "score")
        case {"specialist": service}:
            return Reading(Quality(service), "score")
        case {"regions": prompt}:
            how = {name: row[name] for name in ("found", "inverted") if name in row}
            return Reading(RegionSimilarity(JUDGE, prompt, **how), row.get("reads", "score"))
    return _FORMULAS[name]


def _fields(row: Mapping[str, Any], how: Reading | Formula, switches: I2iSwitches) -> dict[str, Any]:
    """Return the fields of a dimension from its method and its row; a prompt gives its question."""
    method = next((name for name in METHODS if name in row), "")
    fields = {**_change(METHODS.get(method, {}), switches), **row}
    if method in {"levels", "yes_no"} and isinstance(how, Reading):
        scorer: Any = how.scorer
        fields["asks"] = scorer.template.asks
    return {n: fields[n] for n in ("asks", "variant", "tolerance", "range", "by") if n in fields}


def _dimension(track: Track, name: str, row: Mapping[str, Any], how: Reading | Formula, part: str = "") -> Dimension:
    fields = dict(row)
    return make_dimension(
        fields,
        f"i2i.{track}.{name}{part}",
        how,
        source="; ".join(filter(None, (TABLES[track]["source"], fields.pop("by", "")))),
        needs={NEEDS[name]} if name in NEEDS else (),
        when=partial(not_asked, f"{track}.{name}"),
    )


def dimensions(switches: I2iSwitches) -> tuple[Dimension, ...]:
    """Return the dimensions for the switches that are on, in the order of tables 1 and 2.

    After them, the shares that edits lost of what the regions compare, by the calls that these
    make; the baseline has none.
    """
    rows = {
        (track, name): _row(name, row, switches)
        for track, table in ROWS.items()
        for name, row in table.items()
        if not (track == "me" and name == ARTIFACTS and not switches.me_editing_artifacts)
    }
    hows = {(track, name): _how(name, row, switches) for (track, name), row in rows.items()}
    losses = [
        (track, name, Reading(how.scorer, "lost"))
        for track, table in TABLES.items()
        for name in table["losable"]
        if not switches.lmm_baseline and isinstance(how := hows[track, name], Reading)
    ]
    return (
        *(_dimension(*of, _fields(row, hows[of], switches), hows[of]) for of, row in rows.items()),
        *(_dimension(track, name, METHODS["lost"], how, ".lost") for track, name, how in losses),
    )
