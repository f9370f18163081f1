"""What `validate` finds in pictures: masks that do not fit, sizes, what is only noted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.app.validation import Validation, validate
from editjudge.base.config import Settings
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.registry import load_dimensions
from editjudge.engine.run_inputs import RunInputs


def picture(path: Path, size: tuple[int, int] = (24, 16), mode: str = "RGB") -> None:
    path.parent.mkdir(exist_ok=True)
    Pil.new(mode, size, "white").save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture(tmp_path / "source.png")
    for name, size in (("fits", (24, 16)), ("half", (12, 8)), ("square", (16, 16))):
        picture(tmp_path / f"{name}.png", size, "L")
    Pil.fromarray(np.zeros((16, 24), np.uint8)).save(tmp_path / "black.png")
    part = np.zeros((16, 24), np.uint8)
    part[:8] = 255
    Pil.fromarray(part).save(tmp_path / "part.png")
    return tmp_path


def found(folder: Path, *lines: dict[str, Any]) -> Validation:
    return validate(order_of(folder, *lines), Settings())


def order_of(folder: Path, *lines: dict[str, Any]) -> RunInputs:
    usual = {"instruction": "x", "source": "source.png"}
    texts = [json.dumps({"id": str(i), **usual, **line}) for i, line in enumerate(lines)]
    (folder / "items.jsonl").write_text("\n".join(texts))
    for i, _ in enumerate(lines):
        if not (folder / "ours" / f"{i}.png").exists():
            picture(folder / "ours" / f"{i}.png")
    known = load_dimensions()
    chosen = (known["core.psnr.source.outside"],)
    return RunInputs(ItemsFile(folder / "items.jsonl"), {"ours": folder / "ours"}, chosen, known)


def told(validation: Validation) -> list[tuple[str, str, str, bool]]:
    return [(one.kind, one.where, one.what, one.note) for one in validation.problems]


def test_masks_that_fit_are_well(folder: Path) -> None:
    validation = found(folder, {"mask": "part.png"}, {"mask": "part.png"})
    assert told(validation) == []
    assert validation.estimate is not None


def test_what_is_lost_for_want_of_a_field_is_noted(folder: Path) -> None:
    validation = found(folder, {"mask": "part.png"}, {"mask": None}, {})
    lost = "2 items have no mask, and so no score on core.psnr.source.outside (first: 1)"
    assert told(validation) == [("field", "data", lost, True)]
    assert not validation.wrong
    assert validation.estimate is not None


def test_data_that_nothing_can_be_asked_is_wrong(folder: Path) -> None:
    validation = found(folder, {}, {})
    nothing = "core.psnr.source.outside: applies to no item (needs a mask)"
    assert told(validation)[-1] == ("field", "data", nothing, False)
    assert validation.wrong


@pytest.mark.parametrize(
    ("mask", "kind"), [("black.png", "without a white pixel"), ("half.png", "all white")]
)
def test_masks_that_select_nothing_or_everything_are_noted(
    folder: Path, mask: str, kind: str
) -> None:
    validation = found(folder, {"mask": "part.png"}, {"mask": mask}, {"mask": mask})
    assert told(validation)[0] == ("mask", "data", f"2 masks are {kind} (first: 1)", True)


def test_masks_of_another_size_are_noted(folder: Path) -> None:
    validation = found(folder, {"mask": "part.png"}, {"mask": "half.png"})
    fit = (
        "1 mask has another size than the image, to which it is resized (first: 1: 12x8 for 24x16)"
    )
    assert ("mask", "data", fit, True) in told(validation)
    assert not validation.wrong


def test_a_mask_of_another_shape_is_wrong(folder: Path) -> None:
    validation = found(folder, {"mask": "square.png"})
    ((kind, where, what, note),) = told(validation)
    assert (kind, where, note) == ("mask", "data", False)
    assert "mask of 16x16 for an image of 24x16" in what
    assert validation.wrong


def test_an_unreadable_picture_is_told_once(folder: Path) -> None:
    (folder / "source.png").write_bytes(b"no picture")
    validation = found(folder, {"mask": "part.png"}, {"mask": "part.png"})
    assert [one.kind for one in validation.problems] == ["unreadable", "flat"]


def test_outputs_of_another_size_are_noted(folder: Path) -> None:
    for item in ("0", "2"):
        picture(folder / "ours" / f"{item}.png", (48, 32))
    masked = {"mask": "part.png"}
    validation = found(folder, masked, masked, masked)
    what = "2 outputs have another size than their source (first: 0: 48x32 for a source of 24x16)"
    assert told(validation) == [("size", "ours", what, True)]
    assert not validation.wrong


def test_outputs_of_one_colour_are_noted(folder: Path) -> None:
    shades = np.linspace(0, 255, 24 * 16, dtype=np.uint8).reshape(16, 24)
    (folder / "ours").mkdir()
    Pil.fromarray(shades).save(folder / "ours" / "0.png")
    Pil.new("RGB", (24, 16), "red").save(folder / "ours" / "1.png")
    Pil.fromarray(shades).save(folder / "source.png")
    masked = {"mask": "part.png"}
    validation = found(folder, masked, masked)
    assert told(validation) == [("flat", "ours", "1 output has a single colour (first: 1)", True)]
    assert not validation.wrong


def test_outputs_of_no_item_are_wrong_where_all_items_can_be_used(folder: Path) -> None:
    order = order_of(folder, {"mask": "part.png"})
    for name in ("7", "8"):
        picture(folder / "ours" / f"{name}.png")
    extra = [("extra", "ours", f"{name}.png: no item", False) for name in ("7", "8")]
    assert told(validate(order, Settings())) == extra
    with (folder / "items.jsonl").open("a") as lines:
        lines.write("\nno item at all")
    what = "2 outputs belong to no item that can be used (first: 7.png)"
    assert ("extra", "ours", what, True) in told(validate(order, Settings()))


def test_models_that_share_a_folder_are_noted(folder: Path) -> None:
    order = replace(
        order_of(folder, {"mask": "part.png"}), outputs={"a": folder / "ours", "b": folder / "ours"}
    )
    assert told(validate(order, Settings())) == [
        ("folder", "b", f"the same folder as a's: {folder / 'ours'}", True)
    ]


def fill(folder: Path, name: str, share: float) -> None:
    """A mask of which this share is white."""
    pixels = np.zeros((16, 24), np.uint8)
    pixels[: round(16 * share)] = 255
    Pil.fromarray(pixels).save(folder / name)


def test_the_median_share_of_masks_shows_inverted_ones(folder: Path) -> None:
    for name, share in (("little.png", 0.125), ("quarter.png", 0.25), ("much.png", 0.875)):
        fill(folder, name, share)
    usual = found(folder, *({"mask": f"{name}.png"} for name in ("little", "quarter", "much")), {})
    assert usual.mask_share == 0.25
    assert not usual.select("mask")
    inverted = {"mask": "much.png"}
    validation = found(folder, inverted, inverted, {"mask": "quarter.png"})
    assert validation.mask_share == 0.875
    (note,) = validation.select("mask")
    assert note.note
    assert "most of the image may change (median 88 %): if white shows what is to be" in note.what
    kept = inverted | {"mask_shows": "kept"}
    validation = found(folder, kept, kept)
    assert (validation.mask_share, validation.select("mask")) == (0.125, [])


def test_without_masks_there_is_no_share(folder: Path) -> None:
    assert found(folder, {}, {}).mask_share is None


@pytest.mark.parametrize("white", [1, 255, 1023])
def test_a_mask_of_16_bits_has_no_scale(folder: Path, white: int) -> None:
    part = np.zeros((16, 24), np.uint16)
    part[:8] = white
    Pil.fromarray(part).save(folder / "deep.png")
    validation = found(folder, {"mask": "deep.png"})
    assert told(validation) == []
    assert validation.mask_share == 0.5
