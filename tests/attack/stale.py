"""What is exchanged between two sessions of a run: its numbers are those of a run made anew."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image as Pil

from editjudge.app.run import run
from editjudge.base.config import Settings
from editjudge.base.errors import EditjudgeError

from ..small_data import make_spec, write_items
from .judges import values
from .trials import Attack, Violation, dice

ITEMS = 4
_DIMENSIONS = (
    *("core.psnr.source.whole", "core.psnr.source.outside", "core.mse.target.inside"),
    *("core.psnr.target.whole", "core.ssim.source.whole"),
)
PARTS = ("ours", "source", "mask", "target")
Line = dict[str, Any]


class Data:
    """Items in the folder `data`, with pictures in folders by what they are."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self.rng = rng
        self.random = np.random.default_rng(rng.randrange(1 << 30))
        for part in PARTS:
            (folder / part).mkdir()
            for index in range(ITEMS):
                self.draw(folder / part / f"{index}.bmp")
        self.lines: list[Line] = [
            {"id": str(i), "instruction": f"edit {i}"} | {part: f"{part}/{i}.bmp" for part in PARTS[1:]}
            for i in range(ITEMS)
        ]
        self.write()

    def draw(self, file: Path) -> None:
        """A picture; all of a kind have as many bytes."""
        if file.parent.name.startswith("mask"):
            pixels = self.random.integers(0, 2, (24, 32), dtype=np.uint8) * np.uint8(255)
        else:
            pixels = self.random.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Pil.fromarray(pixels).save(file, "BMP")

    def write(self) -> None:
        write_items(self.folder, self.lines)

    def two(self, part: str) -> tuple[Path, Path]:
        a, b = self.rng.sample(range(ITEMS), 2)
        return self.folder / part / f"{a}.bmp", self.folder / part / f"{b}.bmp"

    def numbers(self, out: Path) -> dict[tuple[str, str], float]:
        spec = make_spec(self.folder, dimensions=_DIMENSIONS, data=self.folder)
        run(spec, out=out, settings=Settings(), as_named=True)
        items = {line["id"] for line in self.lines}
        return {key: value for key, value in values(out).items() if key[0] in items}


# Ways to exchange a picture; each is tried with every part.


def _keep_times(file: Path, act: Callable[[], object]) -> None:
    times = file.stat()
    act()
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _redraw(data: Data, part: str) -> None:
    data.draw(data.two(part)[0])


def _redraw_in_the_past(data: Data, part: str) -> None:
    file, _ = data.two(part)
    _keep_times(file, lambda: data.draw(file))


def _swap(data: Data, part: str) -> None:
    first, second = data.two(part)
    other = first.with_name("other")
    first.rename(other)
    second.rename(first)
    other.rename(second)


def _move_over(data: Data, part: str) -> None:
    first, _ = data.two(part)
    (data.folder / "spare.bmp").rename(first) if part != "mask" else _swap(data, part)


def _copy_with_times(data: Data, part: str) -> None:
    first, second = data.two(part)
    _keep_times(first, lambda: shutil.copy2(second, first))


def _link(data: Data, part: str) -> None:
    first, second = data.two(part)
    first.unlink()
    first.hardlink_to(second)


def _point_elsewhere(data: Data, part: str) -> None:
    first, second = data.two(part)
    first.unlink()
    first.symlink_to(second)


def _exchange_folder(data: Data, part: str) -> None:
    folder, older = data.folder / part, data.folder / f"{part}.older"
    folder.rename(folder.with_name(f"{part}.gone"))
    older.rename(folder)


def _point_folder_elsewhere(data: Data, part: str) -> None:
    folder = data.folder / part
    folder.rename(folder.with_name(f"{part}.gone"))
    folder.symlink_to(data.folder / f"{part}.older")


def _overwrite_end(data: Data, part: str) -> None:
    file, _ = data.two(part)
    with file.open("r+b") as out:
        out.seek(-200, os.SEEK_END)
        out.write(bytes(200) if part != "mask" else b"\xff" * 96)


def _touch(data: Data, part: str) -> None:
    os.utime(data.two(part)[0])


def _nothing(_: Data, __: str) -> None:
    pass


def _remove_and_write(data: Data, part: str) -> None:
    file, other = data.two(part)
    content = other.read_bytes()
    file.unlink()
    file.write_bytes(content)


PICTURES: dict[str, Callable[[Data, str], None]] = {
    each.__name__[1:].replace("_", " "): each
    for each in (
        *(_redraw, _redraw_in_the_past, _swap, _move_over, _copy_with_times, _link),
        *(_point_elsewhere, _exchange_folder, _point_folder_elsewhere, _overwrite_end, _touch),
        *(_nothing, _remove_and_write),
    )
}


# Ways to change the items.


def _line(change: Callable[[Data, Line, Line], object]) -> Callable[[Data], None]:
    def change_two(data: Data) -> None:
        change(data, *data.rng.sample(data.lines, 2))
        data.write()

    return change_two


def _exchange(name: str) -> Callable[[Data], None]:
    def change(_: Data, a: Line, b: Line) -> None:
        a[name], b[name] = b[name], a[name]

    return _line(change)


def _add_item(data: Data, first: Line, _: Line) -> None:
    for part in PARTS:
        data.draw(data.folder / part / "9.bmp")
    data.lines.insert(0, first | {"id": "9", "source": "source/9.bmp", "mask": "mask/9.bmp"})


ITEMS_CHANGED: dict[str, Callable[[Data], None]] = {
    "one word": _line(lambda _, a, b: a.update(instruction="another edit")),
    "sources": _exchange("source"),
    "masks": _exchange("mask"),
    "targets": _exchange("target"),
    "ids": _exchange("id"),
    "what a mask shows": _line(lambda _, a, b: a.update(mask_shows="kept")),
    "no target": _line(lambda _, a, b: a.pop("target")),
    "no mask": _line(lambda _, a, b: a.pop("mask")),
    "added": _line(_add_item),
    "taken away": _line(lambda data, a, b: data.lines.remove(a)),
    "in another order": _line(lambda data, a, b: data.lines.reverse()),
    "renamed": _line(lambda data, a, b: (a.update(id="8"), data.draw(data.folder / "ours/8.bmp"))),
}
CLOCKS = (0.0, 86_400.0, -86_400.0)
"""By which the first session's clock is wrong, in seconds."""


def modes() -> list[tuple[str, str, float]]:
    pictures = [(how, part, ahead) for how in PICTURES for part in PARTS for ahead in CLOCKS]
    return pictures + [(how, "", 0.0) for how in ITEMS_CHANGED]


def trial(seed: int, number: int) -> str:
    every = modes()
    how, part, ahead = every[number % len(every)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            return _try_change(Path(folder), dice("stale", seed, number), how, part, ahead)
        except Violation as error:
            raise Violation(f"{how} {part} {ahead or ''}: {error}") from None


def _try_change(folder: Path, rng: random.Random, how: str, part: str, ahead: float) -> str:
    os.environ["EDITJUDGE_STATE_DIR"] = str(folder / "state")
    (folder / "data").mkdir()
    data = Data(folder / "data", rng)
    data.draw(data.folder / "spare.bmp")
    for name in PARTS:
        (data.folder / f"{name}.older").mkdir()
        for index in range(ITEMS):
            data.draw(data.folder / f"{name}.older" / f"{index}.bmp")
    # Files that lie there for a while may be taken for what they were.
    settled = time.time() - 3600
    for file in data.folder.rglob("*.bmp"):
        os.utime(file, (settled, settled))
    now = time.time
    with mock.patch("time.time", side_effect=lambda: now() + ahead):
        before = data.numbers(folder / "run")
    if part:
        PICTURES[how](data, part)
    else:
        ITEMS_CHANGED[how](data)
    anew = data.numbers(folder / "anew")
    try:
        after = data.numbers(folder / "run")
    except EditjudgeError as error:
        raise Violation(f"refused: {str(error)[:200]}") from None
    if stale := sorted(key for key in anew.keys() | after.keys() if anew.get(key) != after.get(key)):
        key = stale[0]
        raise Violation(f"{len(stale)} are stale: {key} {after.get(key)} for {anew.get(key)}")
    return "the same" if after == before else "judged again"


STALE = Attack("stale", trial, full=2 * len(modes()), small=12, seconds=60, mib=512)
