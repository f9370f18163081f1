"""Outputs of one size that are one place beside their items, and what pictures say about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec
from editjudge.app import name_shift as module
from editjudge.app.name_shift import MIN_ALIKE, Block, NameShift, find_shift
from editjudge.app.run import preview_run
from editjudge.app.spec import ResolvedSpec
from editjudge.app.validation import validate
from editjudge.base.config import Settings
from editjudge.base.errors import InputError
from editjudge.base.images import read_thumbnail

Picture: TypeAlias = NDArray[np.uint8]
SIDE = 32


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


EDITS: tuple[Callable[[Picture, int], Picture], ...] = (
    replace_part,
    darken,
    drop_colours,
    replace_background,
    crop,
)


def edit(sources: Sequence[Picture]) -> list[Picture]:
    """An output to each source, of all kinds of edits in turn."""
    return [EDITS[i % len(EDITS)](source, i) for i, source in enumerate(sources)]


class Pictures:
    """Pictures that are read from no file, and the outputs among them."""

    def __init__(self, sources: Sequence[Picture], outputs: Sequence[Picture | None]) -> None:
        self._by_path = {f"o{i}": one for i, one in enumerate(outputs) if one is not None}
        self._by_path |= {f"s{i}": one for i, one in enumerate(sources)}
        self.items = [
            module._SizedItem(str(i), (8, 8), Path(f"s{i}")) for i, _ in enumerate(sources)
        ]

    def path(self, item: str) -> str | None:
        path = f"o{item}"
        return path if path in self._by_path else None

    def read(self, path: object, side: int) -> Picture | None:
        picture = self._by_path[str(path)]
        return np.asarray(Pil.fromarray(picture).resize((side, side), Pil.Resampling.BOX))


def find(
    sources: Sequence[Picture],
    outputs: Sequence[Picture | None],
    starts: Sequence[int] = (0,),
    length: int | None = None,
) -> NameShift | None:
    pictures = Pictures(sources, outputs)
    blocks = [Block(pictures.items[s : None if length is None else s + length]) for s in starts]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "read_thumbnail", pictures.read)
        return find_shift(blocks, pictures)  # type: ignore[arg-type]


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
    assert found is not None
    assert (found.what, found.step, found.own, found.extent) == ("content", step, 0, "")
    assert found.fitting >= 0.7 * count
    assert find(sources, edit(sources)) is None


@pytest.mark.parametrize("start", [3, 31, 48])
def test_where_an_output_was_left_out_the_rest_is_shifted(start: int) -> None:
    found = find(SCENES, shift(edit(SCENES), 1, start))
    assert found is not None
    assert (found.step, found.own) == (1, 0)
    first = int(found.extent.removeprefix(" from ").removesuffix(" on"))
    assert start <= first <= start + 2
    assert f"the names from {first} on seem to be shifted by one" in str(found)


def test_a_shift_that_ends_is_found() -> None:
    outputs = edit(SCENES)
    outputs[20:40] = outputs[21:41]
    found = find(SCENES, outputs)
    assert found is not None
    assert (found.step, found.own, found.extent) == (1, 0, " from 20 on")
    assert 12 <= found.fitting <= 20


def test_between_the_blocks_it_begins_where_the_next_is_looked_at() -> None:
    starts = 0, 20, 40
    found = find(SCENES, shift(edit(SCENES), 1, 17), starts, 12)
    assert found is not None
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


SILENT: dict[str, tuple[Sequence[Picture], Sequence[Picture | None]]] = {
    "generated without regard to the source": (SCENES, [draw(i + 500) for i in range(60)]),
    "another's sources in any order": (
        SCENES,
        [SCENES[i] for i in np.random.default_rng(3).permutation(60)],
    ),
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


@pytest.mark.parametrize("name", SILENT)
def test_where_pictures_tell_nothing_it_is_silent(name: str) -> None:
    assert find(*SILENT[name]) is None


def test_of_several_edits_of_a_source_the_last_tell() -> None:
    sources = in_threes()
    found = find(sources, shift(edit(sources), 1))
    assert found is not None
    assert found.step == 1


@pytest.mark.parametrize("count", range(MIN_ALIKE))
def test_a_few_tell_nothing(count: int) -> None:
    sources = SCENES[: count + 1]
    assert find(sources, shift(sources, 1)) is None


def make(folder: Path, count: int, outputs: Sequence[Picture | None]) -> RunSpec:
    """Items with sources of one size, and these outputs to them."""
    (folder / "ours").mkdir(parents=True)
    lines = []
    for index in range(count):
        Pil.fromarray(SCENES[index]).save(folder / f"{index}.png")
        lines.append({"id": str(index), "instruction": "x", "source": f"{index}.png"})
    save(folder, outputs)
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return RunSpec(
        benchmark="core",
        data=folder / "items.jsonl",
        outputs={"ours": folder / "ours"},
        dimensions=("core.psnr.source.whole",),
    )


def save(folder: Path, outputs: Sequence[Picture | None]) -> None:
    for index, one in enumerate(outputs):
        if one is not None:
            Pil.fromarray(one).save(folder / "ours" / f"{index}.png")


def test_every_door_refuses(tmp_path: Path) -> None:
    spec = make(tmp_path, 12, shift(edit(SCENES[:12]), -1))
    (problem,) = validate(ResolvedSpec(spec), Settings()).select("shifted")
    assert not problem.note
    with pytest.raises(InputError, match="shifted by one") as refused:
        editjudge.run(spec, out=tmp_path / "run")
    with pytest.raises(InputError) as foretold:
        preview_run(spec, tmp_path / "run", Settings())
    assert not (tmp_path / "run").exists(), "nothing is begun"
    assert str(foretold.value) == str(refused.value)
    assert problem.what.partition("\n")[0] in str(refused.value)
    what = r"of ours, \d+ outputs look like the source before their own, and 0 their own"
    assert refused.match(f"{what} .first: 1, like the source of 0.: the names seem to be")
    assert refused.match("--as-named")
    assert editjudge.run(spec, out=tmp_path / "run", as_named=True).status == "done"


def test_a_run_that_goes_on_looks_at_models_with_something_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = edit(SCENES[:12])
    spec = make(tmp_path, 12, outputs)
    assert editjudge.run(spec, out=tmp_path / "run").status == "done"
    read: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(module, "read_thumbnail", lambda path, side: read.append(path))
        editjudge.run(spec, out=tmp_path / "run")
    assert not read, "nothing is left to judge"
    save(tmp_path, shift(outputs, 1))
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
    found = read_thumbnail(tmp_path / f"large.{suffix}", 16)
    assert found is not None
    upright = large.rotate(180).resize((16, 16), Pil.Resampling.BOX)
    assert np.abs(found.astype(int) - np.asarray(upright)).max() <= 4


def test_what_is_no_picture_has_no_thumbnail(tmp_path: Path) -> None:
    (tmp_path / "odd.png").write_bytes(b"no picture")
    assert read_thumbnail(tmp_path / "odd.png", 16) is None
    assert read_thumbnail(tmp_path / "nowhere.png", 16) is None
