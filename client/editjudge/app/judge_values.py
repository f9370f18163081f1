"""What judges said of the edits of runs, as values that people's answers are compared with."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal, TypeAlias

from ..base.errors import ConfigError
from ..base.text import group_by_key, shorten_list
from ..base.verdict import Score
from ..benchmarks.dimension import Formula
from ..benchmarks.fusion import WeightedGeometricMean
from ..engine.outcomes import derive, sort_by_dependency
from .judgement_import import REREAD, read_imported_votes
from .label_studio import control_name
from .ratings import JudgeVote, Rating
from .view import RunView

Edit: TypeAlias = tuple[str, str]
"""An item and a model."""
Kind: TypeAlias = Literal["judge", "people", "constant", "random", "trivial"]
_THUMBNAIL = 256


@dataclass
class Rater:
    """What a judge, people or a trivial rule said of edits; higher values are for better edits.

    Attributes:
        values: The value of each edit in each round, by dimension and edit.
        ranges: Lowest and highest value of each dimension.
        votes: A stored judge's votes on pairs, which have no dimension.
        tasks: The task of each item, as the data of its run has it.
        kind: A trivial judge has one dimension, "", which stands beside every dimension of people.
    """

    name: str
    values: dict[str, dict[Edit, tuple[float, ...]]] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    votes: Sequence[JudgeVote] = ()
    tasks: dict[str, str] = field(default_factory=dict)
    kind: Kind = "judge"

    def read(self, dimension: str) -> dict[Edit, float]:
        """Return the mean over rounds of each edit on a dimension."""
        name = "" if self.kind == "trivial" else dimension
        return {edit: fmean(of) for edit, of in self.values.get(name, {}).items()}


def read_judges(view: RunView, *, is_only: bool = False, with_mean: bool = False) -> Iterator[Rater]:
    """Read the scores of each judge of a run, without those that a rule imputed.

    Args:
        is_only: Whether there is no other run, so that judges need no name of theirs.
        with_mean: Whether the mean of several judges is one too.
    """
    run, spec = view.folder.name, view.resolved_spec
    if votes := read_imported_votes(view):
        return (Rater(f"{run}: {name}", votes=of) for name, of in votes.items())
    rounds = group_by_key((each.judge, each) for each in view.spec.judge_rounds.each_round)
    several = len(rounds) > 1
    names = {judge: judge if is_only else f"{run}: {judge}" for judge in rounds if several}
    judges = [(Rater(names.get(judge, run)), of) for judge, of in rounds.items()]
    if len(rounds) != 1 and (with_mean or not rounds):
        judges.insert(0, (Rater(run), []))
    readers: list[tuple[dict[Edit, tuple[float, ...]], int, list[str]]] = []
    for judge, own in judges:
        for of in spec.dimensions:
            ids = [n for one in own if (n := one.dimension_id(of.id)) in spec.dimensions_by_id]
            if not (of.round_of or of.of_data) and (ids or not several or not own):
                sign = 1 if of.higher_is_better else -1
                low, high = sorted(sign * end for end in of.range)
                judge.values[of.id], judge.ranges[of.id] = {}, (low, high)
                readers.append((judge.values[of.id], sign, ids or [of.id]))
    for row in view.rows():
        judges[0][0].tasks[row.item.id] = row.item.task
        for values, sign, ids in readers:
            outcomes = [row.outcomes.get(name) for name in ids]
            scores = [sign * o.value for o in outcomes if isinstance(o, Score) and not o.imputed]
            if len(scores) == len(ids):
                values[row.item.id, row.model] = tuple(scores)
    return (judge for judge, _ in judges)


def reweigh_judge(view: RunView, survey: Sequence[Rating]) -> Rater:
    """Fuse what a run's judge said by other weights: the mean importance that people gave to each part.

    Args:
        survey: Importance from 0, by the part's name; only the shares matter.

    Raises:
        ConfigError: a part has no importance, or the run has nothing that is fused by weights.
    """
    spec, judge = view.resolved_spec, Rater(f"{view.folder.name}, by people's weights")
    importance = {name: fmean(of) for name, of in group_by_key((r.dimension, r.value) for r in survey).items()}
    formulas: dict[str, Formula] = {}
    for of in sort_by_dependency(spec.dimensions, spec.dimensions_by_id):
        if isinstance(of.how, Formula) and isinstance(of.how.fn, WeightedGeometricMean):
            formulas[of.id] = replace(of.how, fn=_weigh(of.how.fn, importance))
        elif isinstance(of.how, Formula) and any(part in formulas for part in of.operands):
            formulas[of.id] = of.how
    if not formulas:
        raise ConfigError(f"{view.folder} has no number that weights make", "--weights is for runs of co_edit")
    judge.ranges = {name: spec.dimensions_by_id[name].range for name in formulas}
    judge.values = {name: {} for name in formulas}
    for row in view.rows():
        outcomes = {**row.outcomes}
        for name, how in formulas.items():
            if isinstance(outcomes.get(name), Score):
                outcomes[name] = score = derive(how, {n: outcomes[str(part)] for n, part in how.of.items()})
                if isinstance(score, Score) and not score.imputed:
                    judge.values[name][row.item.id, row.model] = (score.value,)
    return judge


def _weigh(mean: WeightedGeometricMean, importance: Mapping[str, float]) -> WeightedGeometricMean:
    names = {part: part.partition(".")[2].removesuffix(".capped") for part in mean.weights}
    if absent := [name for name in names.values() if importance.get(name, 0) <= 0]:
        raise ConfigError(f"--weights gives no importance to {shorten_list(absent)}", "ask about each part")
    return WeightedGeometricMean({part: importance[name] for part, name in names.items()})


def cluster_items(views: Sequence[RunView], sources: Mapping[str, str] = {}) -> Callable[[str], Hashable]:
    """Make a function that tells which items share a source, by the first run or by files."""
    clusters: dict[str, int] = {}
    for view in views[:1]:
        items = [ref.id for ref in view.resolved_spec.dataset.items()]
        clusters = dict(zip(items, view.clusters([True] * len(items)), strict=True))
    return lambda item: clusters.get(item, sources.get(item, item))


def match_dimension(name: str, ids: Sequence[str], there: str) -> list[str]:
    """Find the dimension that a name of people's files means; of imported replies, both readings.

    Args:
        there: Another name for it, or a part of its id.
    """
    if not ids:
        return [name]
    short = {i: i.removesuffix(REREAD) for i in ids}
    matching = [i for i in ids if not name or there in {i, short[i], short[i].partition(".")[2], control_name(i)}]
    if len({short[i] for i in matching}) != 1:
        raise ConfigError(
            f"people's dimension {name or '(none)'!r} is not one of the run's: {shorten_list(ids)}",
            f"name it: --match {name}=DIMENSION",
        )
    return matching


def measure_similarity(view: RunView, edits: Iterable[Edit]) -> Rater:
    """Measure the SSIM of edits with their first source, both at 256 px, as a trivial judge."""
    from ..base.images import read_thumbnail
    from ..pixels.ssim import ssim

    find = view.make_picture_finder().find
    values: dict[Edit, tuple[float, ...]] = {}
    for item, model in edits:
        pictures = find(item)
        paths = (*pictures.sources[:1], pictures.outputs.get(model))
        source, *output = [read_thumbnail(path, _THUMBNAIL) if path else None for path in paths]
        if source is not None and output and output[0] is not None:
            values[item, model] = (ssim(source, output[0]),)
    return Rater("SSIM with the source", {"": values}, {"": (-1.0, 1.0)}, kind="trivial")
