"""Lines of any benchmark go through a preparation with all that they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.base.errors import ConfigError, InputError
from editjudge.benchmarks.registry import load_benchmarks
from editjudge.prepare.folder import ACCEPT_FILE, REJECT_FILE, Folder
from editjudge.prepare.items import DraftData, Entry
from editjudge.prepare.review import apply_decisions

from ...encoded_pictures import encode
from .folders import decide, lines, save, write_items

USUAL = {"instruction": "change it", "extra": {"mine": [1, 2.5, None]}}
LINES: dict[str, list[dict[str, Any]]] = {
    "core": [{"task": "Color Change", "target_text": "SALE"}],
    "i2i": [
        {"task": "local_editing", "dimensions": ["spatial_accuracy", "image_quality"]},
        {"task": "text_rendering", "target_text": "NEW"},
    ],
    "co_edit": [
        {"type": "text_editing"},
        {"type": "background_editing", "subject": True},
        {"type": "subject_customization", "mask_shows": "edited"},
        {"type": "subject_extract"},
    ],
}


QUARTER = np.zeros((8, 8), np.uint8)
QUARTER[:, :2] = 255
MASK = encode(QUARTER)


def data(folder: Path, lines: list[dict[str, Any]]) -> DraftData:
    given = [{"id": f"set/{n}"} | USUAL | one for n, one in enumerate(lines)]
    return DraftData(write_items(folder, given))


def write_masks(
    folder: Path, drafts: DraftData, shows: Any = "kept", phrases: tuple[str, ...] = ()
) -> tuple[Folder, list[str]]:
    """A preparation that made masks of the left quarter, and the ids."""
    out = Folder(folder)
    ids = [ref.id for ref in drafts.check_items()]
    with out.lock():
        record = out.begin(drafts, "masks")
        for name in ids:
            out.write_mask(name, MASK)
        entry = Entry("made", mask=MASK, mask_shows=shows, phrases=phrases)
        statuses = dict.fromkeys(ids, "made")
        out.write_record(record.model_copy(update={"statuses": statuses}))
        out.write_items(drafts, dict.fromkeys(ids, entry))
    return out, ids


@pytest.mark.parametrize("name", ["masks/one.png", "review.html", "accepted.jsonl"])
def test_a_folder_with_work_of_ones_own_is_not_taken(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "mine" / name
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    with pytest.raises(ConfigError, match="no preparation wrote it"):
        write_masks(tmp_path / "mine", data(tmp_path / "data", LINES["core"]))
    assert mine.read_bytes() == b"mine"


def apply(out: Folder, decision: str, ids: list[str]) -> None:
    decided = decide(out, DraftData(out.items), **dict.fromkeys(ids, decision))
    apply_decisions(out, save(out, decided))


@pytest.mark.parametrize("name", LINES)
def test_what_a_line_holds_is_kept_and_its_benchmark_reads_it(tmp_path: Path, name: str) -> None:
    drafts = data(tmp_path / "data", LINES[name])
    out, ids = write_masks(tmp_path / "out", drafts)
    given = lines(drafts.path)
    due = [one | {"source": "pictures/s.png", "mask": f"masks/{one['id']}.png", "mask_shows": "kept"} for one in given]
    assert lines(out.items) == due
    apply(out, "accept", ids)
    assert lines(out.path / ACCEPT_FILE) == due
    reads = load_benchmarks()[name].data(out.path / ACCEPT_FILE)
    refs = list(reads.check_items())
    assert [ref.id for ref in refs] == ids
    for ref in refs:
        mask = reads.load(ref).mask
        assert not mask.region[:, :2].any(), "the left quarter is what is kept"
        assert mask.region[:, 2:].all()

    apply(out, "reject", ids)
    sent_back = lines(out.path / REJECT_FILE)
    plain = [{k: v for k, v in one.items() if k != "mask_shows"} for one in given]
    assert sent_back == [one | {"source": "pictures/s.png"} for one in plain]


def test_the_subject_is_the_object_and_not_what_is_around_it(tmp_path: Path) -> None:
    drafts = data(tmp_path / "data", LINES["co_edit"])
    for shows, region in (("kept", "outside"), ("edited", "inside")):
        out, _ = write_masks(tmp_path / shows, drafts, shows)
        reads = load_benchmarks()["co_edit"].data(out.items)
        items = [reads.load(ref) for ref in reads.check_items()]
        found = [one.extra.get("subject_region") for one in items]
        assert found == [None, "outside", region, None]


def test_a_mask_that_is_read_the_other_way_must_be_seen_again(tmp_path: Path) -> None:
    drafts = data(tmp_path / "data", LINES["core"])
    kept, edited = (write_masks(tmp_path / shows, drafts, shows)[0] for shows in ("kept", "edited"))
    digests = {out.review_digest(ref.data) for out in (kept, edited) for ref in DraftData(out.items).items()}
    assert len(digests) == 2


def test_what_a_mask_shows_is_taken_away_with_it_alone(tmp_path: Path) -> None:
    """Where nothing was found there is no mask of ours, and what it says is the user's own."""
    drafts = data(tmp_path / "data", [{"type": "subject_extract", "mask_shows": "kept"}] * 2)
    out = Folder(tmp_path / "out")
    made, lost = (ref.id for ref in drafts.check_items())
    entries = {made: Entry("made", mask=MASK), lost: Entry("not_found", "nothing was found")}
    with out.lock():
        record = out.begin(drafts, "masks")
        out.write_mask(made, MASK)
        statuses = {name: one.status for name, one in entries.items()}
        out.write_record(record.model_copy(update={"statuses": statuses}))
        out.write_items(drafts, entries)
    apply(out, "reject", [made, lost])
    shows = {one["id"]: one.get("mask_shows") for one in lines(out.path / REJECT_FILE)}
    assert shows == {made: None, lost: "kept"}


def test_what_no_benchmark_knows_is_refused(tmp_path: Path) -> None:
    drafts = data(tmp_path / "data", [{"type": "text_editing"}, {"taget": "s.png"}])
    with pytest.raises(InputError) as raised:
        list(drafts.check_items())
    text = str(raised.value)
    assert "line 2: taget: no such field (there are id, instruction, " in text
    assert "line 1" not in text
    for name in ("dimensions", "type", "subject"):
        assert name in text
