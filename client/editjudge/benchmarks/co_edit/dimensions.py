"""The 11 metrics of Co-EditEval, their four groups and the overall score (section 3.3).

Every score is on 0 to 10. What specialists measure is a dimension of its own, below its metric,
so that it can be brought to 0 to 10 in another way without a call.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

from ...base.errors import ConfigError
from ...base.identity import JUDGE
from ...base.item import Item
from ...scorers.rubric import Rubric
from ..dimension import Dimension, Reading, When, make_dimension, make_formula
from ..fusion import Capped, Values, WeightedGeometricMean, product
from .specialists import KeptDistance, OffCanvasRubric, SubjectSimilarity
from .switches import CoEditSwitches
from .taxonomy import TABLES, keeps_a_region, keeps_a_subject, of_co_edit

SCALE = (0.0, 10.0)
SOURCE = "Co-EditBench, section 3.3"
COMPLETENESS, QUALITY = "edit_completeness", "image_quality"
PRESERVATION, IDENTITY = "non_edited_preservation", "identity_preservation"


_Row: TypeAlias = Mapping[str, Any]
GROUPS: Mapping[str, _Row] = TABLES["groups"]
"""The four core dimensions, each with its `metrics`, as `tables.toml` has them."""
_APPLIES: Mapping[str, _Row] = {
    COMPLETENESS: {"when": of_co_edit},
    QUALITY: {"when": of_co_edit},
    PRESERVATION: {"when": keeps_a_region, "needs": frozenset({"source", "mask"})},
    IDENTITY: {"when": keeps_a_subject, "needs": frozenset({"source"})},
}


def clipped(values: Values) -> float:
    """A cosine on 0 to 10: 10 max(0, cos). The paper gives no mapping."""
    return 10 * max(0.0, *values.values())


def inverted(values: Values) -> float:
    """A distance on 0 to 10: 10 (1 - min(1, d)). The paper gives no mapping."""
    return 10 * (1 - min(1.0, *values.values()))


def dimensions(switches: CoEditSwitches) -> tuple[Dimension, ...]:
    """Return all dimensions; parts stand before the formulas that use them.

    Raises:
        ConfigError: no metric is left.
    """
    metrics: dict[str, dict[str, _Row]] = {}
    for group, of in GROUPS.items():
        is_on = {n: switches.reasoning if "call" in one else switches.specialists for n, one in of["metrics"].items()}
        metrics[group] = {name: one for name, one in of["metrics"].items() if is_on[name]}
    groups = [group for group, there in metrics.items() if there]
    if not groups:
        raise ConfigError("co_edit without specialists and reasoning has no metric", "leave one of them on")
    return (
        *(_make_measured_dimensions(switches) if switches.specialists else ()),
        *(_metric(name, one, g, switches) for g in groups for name, one in metrics[g].items()),
        *(_group(group, metrics[group], switches) for group in groups),
        *(_make_capped_dimension(g) for g in groups if _caps(groups) and g != COMPLETENESS),
        _overall(groups, switches),
    )


def _caps(groups: list[str]) -> bool:
    """Whether one of the groups caps the others (equation 2)."""
    return COMPLETENESS in groups


def _make_measured_dimensions(switches: CoEditSwitches) -> tuple[Dimension, ...]:
    """Make the measurements: CLIP and DINO of the subject, LPIPS of the background.

    The paper does not say how a region is taken; the switches are the other ways.
    """
    ways = (
        "cosine",
        "in_place" if switches.subject_in_place else "crop",
        *(("pool",) if switches.pooled_features else ()),
    )
    fills = "black" if switches.blacked_out else "source"
    over = "frame" if switches.whole_frame else "kept"
    of_subject = {"variant": ".".join(ways), **TABLES["measured"]["subject"]}
    subject = partial(
        SubjectSimilarity,
        in_place=switches.subject_in_place,
        pooled=switches.pooled_features,
        padded_canvas=switches.padded_canvas,
    )
    distance = KeptDistance(
        "lpips.vgg",
        blacked_out=switches.blacked_out,
        whole_frame=switches.whole_frame,
        padded_canvas=switches.padded_canvas,
    )
    return (
        _dimension("clip.subject", how=Reading(subject("clip.vit_b_32"), "subject"), **of_subject),
        _dimension("dino.subject", how=Reading(subject("features.dinov2"), "subject"), **of_subject),
        _dimension(
            "lpips.kept", variant=f"lpips.{fills}.{over}", how=Reading(distance, "kept"), **TABLES["measured"]["kept"]
        ),
    )


def _metric(name: str, metric: _Row, group: str, switches: CoEditSwitches) -> Dimension:
    make = partial(_dimension, name, asks=metric["asks"], group=group)
    if "call" in metric:
        prompt = f"co_edit/{metric['call']}{'_plain' if switches.plain_questions else ''}"
        rubric = OffCanvasRubric if switches.padded_canvas else Rubric
        # The judge writes whole numbers: where it wavers, the next one.
        return make(how=Reading(rubric(JUDGE, prompt), name), variant="rubric.0to10", tolerance=1.0)
    fn = inverted if group == PRESERVATION else clipped
    how = make_formula(fn, _id(metric["measured"]))
    return make(how=how, variant=f"to10.{fn.__name__}", tolerance=1e-3)


def _group(name: str, metrics: Mapping[str, _Row], switches: CoEditSwitches) -> Dimension:
    """Equation 1. As table 1 has it: before the cap."""
    weights = {_id(part): one["weight"] for part, one in metrics.items()}
    tolerance = _steep(has_judge=any("call" in one for one in metrics.values()))
    asks = GROUPS[name]["asks"]
    return _composite(name, weights, switches, asks=asks, group=name, tolerance=tolerance)


def _make_capped_dimension(name: str) -> Dimension:
    """Make the dimension of a group capped by completeness (equation 2)."""
    cap = _id(COMPLETENESS)
    return _dimension(
        f"{name}.capped",
        asks=f"{GROUPS[name]['asks']} (no better than the edit is complete)",
        group=name,
        how=make_formula(Capped(product, by=cap), _id(name), cap, complete=True),
        variant="capped",
        tolerance=SCALE[1],
    )


def _overall(groups: list[str], switches: CoEditSwitches) -> Dimension:
    """Make the overall dimension (equation 3)."""

    def as_part(name: str) -> str:
        return _id(name if name == COMPLETENESS or not _caps(groups) else f"{name}.capped")

    return _composite(
        "overall",
        {as_part(name): GROUPS[name]["weight"] for name in groups},
        switches,
        asks="How good is the edit as a whole?",
        tolerance=_steep(has_judge=switches.reasoning),
        when=partial(_none_applies, tuple(_APPLIES[name]["when"] for name in groups)),
    )


def _none_applies(whens: tuple[When, ...], item: Item) -> str | None:
    reasons = [when(item) for when in whens]
    return None if None in reasons else reasons[0]


def _composite(name: str, weights: Mapping[str, float], switches: CoEditSwitches, **more: Any) -> Dimension:
    if switches.uniform_weights:
        weights = dict.fromkeys(weights, 1.0)
    kind = "uniform" if switches.uniform_weights else "survey"
    how = make_formula(WeightedGeometricMean(weights), *weights)
    return _dimension(name, how=how, variant=f"geometric.{kind}", **more)


def _steep(*, has_judge: bool) -> float:
    """Return the tolerance; near 0 a geometric mean changes much with one of its parts."""
    return SCALE[1] if has_judge else 1.0


def _dimension(name: str, group: str = "", **more: Any) -> Dimension:
    """Make a dimension that applies to the items of its group."""
    return make_dimension({"source": SOURCE, "range": SCALE, **_APPLIES.get(group, {})}, _id(name), **more)


def _id(name: str) -> str:
    return f"co_edit.{name}"
