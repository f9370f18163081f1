"""Figures: the papers' own from their printed numbers, gaps, and names that are only names."""

from __future__ import annotations

import html
import io
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image as Pil

from editjudge.benchmarks.column import Column
from editjudge.benchmarks.figures import Figure, FigurePanel, Kind, load_figures
from editjudge.benchmarks.published_tables import list_printed_values, load_published_tables
from editjudge.benchmarks.registry import load_benchmark, load_benchmarks
from editjudge.report import figures as module
from editjudge.report.figures import (
    MAX_LOOKS,
    Numbers,
    _scale_columns,
    _shorten_names,
    _styles,
    draw_figure,
    drawable_columns,
    drawable_panels,
)

NAMES = [name for name in load_benchmarks() if name != "core"]


def read_paper_rows(name: str) -> dict[str, dict[str, float]]:
    """What a paper prints of our columns, by model."""
    rows: dict[str, dict[str, float]] = {}
    for table in load_published_tables(name).tables:
        for model, row in table.models.items():
            rows.setdefault(model, {}).update(row)
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_names_columns_there_are(name: str) -> None:
    columns = load_benchmark(name).rules().columns
    for figure in load_figures(name):
        assert figure.kind in get_args(Kind)
        for panel in figure.panels:
            for pattern in panel.columns:
                assert FigurePanel("", (pattern,)).select_columns(columns), pattern
            meant = panel.select_columns(columns)
            assert len({c.id for c in meant}) == len(meant)
            if figure.relative:
                assert all(list_printed_values(c.id) for c in meant), "the scale is the paper's"
            elif figure.kind != "scatter":
                assert len({c.higher_is_better for c in meant}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_numbers_are_drawn(name: str) -> None:
    columns, rows = load_benchmark(name).rules().columns, read_paper_rows(name)
    for figure in load_figures(name):
        if panels := drawable_panels(figure, columns, rows):
            picture = draw_figure(figure, columns, rows, "svg").decode()
            assert all(panel.title.replace("&", "&amp;") in picture for panel in panels)
            meant = {c.id for panel in panels for c in panel.select_columns(columns)}
            whole = [m for m, row in rows.items() if meant <= row.keys()]
            assert all(f">{model}<" in picture for model in whole)
    kinds = {f.kind for f in load_figures(name) if drawable_panels(f, columns, rows)}
    assert kinds & {"radar", "tasks"}


def test_turns_keep_their_numbers() -> None:
    (turns,) = (f for f in load_figures("omni_iie") if f.kind == "turns")
    columns = load_benchmark("omni_iie").rules().columns
    overall = turns.panels[0].select_columns(columns)
    assert [c.group for c in overall[:3]] == [f"Multi turn, round {n}" for n in (1, 2, 3)]
    rows = {"a": {c.id: 0.5 for c in overall[1:4]}}  # rounds 2, 3 and 4
    assert len(drawable_panels(turns, columns, rows)) == 1
    picture = draw_figure(turns, columns, rows, "svg").decode()
    assert ">turn<" in picture
    ticks = re.findall(r'id="xtick_\d+".*?>([^<]+)</text>', picture, re.DOTALL)
    assert ticks == ["1", "2", "3", "4"]


RADAR, BARS = load_figures("gie")[1], load_figures("gie")[0]
COLUMNS = load_benchmark("gie").rules().columns
IDS = [c.id for c in RADAR.panels[0].select_columns(COLUMNS)]
BAR_IDS = [c.id for c in BARS.panels[0].select_columns(COLUMNS)]
OMNI = load_benchmark("omni_iie").rules().columns


def test_a_gap_is_no_zero() -> None:
    def marks(second: float | None) -> int:
        """Lines, bars and points of the picture: fewer where there are gaps."""
        first = dict.fromkeys(IDS, 1.0) | {IDS[1]: second}
        rows = {"a": first, "b": dict.fromkeys(IDS, 2.0)}
        return len(re.findall(rb"<use |<path ", draw_figure(RADAR, COLUMNS, rows, "svg")))

    assert marks(None) < marks(0.0)


def test_a_bar_of_zero_is_seen() -> None:
    ids = BAR_IDS
    full: dict[str, float | None] = dict.fromkeys(ids, 50.0)

    def blue(row: dict[str, float | None]) -> int:
        png = draw_figure(BARS, COLUMNS, {"a": row, "b": full}, "png")
        pixels = np.asarray(Pil.open(io.BytesIO(png)).convert("RGB"))
        return int((pixels == (0x00, 0x72, 0xB2)).all(axis=-1).sum())

    assert blue(full | {ids[1]: 0.0}) > blue(full | {ids[1]: None}) + 100


def test_narrow_hatched_bars_are_seen_and_no_model_without_numbers_is_named() -> None:
    rows: dict[str, dict[str, float]] = {f"m{n}": dict.fromkeys(BAR_IDS, 50.0) for n in range(40)}
    png = draw_figure(BARS, COLUMNS, {**rows, "none": {}}, "png")
    pixels = np.asarray(Pil.open(io.BytesIO(png)).convert("RGB")).astype(int)
    plot = pixels[: pixels.shape[0] // 2]
    reddish = (plot[..., 0] > plot[..., 2] + 60).any(axis=0).sum()
    assert reddish > 400, "the bars of the first looks alone are 200 pixels"
    assert ">none<" not in draw_figure(BARS, COLUMNS, {**rows, "none": {}}, "svg").decode()


def test_what_nobody_has_is_left_out() -> None:
    assert drawable_panels(RADAR, COLUMNS, {"a": {}}) == ()
    assert draw_figure(RADAR, COLUMNS, {"a": {}}, "svg") == b""
    two = dict.fromkeys(IDS[:2], 1.0)
    assert drawable_panels(RADAR, COLUMNS, {"a": two}) == ()  # two axes are no radar


def test_only_what_has_numbers_is_shown() -> None:
    three = RADAR.panels[0].select_columns(COLUMNS)[:3]
    rows = {"a": {c.id: 1.0 for c in three[:2]}, "b": {three[2].id: 1.0}}
    assert drawable_columns(RADAR, COLUMNS, rows) == three
    assert drawable_columns(RADAR, COLUMNS, {"a": rows["a"]}) == ()  # two axes are no radar


def test_the_better_is_farther_out_also_where_less_is_better() -> None:
    lpips = next(c for c in OMNI if c.id == "omni_iie.multi_turn.round_1.lpips_all")
    assert list_printed_values(lpips.id) == []
    values = np.array([[100.0], [300.0], [np.nan], [150.0]])
    shares, (name,) = _scale_columns([lpips], values, ["a"])
    assert np.array_equal(shares.ravel(), [1.0, 0.0, np.nan, 0.75], equal_nan=True)
    assert name == "a ↓\n300 to 100"
    assert _scale_columns([lpips], np.array([[7.0], [7.0]]), [""])[0].tolist() == [[1.0], [1.0]]


def test_two_models_alike_are_drawn_alike() -> None:
    """The axes are those of the paper's numbers, and no noise goes from worst to best."""
    psnr, mse = (next(c for c in COLUMNS if c.id == f"gie.mean.{n}") for n in ("psnr", "mse"))
    values = np.array([[20.0, 1500.0], [20.1, 1499.0]])
    shares, names = _scale_columns([psnr, mse], values, ["PSNR", "MSE"])
    assert np.abs(shares[0] - shares[1]).max() < 0.01
    assert names == ["PSNR ↑\n9.89 to 26.24", "MSE ↓\n8035 to 521.6"]
    _, (wider, _) = _scale_columns([psnr, mse], values + np.array([[20.0, 0.0]]), ["PSNR", "MSE"])
    assert wider == "PSNR ↑\n9.89 to 40.1", "what lies beyond the paper's numbers is drawn too"
    rows = {m: {c.id: 0.5 for c in COLUMNS if c.id.startswith("gie.mean")} for m in ("a", "b")}
    assert "worst to best of the paper's numbers and those" in words_of(RADAR, COLUMNS, rows)


@pytest.mark.parametrize(
    ("note", "radar", "scale"), [("", RADAR, "inner ring to outer ring: "), ("judge not checked: why", BARS, None)]
)
def test_a_figure_says_what_it_rests_on(note: str, radar: Figure, scale: str | None) -> None:
    rows = {"a": {c.id: 1.0 for c in COLUMNS}}
    picture = draw_figure(radar, COLUMNS, rows, "svg", note=note).decode()
    assert (note in picture) is True
    assert scale is None or scale in picture


def words_of(figure: Figure, columns: Sequence[Column], rows: Numbers) -> str:
    """All words of a picture, in one line."""
    texts = re.findall(r"<text[^>]*>([^<]*)<", draw_figure(figure, columns, rows, "svg").decode())
    return html.unescape(" ".join(texts))


def drawn_texts(canvas: Any) -> Iterator[Any]:
    """All texts of a picture that are seen."""
    for axes in canvas.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = zip(axis.get_majorticklabels(), axis.get_majorticklocs(), strict=True)
            yield from (label for label, at in ticks if low - 1e-9 <= at <= high + 1e-9)
            yield from (axis.get_label(), axis.get_offset_text())
        yield from (axes.title, *axes.texts)
    yield from (text for legend in canvas.legends for text in legend.get_texts())
    yield from canvas.texts


def outline_of(text: Any, renderer: Any) -> tuple[Any, Any, Any]:
    """The centre of a text, its directions, and half of its size along them, less half a pixel."""
    around = text.get_window_extent(renderer)
    turned = text.get_rotation()
    text.set_rotation(0)
    flat = text.get_window_extent(renderer)
    text.set_rotation(turned)
    along = np.array([np.cos(np.radians(turned)), np.sin(np.radians(turned))])
    half = np.array([flat.width - 1, flat.height - 1]) / 2
    centre = np.array([around.x0 + around.x1, around.y0 + around.y1]) / 2
    return centre, np.array([along, [-along[1], along[0]]]), half


def overlaps(outlines: Sequence[tuple[Any, Any, Any]]) -> list[tuple[int, int]]:
    """Pairs of turned rectangles that overlap: no direction of either separates them."""
    centres, ways, halves = map(np.array, zip(*outlines, strict=True))
    one, other = np.triu_indices(len(centres), 1)
    apart = np.zeros(len(one), np.bool_)
    for way in (ways[of, number] for of in (one, other) for number in (0, 1)):
        reach = sum((halves[of] * abs(np.einsum("nij,nj->ni", ways[of], way))).sum(axis=1) for of in (one, other))
        apart |= abs(((centres[other] - centres[one]) * way).sum(axis=1)) >= reach
    return [*zip(one[~apart].tolist(), other[~apart].tolist(), strict=True)]


def test_rectangles_overlap_where_no_direction_separates_them() -> None:
    upright, diagonal = np.eye(2), np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
    square = np.array([1.0, 1.0])
    first = np.array([0.0, 0.0]), upright, square
    for ways, beside, at_corner in ((upright, 1.9, 1.9), (diagonal, 2.3, 1.6)):
        for place in ((beside, 0.0), (0.0, -beside), (at_corner, at_corner)):
            assert overlaps([first, (np.array(place), ways, square)]) == [(0, 1)]
            assert overlaps([(np.array(place) * 1.1, ways, square), first]) == []
    assert overlaps([first]) == []


FIGURES = [(name, number, figure) for name in NAMES for number, figure in enumerate(load_figures(name))]


@pytest.mark.parametrize(
    ("name", "figure", "models"),
    [
        pytest.param(name, figure, models, id=f"{name}-{number}-{figure.kind}-{models}")
        for name, number, figure in FIGURES
        for models in ((1, 20) if figure.relative or figure.kind == "scatter" else (20,))
    ],
)
def test_no_label_lies_on_another(name: str, figure: Figure, models: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many models with gaps, or one whose numbers are all equal."""
    columns = load_benchmark(name).rules().columns
    chance = random.Random(name)
    if models == 1:
        rows: Numbers = {"a": {c.id: 0.0 for c in columns}}
    else:
        rows = {
            f"{'long-' * 20}{n}": {c.id: chance.random() * 9 for c in columns if chance.random() > 0.2}
            for n in range(models)
        }
    held: list[Any] = []
    monkeypatch.setattr(module, "_save_figure", lambda canvas, _: held.append(canvas) or b"")
    draw_figure(figure, columns, rows, "png", "UNTRAINED " + "weights " * 20, note="word " * 60)
    (canvas,) = held
    agg = FigureCanvasAgg(canvas)
    canvas.draw_without_rendering()  # texts get their places
    shown = [text for text in drawn_texts(canvas) if text.get_text().strip()]
    pairs = overlaps([outline_of(text, agg.get_renderer()) for text in shown])
    assert [(shown[one].get_text(), shown[other].get_text()) for one, other in pairs] == []


EVIL = ["$x^2$", "_hidden", "</svg><script>alert(1)</script>"]


@pytest.mark.parametrize("form", ["svg", "pdf", "png"])
def test_names_are_text_and_a_figure_is_the_same_every_time(form: Any) -> None:
    rows = {name: dict.fromkeys(BAR_IDS, 10.0 * n) for n, name in enumerate(EVIL)}
    picture = draw_figure(BARS, COLUMNS, rows, form, warning="UNTRAINED <weights>")
    assert picture == draw_figure(BARS, COLUMNS, rows, form, warning="UNTRAINED <weights>")
    if form == "svg":
        assert b"<script" not in picture
        for name in (b"$x^2$", b"_hidden", b"UNTRAINED &lt;weights"):
            assert name in picture


def test_twenty_models_are_all_in_the_legend() -> None:
    figure = replace(RADAR, relative=False, top=1.0)
    rows = {f"m{n}": dict.fromkeys(IDS, n / 20) for n in range(20)}
    picture = draw_figure(figure, COLUMNS, rows, "svg").decode()
    assert all(f">m{n}<" in picture for n in range(20))


@pytest.mark.parametrize(
    "seen_by",
    [
        ("color", "marker", "linestyle", "fillstyle"),  # lines
        ("marker", "linestyle", "fillstyle"),  # lines without colours
        ("color", "marker", "fillstyle"),  # points
        ("color", "hatch"),  # bars
    ],
)
def test_looks_differ(seen_by: tuple[str, ...]) -> None:
    looks = [tuple(style[name] for name in seen_by) for style in _styles()]
    assert len(set(looks)) == len(looks) == MAX_LOOKS == 64


def test_a_legend_has_room_for_all_names() -> None:
    """It lies in the picture, and the plot above it is as large as without it."""
    figure = replace(RADAR, relative=False, top=1.0)
    row = dict.fromkeys(IDS, 0.5)
    radars = []
    for names in (
        ["a"],
        [f"† UniPic2(Metaquery Flash {n}), by Gemini 2.5 Pro" for n in range(50)],
        [f"{'long-' * 20}{n}" for n in range(25)],
        [f"{'long-' * 20}{n}{'-long' * 20}" for n in range(3)],
    ):
        svg = draw_figure(figure, COLUMNS, dict.fromkeys(names, row), "svg").decode()
        width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0])
        legend = svg[svg.index('id="legend_1"') :]
        places = re.findall(r'<text style="[^"]*" x="([\d.-]+)" y="([\d.-]+)"', legend)
        assert len(places) == len(names)
        assert all(0 <= float(x) < width and 0 < float(y) <= height for x, y in places)
        (disc,) = re.findall(r'<g id="patch_2">\s*<path d="([^"]+)"', svg)
        across = [float(x) for x in re.findall(r"[MLC] ([\d.-]+) ", disc)]
        radars.append(max(across) - min(across))
    assert max(radars) - min(radars) < 0.1 * max(radars)


def test_long_names_lose_their_middle_and_stay_apart() -> None:
    assert _shorten_names(["short", "x" * 48]) == ["short", "x" * 48]
    (short,) = _shorten_names(["begin" + "x" * 80 + "end"])
    assert len(short) == 48
    assert re.fullmatch("beginx+…x+end", short)
    alike = [f"{'x' * 40}{n}{'x' * 40}" for n in range(3)]
    assert len(set(_shorten_names(alike))) == 3
    assert _shorten_names([]) == []
