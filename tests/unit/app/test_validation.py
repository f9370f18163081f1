"""What `validate` finds in pictures: masks that do not fit, sizes, what is only noted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.app.validation import Validation, validate
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.registry import load_dimensions
from editjudge.engine.run_inputs import RunInputs

from ...small_data import ITEMS, save_picture, write_items

SIZE = (24, 16)
MASKED = {"mask": "part.png"}


def mask(share: float, dtype: Any = np.uint8, white: int = 255) -> Any:
    """Rows of white above black."""
    pixels = np.zeros((16, 24), dtype)
    pixels[: round(16 * share)] = white
    return pixels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_picture(tmp_path / "s.png", SIZE)
    for name, size in (("half", (12, 8)), ("square", (16, 16))):
        Pil.new("L", size, "white").save(tmp_path / f"{name}.png")
    shares = {"black": 0.0, "little": 0.125, "quarter": 0.25, "part": 0.5, "much": 0.875}
    for name, share in shares.items():
        save_picture(tmp_path / f"{name}.png", mask(share))
    return tmp_path


def validate_lines(folder: Path, *lines: dict[str, Any]) -> Validation:
    return validate(order_of(folder, *lines))


def order_of(folder: Path, *lines: dict[str, Any]) -> RunInputs:
    write_items(folder, lines)
    for i, _ in enumerate(lines):
        if not (folder / "ours" / f"{i}.png").exists():
            save_picture(folder / "ours" / f"{i}.png", SIZE)
    known = load_dimensions()
    chosen = (known["core.psnr.source.outside"],)
    return RunInputs(ItemsFile(folder / ITEMS), {"ours": folder / "ours"}, chosen, known)


def list_problems(validation: Validation) -> list[tuple[str, str, str, bool]]:
    return [(one.kind, one.where, one.what, one.note) for one in validation.problems]


NO_MASK = "2 items have no mask, and so no score on core.psnr.source.outside (first: 1)"
FIT = "1 mask has another size than the image, to which it is resized (first: 2: 12x8 for 24x16)"


@pytest.mark.parametrize(
    ("masks", "notes"),
    [
        (("part.png", "part.png"), []),
        (("part.png", None, None), [("field", NO_MASK)]),
        (("part.png", "black.png", "black.png"), [("mask", "2 masks are without a white pixel (first: 1)")]),
        (("part.png", "part.png", "half.png"), [("mask", "1 mask is all white (first: 2)"), ("mask", FIT)]),
    ],
)
def test_what_costs_no_more_than_a_score_is_noted(
    folder: Path, masks: tuple[str | None, ...], notes: list[tuple[str, str]]
) -> None:
    validation = validate_lines(folder, *({"mask": mask} for mask in masks))
    assert list_problems(validation) == [(kind, "data", what, True) for kind, what in notes]
    assert not validation.wrong


def test_data_that_nothing_can_be_asked_is_wrong(folder: Path) -> None:
    validation = validate_lines(folder, {}, {})
    nothing = "core.psnr.source.outside: applies to no item (needs a mask)"
    assert list_problems(validation)[-1] == ("field", "data", nothing, False)
    assert validation.wrong
    assert validation.mask_share is None


def gie_data(folder: Path, *fields: dict[str, Any], released: bool = False) -> Validation:
    """Validate items of GIE-Bench, each with an output."""
    lines = [{"image": "/s.png", **each} if released else {"source": "s.png"} | each for each in fields]
    if released:
        (folder / "gie_bench.json").write_text(json.dumps(lines))
    else:
        write_items(folder, lines)
    for i, _ in enumerate(lines):
        save_picture(folder / "ours" / f"{i}.png", SIZE)
    spec = RunSpec(benchmark="gie", data=folder, outputs={"ours": folder / "ours"})
    return validate(ResolvedSpec(spec))


QUESTION = {"question": "Red?", "options": ["Yes", "No"], "answer": "Yes"}
COUNTED = {
    "own data without any of the fields": (
        False,
        ({}, {}),
        ("functional_correctness: 0 of 2 items have its fields (2 without questions)",),
    ),
    "a release by our names": (
        True,
        ({"instruction": "x", "mask": "part.png"}, {"instruction": "x"}),
        (
            "functional_correctness: 0 of 2 items have its fields (2 without multiple_choice_opti",
            "ssim: 0 of 2 items have its fields (2 without object_mask)",
        ),
    ),
}


@pytest.mark.parametrize("case", COUNTED)
def test_data_on_which_most_cannot_be_judged_is_wrong(folder: Path, case: str) -> None:
    released, lines, counts = COUNTED[case]
    validation = gie_data(folder, *lines, released=released)
    (problem,) = [one for one in validation.select("field") if not one.note]
    assert problem.what.startswith("6 of 8 dimensions can be judged on no item, for want of fields")
    assert "editjudge list dimensions gie.* names them" in problem.what
    for count in counts:
        assert f"\n  gie.{count}" in problem.what


def test_data_for_a_part_of_a_benchmark_is_right(folder: Path) -> None:
    for fields in ({"questions": [QUESTION]}, {"mask": "part.png"}):
        validation = gie_data(folder, fields, fields)
        assert not validation.wrong
        assert validation.select("field")


def test_a_mask_of_another_shape_is_wrong(folder: Path) -> None:
    validation = validate_lines(folder, {"mask": "square.png"})
    ((kind, where, what, note),) = list_problems(validation)
    assert (kind, where, note) == ("mask", "data", False)
    assert "mask of 16x16 for an image of 24x16" in what
    assert validation.wrong


def test_an_unreadable_picture_is_told_once(folder: Path) -> None:
    (folder / "s.png").write_bytes(b"no picture")
    validation = validate_lines(folder, MASKED, MASKED)
    assert [one.kind for one in validation.problems] == ["unreadable", "flat"]


def test_a_picture_named_as_another_kind_is_told_and_of_the_data_noted(folder: Path) -> None:
    (folder / "ours").mkdir()
    for name in ("s", "ours/0"):
        Pil.effect_noise(SIZE, 50).convert("RGB").save(folder / f"{name}.png", "JPEG")
    kinds = {(kind, where, note) for kind, where, _, note in list_problems(validate_lines(folder, MASKED))}
    assert kinds == {("misnamed", "data", True), ("misnamed", "ours", False)}


def test_outputs_of_another_size_are_noted(folder: Path) -> None:
    for item in ("0", "2"):
        save_picture(folder / "ours" / f"{item}.png", (48, 32))
    validation = validate_lines(folder, MASKED, MASKED, MASKED)
    what = "2 outputs have another size than their source (first: 0: 48x32 for a source of 24x16)"
    assert list_problems(validation) == [("size", "ours", what, True)]
    assert not validation.wrong


def test_outputs_of_one_colour_are_noted(folder: Path) -> None:
    shades = np.linspace(0, 255, 24 * 16, dtype=np.uint8).reshape(16, 24)
    save_picture(folder / "ours" / "0.png", shades)
    save_picture(folder / "s.png", shades)
    validation = validate_lines(folder, MASKED, MASKED)
    assert list_problems(validation) == [("flat", "ours", "1 output has a single colour (first: 1)", True)]
    assert not validation.wrong


def test_outputs_of_no_item_are_wrong_where_all_items_can_be_used(folder: Path) -> None:
    order = order_of(folder, MASKED)
    for name in ("7", "8"):
        save_picture(folder / "ours" / f"{name}.png", SIZE)
    extra = [("extra", "ours", f"{name}.png: no item", False) for name in ("7", "8")]
    assert list_problems(validate(order)) == extra
    with (folder / ITEMS).open("a") as lines:
        lines.write("\nno item at all")
    what = "2 outputs belong to no item that can be used (first: 7.png)"
    assert ("extra", "ours", what, True) in list_problems(validate(order))


def test_models_that_share_a_folder_are_noted(folder: Path) -> None:
    ours = folder / "ours"
    order = replace(order_of(folder, MASKED), outputs={"a": ours, "b": ours})
    shared = ("folder", "b", f"the same folder as a's: {ours}", True)
    assert list_problems(validate(order)) == [shared]


def test_the_median_share_of_masks_shows_inverted_ones(folder: Path) -> None:
    usual = validate_lines(folder, *({"mask": f"{name}.png"} for name in ("little", "quarter", "much")), {})
    assert (usual.mask_share, usual.select("mask")) == (0.25, [])
    inverted = {"mask": "much.png"}
    validation = validate_lines(folder, inverted, inverted, {"mask": "quarter.png"})
    assert validation.mask_share == 0.875
    (note,) = validation.select("mask")
    assert note.note
    assert "most of the image may change (median 88 %): if white shows what is to be" in note.what
    kept = inverted | {"mask_shows": "kept"}
    validation = validate_lines(folder, kept, kept)
    assert (validation.mask_share, validation.select("mask")) == (0.125, [])


@pytest.mark.parametrize("white", [1, 255, 1023])
def test_a_mask_of_16_bits_has_no_scale(folder: Path, white: int) -> None:
    save_picture(folder / "deep.png", mask(0.5, np.uint16, white))
    validation = validate_lines(folder, {"mask": "deep.png"})
    assert (list_problems(validation), validation.mask_share) == ([], 0.5)
