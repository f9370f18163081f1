"""How often intervals hold the true value, and how often a difference is claimed that is none.

Edits are simulated by kind of value, with a correlation of .3 between edits of one source picture
and 1 to 8 edits a source. Each line has three rules: the one in use; Student's interval and the
sign flips alone, as they were in use before; and the naive one, which takes edits for independent
(1.96 standard errors). Of an interval that does not exist the true value is outside.

    python perf/coverage.py [repetitions] [seed]

`no sign` is how often no source shows what makes the difference zero: what no test can see.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from editjudge.app.intervals import Intervals
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import Column, Composite, Mean
from editjudge.benchmarks.tabulation import Sample
from editjudge.stats.clusters import Clusters, half_width
from editjudge.stats.paired_comparison import compare, sign_flip_p

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, Floats, NDArray[np.int64]], Floats]
SOURCES = (30, 60, 100)
WITHIN = 0.3
CUTS = np.array([-1.2, -0.4, 0.3, 1.0])
RARE = ndtri([0.01, 0.02, 0.03])
GRADE_LIMITS = ndtri([0.02, 0.05, 0.1])


def share(of: float) -> Draw:
    """Values that are 1 with this probability, else 0."""
    return lambda rng, z, clusters: (z < ndtri(of)).astype(float)


def failing(rate: float) -> Draw:
    """Differences of an editor that gains 1 and loses 1 / rate on some sources: 0 on average."""

    def draw(rng: np.random.Generator, z: Floats, clusters: NDArray[np.int64]) -> Floats:
        fails = (rng.random(clusters.max() + 1) < rate)[clusters]
        return 1 - fails / rate + rng.normal(0, 0.3, len(z))

    return draw


KINDS: dict[str, tuple[Draw, float, tuple[float, float] | None]] = {
    "normal": (lambda rng, z, clusters: z, 0.0, None),
    "1 to 5": (lambda rng, z, of: 1.0 + np.searchsorted(CUTS, z), 5 - ndtr(CUTS).sum(), (1, 5)),
    "1 to 5, 97 % are 5": (
        lambda rng, z, clusters: np.array([1.0, 2.0, 4.0, 5.0])[np.searchsorted(RARE, z)],
        4.92,
        (1, 5),
    ),
    "share of questions, 90 % are 1": (
        lambda rng, z, clusters: np.array([0.0, 0.5, 0.8, 1.0])[np.searchsorted(GRADE_LIMITS, z)],
        0.955,
        (0, 1),
    ),
    **{f"yes or no, {of}": (share(of), of, (0, 1)) for of in (0.3, 0.5, 0.9, 0.97)},
    "lognormal": (lambda rng, z, clusters: np.exp(z), float(np.exp(0.5)), None),
    "fails on 10 % of sources": (failing(0.1), 0.0, None),
    "fails on 5 % of sources": (failing(0.05), 0.0, None),
}
"""How a kind is drawn, its true mean, and its scale."""
X, Y = Column("x", "", Mean("x"), True), Column("y", "", Mean("y"), True)
BOTH = Column("both", "", Composite(lambda v: (v["x"] + v["y"]) / 2, {"x": "x", "y": "y"}), True)


def draw_clusters(rng: np.random.Generator, sources: int) -> NDArray[np.int64]:
    """The source of each edit: most have one or two, a few up to eight."""
    more = (rng.random(sources) < 0.1) * rng.integers(0, 5, sources)
    return np.repeat(np.arange(sources), np.minimum(8, rng.geometric(0.45, sources) + more))


def draw_shared(rng: np.random.Generator, clusters: NDArray[np.int64]) -> Floats:
    """Standard normal values, correlated within a source."""
    of_source = rng.normal(size=clusters.max() + 1)[clusters]
    return WITHIN**0.5 * of_source + (1 - WITHIN) ** 0.5 * rng.normal(size=len(clusters))


def covers(values: dict[str, Floats], column: str, ranges: dict, clusters, truth: float) -> bool:
    """Whether the interval of a table holds the true value."""
    columns = [X, Y, BOTH] if "y" in values else [X]
    items = array("I", range(len(clusters)))
    samples = {name: Sample(each, array("d"), items, array("I"), array("d", each)) for name, each in values.items()}
    means = {name: float(each.mean()) for name, each in values.items()}
    means["both"] = sum(means.values()) / len(means)
    cells = {c.id: Cell(means[c.id], {"scored": len(clusters)}) for c in columns}
    interval_table, _ = Intervals(columns, clusters.tolist(), ranges).add_intervals(cells, samples)
    interval = interval_table[column].interval
    return bool(interval and interval.low is not None and interval.low <= truth <= interval.high)


def student_covers(of: Clusters, truth: float) -> bool:
    """Whether Student's interval over clusters holds the true value."""
    return bool(of.error) and abs(of.value - truth) <= half_width(of.error, of.freedom)


def naive_covers(values: Floats, truth: float) -> bool:
    """The same of the interval that takes edits for independent."""
    return abs(values.mean() - truth) <= 1.96 * values.std(ddof=1) / len(values) ** 0.5


def measure(kind: str, sources: int, repetitions: int, seed: int) -> tuple[Floats, Floats, float]:
    """Coverage and false claims, 0..1, by the three rules; and how often there is no sign."""
    draw, truth, ends = KINDS[kind]
    rng = np.random.default_rng([seed, sources, *map(ord, kind)])
    hits, claims, unseen = np.zeros(3), np.zeros(3), 0
    for _ in range(repetitions):
        clusters = draw_clusters(rng, sources)
        z = draw_shared(rng, clusters)
        x = draw(rng, z, clusters)
        of = Clusters.of(x.tolist(), clusters.tolist())
        hits += (
            covers({"x": x}, "x", {"x": ends} if ends else {}, clusters, truth),
            student_covers(of, truth),
            naive_covers(x, truth),
        )
        difference = x
        if not kind.startswith("fails"):  # Two models that are alike, on the same sources.
            difference = x - draw(rng, (z + draw_shared(rng, clusters)) / 2**0.5, clusters)
        else:
            unseen += bool(x.min() > -1)
        comparison = compare(np.zeros(len(x)).tolist(), difference.tolist(), clusters.tolist())
        sums = Clusters.of(difference.tolist(), clusters.tolist()).sums
        claims += (
            comparison.p is not None and comparison.p < 0.05,
            sign_flip_p(sums[None])[0] < 0.05,
            not naive_covers(difference, 0),
        )
    return hits / repetitions, claims / repetitions, unseen / repetitions


def measure_composite(sources: int, repetitions: int, seed: int) -> Floats:
    """Coverage of the average of a lognormal column and a share of .9."""
    rng = np.random.default_rng([seed, sources])
    hits = np.zeros(3)
    truth = (KINDS["lognormal"][1] + 0.9) / 2
    for _ in range(repetitions):
        clusters = draw_clusters(rng, sources)
        x = np.exp(draw_shared(rng, clusters))
        y = share(0.9)(rng, draw_shared(rng, clusters), clusters)
        both = (x + y) / 2
        hits += (
            covers({"x": x, "y": y}, "both", {"y": (0, 1)}, clusters, truth),
            student_covers(Clusters.of(both.tolist(), clusters.tolist()), truth),
            naive_covers(both, truth),
        )
    return hits / repetitions


def row(*cells: object) -> str:
    """A row of the table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def percent(shares: Floats) -> list[str]:
    """Shares as percentages."""
    return [f"{100 * one:.1f}" for one in shares]


def main() -> None:
    """Print the table."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    heads = ("covers, %", "Student's", "naive", "false claims, %", "sign flips", "naive", "no sign")
    print(row("values", "sources", *heads))
    print(row(*["---"] * (2 + len(heads))))
    for kind in KINDS:
        for sources in SOURCES:
            hits, claims, unseen = measure(kind, sources, repetitions, seed)
            no_sign = percent(np.array([unseen])) if kind.startswith("fails") else [""]
            line = row(kind, sources, *percent(hits), *percent(claims), *no_sign)
            print(line, flush=True)
    for sources in SOURCES:
        hits = measure_composite(sources, repetitions, seed)
        print(row("average of lognormal and .9", sources, *percent(hits), "", "", "", ""))


if __name__ == "__main__":
    main()
