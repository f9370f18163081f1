"""Pictures of 10 bits in files of 16: the same by every door, and never a number of black ones."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import editjudge
from editjudge import Edit, RunSpec, RunView
from editjudge.app.spec import ResolvedSpec
from editjudge.app.validation import validate
from editjudge.base.errors import ImageError
from editjudge.base.images import decode
from editjudge_services.gateway.schemas import EncodedImage, InvalidRequest

from ...small_data import PSNR, make_spec, save_picture, write_items

WHY = "16 bits per channel with values up to 1,023 only, which read as nearly black"


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def make_png(seed: int, step: int = 1) -> bytes:
    """A PNG of noise of 10 bits, saved as it is in 16, or by steps."""
    levels: NDArray[np.uint16] = np.random.default_rng(seed).integers(0, 1024, (40, 48, 3), "<u2")
    levels[0, 0] = 1023
    levels *= step
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in levels)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 48, 40, 16, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + b"".join((head, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")))


def spec_of(folder: Path, source: bytes, output: bytes) -> RunSpec:
    """Two items, of which the first has these pictures."""
    plain = np.random.default_rng(3).integers(0, 256, (40, 48, 3), np.uint8)
    for name, picture in (("a", source), ("b", plain), ("ours/a", output), ("ours/b", plain)):
        save_picture(folder / f"{name}.png", picture)
    write_items(folder, ({"id": name, "source": f"{name}.png"} for name in "ab"))
    return make_spec(folder)


def test_every_door_refuses_it_with_its_name_and_the_fix(tmp_path: Path) -> None:
    data, path = make_png(1), tmp_path / "edit.png"
    path.write_bytes(data)
    with pytest.raises(ImageError, match=f"^{path}: {WHY}.*rescale"):
        Edit.load(source=path, edited=path, instruction="x")
    with pytest.raises(ValueError, match=f"^{WHY}"):
        decode(data)  # as the services' runtime does
    with pytest.raises(InvalidRequest, match=f"edit.edited: {WHY}") as caught:
        EncodedImage(data=data, name="edit.png").decode("edit.edited", 0)
    assert caught.value.field == "edit.edited"


@pytest.mark.parametrize("at", ["output", "source"])
def test_a_run_has_no_number_of_it(at: str, tmp_path: Path) -> None:
    scaled, silent = make_png(1, 64), make_png(2)
    spec = spec_of(tmp_path, *((scaled, silent) if at == "output" else (silent, scaled)))
    where, path = ("ours", "ours/a.png") if at == "output" else ("data", "a.png")
    (problem,) = validate(ResolvedSpec(spec)).select("unreadable")
    assert problem.where == where
    assert problem.what.startswith(f"{tmp_path / path}: {WHY}")
    editjudge.run(spec, out=tmp_path / "run")
    with RunView(tmp_path / "run") as view:
        cell = view.results().models["ours"][PSNR]
        (edit,) = (one for one in view.edits() if one.item == "a")
        reasons = [str(edit.missing)] + [str(one.verdict) for one in view.verdicts(item="a")]
    missing = "missing_output" if at == "output" else "failed"
    assert (cell.value, cell.counts) == (100, {"scored": 1, missing: 1})
    assert any(WHY in reason for reason in reasons)
