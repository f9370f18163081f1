"""Records have no ids: a list that lost one, or has them in another order, is not taken for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import editjudge
from editjudge import RunSpec
from editjudge.app.run import preview_run
from editjudge.app.spec import ResolvedSpec
from editjudge.app.validation import validate
from editjudge.base.config import Settings
from editjudge.base.errors import InputError
from editjudge.benchmarks.gie.dataset import GieData
from editjudge.benchmarks.gie.release import CONVERTED_FILE, SIDE, Release, convert
from editjudge.benchmarks.gie.taxonomy import TABLES
from editjudge.engine.events import NoteEvent, RunEvent

from .release import mask, picture, pixels, record, write_release

COUNT, REMOVED = 20, 15
SHORTER = f"{COUNT - 1} records instead of {COUNT}, the first that differs is record {REMOVED}"


def make_records(count: int = COUNT) -> list[dict[str, Any]]:
    """Records of which each has an image and a mask of its own, and all one instruction."""
    return [record("Color Change", mask(8 * i, 0, 8 * i + 40, 60), image=f"/{i}.jpg") for i in range(count)]


def remove(records: list[Any]) -> list[Any]:
    return records[:REMOVED] + records[REMOVED + 1 :]


def swap(records: list[Any]) -> list[Any]:
    return [*records[:3], records[4], records[3], *records[5:]]


def test_another_list_does_not_replace_a_converted_one(tmp_path: Path) -> None:
    out = tmp_path / "gie"
    convert(write_release(tmp_path / "data", make_records()), out)
    before = (out / CONVERTED_FILE).read_bytes()
    for change, what in ((remove, SHORTER), (swap, "the first that differs is record 3")):
        other = write_release(tmp_path / "data", change(make_records()))
        with pytest.raises(InputError, match=f"gie: holds another list: {what}; .* another --out"):
            convert(other, out)
        assert (out / CONVERTED_FILE).read_bytes() == before
    convert(write_release(tmp_path / "data", make_records()), out)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (remove, SHORTER),
        (swap, "the first that differs is record 3"),
        (lambda of: of[:-1], f"the first that differs is record {COUNT - 1}"),
    ],
)
def test_a_converted_list_that_was_changed_is_refused(
    tmp_path: Path, change: Callable[[list[Any]], list[Any]], what: str
) -> None:
    convert(write_release(tmp_path / "data", make_records()), tmp_path)
    file = tmp_path / CONVERTED_FILE
    document = json.loads(file.read_text())
    changed = {name: change(document[name]) for name in ("records", "masks")}
    file.write_text(json.dumps(document | changed))
    with pytest.raises(InputError, match=rf"not as it was converted: .*{what}; convert gie_bench"):
        GieData(tmp_path)


def test_a_changed_mask_is_a_changed_record(tmp_path: Path) -> None:
    convert(write_release(tmp_path / "data", make_records()), tmp_path)
    file = tmp_path / CONVERTED_FILE
    document = json.loads(file.read_text())
    document["masks"][7] = document["masks"][8]
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match="the first that differs is record 7;"):
        GieData(tmp_path)


def make_release(count: int) -> Release:
    """The released list as far as its masks tell positions."""
    places = TABLES["release"]["uniform_masks"]
    some = np.packbits(mask(0, 0, 50, 50), axis=1)
    none = np.zeros((SIDE, SIDE // 8), np.uint8)
    masks = [none if i in places else some for i in range(count)]
    return Release(Path("gie"), [{}] * count, masks)


def test_length_and_order_are_compared_with_the_release() -> None:
    full = make_release(1080)
    assert full.describe_difference() == ""
    masks = list(full.masks)
    shorter = Release(full.folder, full.records[:-1], masks[:400] + masks[401:])
    assert shorter.describe_difference().startswith("1,079 records, 1,080 were released: outputs")
    moved = Release(full.folder, full.records, [*masks[:400], *masks[401:], masks[400]])
    assert moved.describe_difference().startswith(
        "record 407 has a mask of one colour, as in the release only 375, 408, 497"
    )
    masks[408] = masks[0]
    assert Release(full.folder, full.records, masks).describe_difference() == "", "it was fixed"


def make_run(folder: Path, records: list[Any], outputs: range, first: int = 0) -> RunSpec:
    """The list, and outputs that were made of the whole one, all of one size."""
    whole = make_records()
    for i in range(COUNT):
        picture(folder / "data" / f"{i}.jpg", pixels(i))
    for i in outputs:
        edited = pixels(i).copy()
        edited[:60, :60] = 255
        picture(folder / "ours" / f"{i + first}.png", edited)
    assert len(records) <= len(whole)
    return RunSpec(
        benchmark="gie",
        data=write_release(folder / "data", records),
        outputs={"ours": folder / "ours"},
        dimensions=("gie.ssim",),
    )


@pytest.mark.parametrize("first", [0, 1])
def test_outputs_by_another_list_are_refused(tmp_path: Path, first: int) -> None:
    """They were made of the whole list, or are numbered from 1."""
    records = make_records() if first else remove(make_records())
    spec = make_run(tmp_path, records, range(COUNT), first)
    last, end = COUNT - 1 + first, len(records) - 1
    what = f"one is named {last}, and the last record of the data is {end}: they were made of"
    for go in (editjudge.run, lambda spec, out: preview_run(spec, out, Settings())):
        with pytest.raises(InputError, match=f"of ours, {what} .*--as-named"):
            go(spec, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (problem,) = validate(ResolvedSpec(spec)).select("shifted")
    assert what in problem.what
    events: list[RunEvent] = []
    options: Any = {"as_named": True, "progress": events.append}
    assert editjudge.run(spec, out=tmp_path / "run", **options).status == "done"
    notes = [event.text for event in events if isinstance(event, NoteEvent)]
    assert any(f"data: {len(records)} records, 1,080 were released" in note for note in notes)


def test_where_the_last_output_lacks_the_pictures_tell(tmp_path: Path) -> None:
    """A record was removed early, and no output is named beyond the end."""
    spec = make_run(tmp_path, make_records()[:2] + make_records()[3:], range(COUNT - 1))
    with pytest.raises(InputError, match="look like the source before .* from 3 on seem to be"):
        editjudge.run(spec, out=tmp_path / "run")


def test_outputs_by_the_same_list_are_judged(tmp_path: Path) -> None:
    spec = make_run(tmp_path, make_records(), range(COUNT))
    assert editjudge.run(spec, out=tmp_path / "run").status == "done"
