"""Outputs that are one place beside their items, and what pictures say about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec
from editjudge.app import name_shift as module
from editjudge.app.name_shift import BLOCK_COUNT, BLOCK_LENGTH, MIN_ALIKE, Block, find_shift, sample_blocks
from editjudge.app.run import preview_run
from editjudge.app.spec import ResolvedSpec
from editjudge.app.validation import validate
from editjudge.base.config import Settings
from editjudge.base.errors import InputError
from editjudge.base.images import read_thumbnail
from editjudge.benchmarks.items import ItemsFile
from editjudge.engine.events import NoteEvent

from ...small_data import make_spec, read_items, save_picture, write_items

Picture: TypeAlias = NDArray[np.uint8]
SIDE = 32


def make(folder: Path, sources: Sequence[Any], outputs: Sequence[Any], first: int = 0) -> RunSpec:
    """Items named from 0 with these sizes or pictures, and outputs named from `first`."""
    for index, source in enumerate(sources):
        save_picture(folder / f"source{index}.png", source)
    write_items(folder, ({"source": f"source{index}.png"} for index, _ in enumerate(sources)))
    save_outputs(folder, outputs, first)
    return make_spec(folder)


def save_outputs(folder: Path, outputs: Sequence[Any], first: int = 0) -> None:
    for index, output in enumerate(outputs):
        if output is not None:
            save_picture(folder / "ours" / f"{index + first}.png", output)


def find_refusal(spec: RunSpec, out: Path) -> str:
    """Why a run refuses, or nothing; `validate` and a dry run say the same."""
    problems = validate(ResolvedSpec(spec)).select("shifted")
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


def test_a_flaw_of_the_data_hides_no_shift(tmp_path: Path) -> None:
    spec = make(tmp_path, SCENES[:12], edit(SCENES[:12]), 1)
    first, *rest = read_items(tmp_path)
    write_items(tmp_path, [first | {"instruction": ""}, *rest])
    assert "shifted by one" in find_refusal(spec, tmp_path / "run")


def test_who_knows_better_goes_on(tmp_path: Path) -> None:
    spec = make(tmp_path, SCENES[:12], edit(SCENES[:12]), 1)
    events: list[Any] = []
    result = editjudge.run(spec, out=tmp_path / "run", progress=events.append, as_named=True)
    assert (result.status, result.last_event.judged) == ("done", 11)
    _, plan = preview_run(spec, tmp_path / "other", Settings(), as_named=True)
    assert plan.edit_count == 11
    assert not validate(ResolvedSpec(spec), as_named=True).select("shifted")
    stray = f"1 file in {tmp_path / 'ours'} belongs to no item (first: 12.png)"
    assert any(stray in event.text for event in events if isinstance(event, NoteEvent))


def test_files_beyond_a_limit_belong_to_items(tmp_path: Path) -> None:
    spec = make(tmp_path, [(8, 8)] * 5, [(8, 8)] * 5)
    (tmp_path / "ours" / "notes.txt").write_text("no picture")
    for limit in (None, 2):
        events: list[Any] = []
        few = spec.model_copy(update={"limit": limit})
        editjudge.run(few, out=tmp_path / f"run{limit}", progress=events.append)
        assert not [e for e in events if isinstance(e, NoteEvent) and "belong to no item" in e.text]


def test_of_many_items_some_are_looked_at(tmp_path: Path) -> None:
    """Three runs of neighbours: the first, the middle and the last."""
    count = 3000
    data = ItemsFile(write_items(tmp_path, ({"source": f"{i % 7}.png"} for i in range(count))))
    for index in range(7):
        (tmp_path / f"{index}.png").touch()
    blocks = sample_blocks(data, count)
    assert [len(block.items) for block in blocks] == [BLOCK_LENGTH] * BLOCK_COUNT
    assert [block.items[0].id for block in blocks] == ["0", "1475", "2950"]


def test_what_is_no_picture_has_no_thumbnail(tmp_path: Path) -> None:
    (tmp_path / "odd.png").write_bytes(b"no picture")
    assert read_thumbnail(tmp_path / "odd.png", 16) is None
    assert read_thumbnail(tmp_path / "nowhere.png", 16) is None


def draw(seed: int, cells: int = 5) -> Picture:
    """A picture with large areas of some colours."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
    return np.asarray(Pil.fromarray(coarse).resize((SIDE, SIDE), Pil.Resampling.BICUBIC))


def replace_part(picture: Picture, seed: int) -> Picture:
    """What most edits do: an object is another one."""
    rng = np.random.default_rng(seed + 5000)
    edited, (y, x) = picture.copy(), rng.integers(0, SIDE // 2, 2)
    edited[y : y + SIDE // 2, x : x + SIDE // 2] = draw(seed + 9000)[: SIDE // 2, : SIDE // 2]
    return edited


def darken(picture: Picture, _: int) -> Picture:
    return (picture.astype(float) ** 2 / 700).astype(np.uint8)


def drop_colours(picture: Picture, _: int) -> Picture:
    return np.asarray(Pil.fromarray(picture).convert("L").convert("RGB"))


def replace_background(picture: Picture, seed: int) -> Picture:
    """Only what is in the middle stays."""
    edited, part = draw(seed + 7000), slice(SIDE // 6, -SIDE // 6)
    edited = edited.copy()
    edited[part, part] = picture[part, part]
    return edited


def crop(picture: Picture, seed: int) -> Picture:
    y, x = np.random.default_rng(seed).integers(0, SIDE // 8, 2)
    part = picture[y : y + SIDE * 7 // 8, x : x + SIDE * 7 // 8]
    return np.asarray(Pil.fromarray(part).resize((SIDE, SIDE)))


EDITS: tuple[Callable[[Picture, int], Picture], ...] = (replace_part, darken, drop_colours, replace_background, crop)


def edit(sources: Sequence[Picture]) -> list[Picture]:
    """An output to each source, of all kinds of edits in turn."""
    return [EDITS[i % len(EDITS)](source, i) for i, source in enumerate(sources)]


def find(
    sources: Sequence[Picture], outputs: Sequence[Picture | None], starts: Sequence[int] = (0,), length: int = 60
) -> Any:
    """What is found of pictures that are read from no file."""
    pictures = {f"s{i}": one for i, one in enumerate(sources)}
    pictures |= {f"o{i}": one for i, one in enumerate(outputs) if one is not None}
    items = [module._SourcedItem(str(i), Path(f"s{i}")) for i, _ in enumerate(sources)]

    def read(path: object, side: int) -> Picture:
        whole = Pil.fromarray(pictures[str(path)])
        return np.asarray(whole.resize((side, side), Pil.Resampling.BOX))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "read_thumbnail", read)
        named = {name: name for name in pictures}
        there: Any = SimpleNamespace(path=lambda item: named.get(f"o{item}"))
        return find_shift([Block(items[start : start + length]) for start in starts], there)


def shift(outputs: Sequence[Picture], step: int, start: int = 0) -> list[Picture | None]:
    """From `start` on each item has the output of the item `step` places on."""
    places = [i if i < start else i + step for i in range(len(outputs))]
    return [outputs[i] if 0 <= i < len(outputs) else None for i in places]


SCENES = [draw(i) for i in range(60)]


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("count", [12, 60])
def test_a_shift_of_all_is_found(step: int, count: int) -> None:
    sources = SCENES[:count]
    found = find(sources, shift(edit(sources), step))
    assert (found.step, found.own, found.extent) == (step, 0, "")
    assert found.fitting >= 0.7 * count
    assert find(sources, edit(sources)) is None


@pytest.mark.parametrize("start", [3, 31, 48])
def test_where_an_output_was_left_out_the_rest_is_shifted(start: int) -> None:
    found = find(SCENES, shift(edit(SCENES), 1, start))
    assert (found.step, found.own) == (1, 0)
    first = int(found.extent.removeprefix(" from ").removesuffix(" on"))
    assert start <= first <= start + 2
    assert f"the names from {first} on seem to be shifted by one" in str(found)


def test_a_shift_that_ends_is_found() -> None:
    outputs = edit(SCENES)
    outputs[20:40] = outputs[21:41]
    found = find(SCENES, outputs)
    assert (found.step, found.own, found.extent) == (1, 0, " from 20 on")
    assert 12 <= found.fitting <= 20


def test_between_the_blocks_it_begins_where_the_next_is_looked_at() -> None:
    found = find(SCENES, shift(edit(SCENES), 1, 17), (0, 20, 40), 12)
    assert found.extent == " from 20 on"


@pytest.mark.parametrize("change", EDITS)
def test_edits_under_their_own_names_show_nothing(change: Callable[..., Picture]) -> None:
    for count in (6, 20, 60):
        sources = SCENES[:count]
        assert find(sources, [change(one, i) for i, one in enumerate(sources)]) is None


def in_threes() -> list[Picture]:
    return [SCENES[i // 3] for i in range(60)]


def frames() -> list[Picture]:
    """A camera that moves slowly, and light that rises."""
    scene = np.asarray(Pil.fromarray(draw(1, 9)).resize((96, 96), Pil.Resampling.BICUBIC))
    return [(scene[:SIDE, i : i + SIDE] * (0.5 + i / 120)).astype(np.uint8) for i in range(60)]


def reverse() -> tuple[list[Picture], list[Picture]]:
    """Each background is replaced, and then the first one is asked for again."""
    pairs = [(one, replace_background(one, i)) for i, one in enumerate(SCENES[:30])]
    sources = [one for pair in pairs for one in pair]
    return sources, [one for pair in pairs for one in reversed(pair)]


def converse() -> tuple[list[Picture], list[Picture]]:
    """Dialogues of four rounds: the source of a round is what the round before should give."""
    sources, outputs = [], []
    for start in range(0, 60, 4):
        picture = SCENES[start]
        for round_ in range(4):
            sources.append(picture)
            picture = replace_part(picture, start + round_)
            outputs.append(picture)
    return sources, outputs


SILENT_PICTURES: dict[str, tuple[Sequence[Picture], Sequence[Picture | None]]] = {
    "generated without regard to the source": (SCENES, [draw(i + 500) for i in range(60)]),
    "another's sources in any order": (SCENES, [SCENES[i] for i in np.random.default_rng(3).permutation(60)]),
    "one output for all": (SCENES, [draw(777)] * 60),
    "of one colour": (SCENES, [np.full((SIDE, SIDE, 3), i, np.uint8) for i in range(60)]),
    "no output": (SCENES, [None] * 60),
    "inverted": (SCENES, [255 - one for one in SCENES]),
    "mirrored": (SCENES, [one[:, ::-1] for one in SCENES]),
    "three edits of each source": (in_threes(), edit(in_threes())),
    "frames": (frames(), edit(frames())),
    "frames, and outputs of the next": (frames(), shift(edit(frames()), 1)),
    "edits and their reversals": reverse(),
    "dialogues": converse(),
    "one source": ([SCENES[0]] * 60, edit([SCENES[0]] * 60)),
}


@pytest.mark.parametrize("name", SILENT_PICTURES)
def test_where_pictures_tell_nothing_it_is_silent(name: str) -> None:
    assert find(*SILENT_PICTURES[name]) is None


def test_of_several_edits_of_a_source_the_last_tell() -> None:
    assert find(in_threes(), shift(edit(in_threes()), 1)).step == 1


@pytest.mark.parametrize("count", range(MIN_ALIKE))
def test_a_few_tell_nothing(count: int) -> None:
    sources = SCENES[: count + 1]
    assert find(sources, shift(sources, 1)) is None


def test_every_door_refuses_pictures_that_are_shifted(tmp_path: Path) -> None:
    spec = make(tmp_path, SCENES[:12], shift(edit(SCENES[:12]), -1))
    reason = find_refusal(spec, tmp_path / "run")
    assert "outputs look like the source before their own, and 0 their own (first: 1, like" in reason
    assert "the source of 0): the names seem to be" in reason
    assert "--as-named" in reason
    assert editjudge.run(spec, out=tmp_path / "run", as_named=True).status == "done"


def test_a_run_that_goes_on_looks_at_models_with_something_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = edit(SCENES[:12])
    spec = make(tmp_path, SCENES[:12], outputs)
    assert editjudge.run(spec, out=tmp_path / "run").status == "done"
    read: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(module, "read_thumbnail", lambda path, side: read.append(path))
        editjudge.run(spec, out=tmp_path / "run")
    assert not read, "nothing is left to judge"
    save_outputs(tmp_path, shift(outputs, 1))
    for go_on in (editjudge.run, lambda spec, out: preview_run(spec, out, Settings())):
        with pytest.raises(InputError, match="shifted by one"):
            go_on(spec, out=tmp_path / "run")
    assert editjudge.run(spec, out=tmp_path / "run", as_named=True).status == "done"


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp"])
def test_thumbnails_are_means_of_upright_pictures(tmp_path: Path, suffix: str) -> None:
    exif = Pil.Exif()
    exif[0x0112] = 3
    large = Pil.fromarray(draw(1)).resize((640, 320), Pil.Resampling.BICUBIC)
    large.save(tmp_path / f"large.{suffix}", exif=exif, quality=95)
    found: Any = read_thumbnail(tmp_path / f"large.{suffix}", 16)
    upright = large.rotate(180).resize((16, 16), Pil.Resampling.BOX)
    assert np.abs(found.astype(int) - np.asarray(upright)).max() <= 4
