"""Outputs that are one place beside their items, and what sizes say about it, and do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec
from editjudge.app import name_shift as module
from editjudge.app.name_shift import (
    BLOCK_COUNT,
    BLOCK_LENGTH,
    Block,
    Size,
    find_shift,
    sample_blocks,
)
from editjudge.app.run import preview_run
from editjudge.app.spec import ResolvedSpec
from editjudge.app.validation import validate
from editjudge.base.config import Settings
from editjudge.base.errors import InputError
from editjudge.base.images import load_image, read_header_size
from editjudge.benchmarks.items import ItemsFile
from editjudge.engine.events import NoteEvent, RunEvent

PSNR = "core.psnr.source.whole"
MIXED: tuple[Size, ...] = ((40, 30), (30, 40), (32, 32), (48, 27), (40, 30), (36, 24), (30, 30))


def make(
    folder: Path, sizes: Sequence[Size], outputs: Callable[[int], Size | None], first: int = 0
) -> RunSpec:
    """Items named from 0, and outputs to them whose names begin with `first`."""
    (folder / "ours").mkdir(parents=True)
    lines = []
    for index, size in enumerate(sizes):
        Pil.new("RGB", size, "white").save(folder / f"source{index}.png")
        lines.append({"id": str(index), "instruction": "x", "source": f"source{index}.png"})
        if made := outputs(index):
            Pil.new("RGB", made, "grey").save(folder / "ours" / f"{index + first}.png")
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return RunSpec(
        benchmark="core",
        data=folder / "items.jsonl",
        outputs={"ours": folder / "ours"},
        dimensions=(PSNR,),
    )


def told(spec: RunSpec, out: Path) -> str:
    """Why a run refuses, or nothing; `validate` and a dry run say the same."""
    problems = validate(ResolvedSpec(spec), Settings()).select("shifted")
    if not problems:
        preview_run(spec, out, Settings())
        assert editjudge.run(spec, out=out).status == "done"
        return ""
    with pytest.raises(InputError, match="shifted by one") as caught:
        editjudge.run(spec, out=out)
    with pytest.raises(InputError) as foretold:
        preview_run(spec, out, Settings())
    assert not out.exists(), "nothing is begun"
    (problem,) = problems
    assert not problem.note
    reason = str(caught.value)
    assert str(foretold.value) == reason
    assert problem.what.partition("\n")[0] in reason
    return reason


@pytest.mark.parametrize(("first", "place"), [(1, "before"), (-1, "after")])
def test_names_that_begin_elsewhere_are_refused(tmp_path: Path, first: int, place: str) -> None:
    spec = make(tmp_path, MIXED, lambda i: MIXED[i] if i + first >= 0 else None, first)
    reason = told(spec, tmp_path / "run")
    assert f"6 outputs have the size of the source {place} their own, and 0 that" in reason
    assert "--as-named" in reason


def test_a_flaw_of_the_data_hides_no_shift(tmp_path: Path) -> None:
    spec = make(tmp_path, MIXED, lambda i: MIXED[i], 1)
    lines = (
        (tmp_path / "items.jsonl").read_text().replace('"instruction": "x"', '"instruction": ""', 1)
    )
    (tmp_path / "items.jsonl").write_text(lines)
    assert "shifted by one" in told(spec, tmp_path / "run")


def test_by_shape_where_sizes_are_rounded_to_a_grid(tmp_path: Path) -> None:
    def on_the_grid(index: int) -> Size:
        width, height = (round(side * 20 / 32) * 32 for side in MIXED[index])
        return width, height

    reason = told(make(tmp_path, MIXED, on_the_grid, 1), tmp_path / "run")
    assert "6 outputs have the shape of the source before their own" in reason
    own = make(tmp_path / "own", MIXED, on_the_grid)
    assert told(own, tmp_path / "other") == ""


SILENT: dict[str, tuple[Sequence[Size], Callable[[int], Size | None]]] = {
    "items of one size": ([(40, 30)] * 9, lambda i: (40, 30)),
    "outputs of one size": (MIXED * 3, lambda i: (32, 32)),
    "one size, that of most items": (
        [(32, 32), (40, 30), (32, 32), (32, 32)] * 5,
        lambda i: (32, 32),
    ),
    "one size, and none for items that have it": (
        [(32, 32), (40, 30)] * 8,
        lambda i: (32, 32) if i % 2 else None,
    ),
    "sorted, and one size": ([(40 - i, 20 + i) for i in range(12)], lambda i: (28, 32)),
    "shapes of the model's own": (
        MIXED * 3,
        lambda i: (48, 32) if MIXED[i % 7][0] > 32 else (32, 48),
    ),
    "lying on their sides": (
        [(40, 30), (40, 30), (30, 40), (30, 40)] * 5,
        lambda i: (30, 40) if i % 4 < 2 else (40, 30),
    ),
    "too few that tell": (
        [(40, 30)] * 5 + [(30, 40)] * 5,
        lambda i: (40, 30) if i < 5 else (30, 40),
    ),
}


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("first", [0, 1])
def test_where_sizes_tell_nothing_a_run_is_silent(tmp_path: Path, name: str, first: int) -> None:
    sizes, outputs = SILENT[name]
    if first and name == "lying on their sides":
        pytest.skip("these are told")
    assert told(make(tmp_path, sizes, outputs, first), tmp_path / "run") == ""


def test_a_few_outputs_of_another_size_do_not_hide_it(tmp_path: Path) -> None:
    sizes = MIXED * 6
    spec = make(tmp_path, sizes, lambda i: (7, 7) if i in {5, 20} else sizes[i], 1)
    assert "shifted by one" in told(spec, tmp_path / "run")


def test_who_knows_better_goes_on(tmp_path: Path) -> None:
    spec = make(tmp_path, MIXED, MIXED.__getitem__, 1)
    events: list[RunEvent] = []
    result = editjudge.run(spec, out=tmp_path / "run", progress=events.append, as_named=True)
    assert (result.status, result.last_event.judged) == ("done", len(MIXED) - 1)
    assert (
        preview_run(spec, tmp_path / "other", Settings(), as_named=True)[1].edit_count
        == len(MIXED) - 1
    )
    assert not validate(ResolvedSpec(spec), Settings(), as_named=True).select("shifted")
    notes = [event.text for event in events if isinstance(event, NoteEvent)]
    assert any(
        f"1 file in {tmp_path / 'ours'} belongs to no item (first: 7.png)" in n for n in notes
    )


def test_files_beyond_a_limit_belong_to_items(tmp_path: Path) -> None:
    spec = make(tmp_path, [(8, 8)] * 5, lambda i: (8, 8))
    (tmp_path / "ours" / "notes.txt").write_text("no picture")
    for limit in (None, 2):
        events: list[RunEvent] = []
        few = spec.model_copy(update={"limit": limit})
        editjudge.run(few, out=tmp_path / f"run{limit}", progress=events.append)
        assert not [e for e in events if isinstance(e, NoteEvent) and "belong to no item" in e.text]


def test_of_many_items_some_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs of neighbours: the first, the middle and the last."""
    count = 3000
    lines = [
        json.dumps({"id": str(i), "instruction": "x", "source": f"{MIXED[i % 7]}.png"})
        for i in range(count)
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    for size in MIXED:
        (tmp_path / f"{size}.png").touch()
    data = ItemsFile(tmp_path / "items.jsonl")
    read: list[str] = []

    def header(path: object) -> Size:
        read.append(Path(str(path)).stem)
        return (1, 1)

    monkeypatch.setattr(module, "read_header_size", header)
    blocks = sample_blocks(data, count)
    assert [len(block.items) for block in blocks] == [BLOCK_LENGTH] * BLOCK_COUNT
    assert [block.items[0].id for block in blocks] == ["0", "1475", "2950"]
    assert len(read) == len(set(MIXED)), "each source once"


def test_a_shift_that_begins_in_the_middle_is_seen(tmp_path: Path) -> None:
    count = BLOCK_LENGTH * BLOCK_COUNT + 400
    rng = np.random.default_rng(1)
    sizes = [(int(w) * 8, int(h) * 8) for w, h in rng.integers(2, 7, (count, 2))]
    blocks = [
        Block([module._SizedItem(str(i), sizes[i]) for i in range(start, start + BLOCK_LENGTH)])
        for start in (0, 250, count - BLOCK_LENGTH)
    ]

    class Lost:
        def path(self, item: str) -> str:
            """From 400 on each output is that of the next item."""
            return item if int(item) < 400 else str(int(item) + 1)

    def header(path: object) -> Size:
        return sizes[min(int(str(path)), count - 1)]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "read_header_size", header)
        shifted = find_shift(blocks, Lost())  # type: ignore[arg-type]
        assert find_shift(blocks[:2], Lost()) is None  # type: ignore[arg-type]
    assert shifted is not None
    assert (shifted.what, shifted.step, shifted.own) == ("size", 1, 0)


def test_beside_sources_of_one_size_no_output_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Anywhere:
        def path(self, item: str) -> str:
            return item

    opened: list[object] = []
    monkeypatch.setattr(module, "read_header_size", lambda path: opened.append(path) or (8, 8))
    items = [module._SizedItem(str(i), (8, 8)) for i in range(5)]
    assert find_shift([Block(items)], Anywhere()) is None  # type: ignore[arg-type]
    assert not opened
    items[2] = module._SizedItem("2", (8, 9))
    assert find_shift([Block(items)], Anywhere()) is None  # type: ignore[arg-type]
    assert opened == [place.id for place in items]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("turned", [1, 6])
def test_headers_tell_the_size_of_the_upright_picture(
    tmp_path: Path, kind: str, turned: int
) -> None:
    exif = Pil.Exif()
    exif[0x0112] = turned
    path = tmp_path / "picture"
    Pil.new("RGB", (40, 30)).save(path, kind, exif=exif)
    assert read_header_size(path) == load_image(path).size
    path.write_bytes(b"no picture")
    assert read_header_size(path) is None
    assert read_header_size(tmp_path / "nowhere.png") is None
