"""The reader of Omni IIE Bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import InputError
from editjudge.benchmarks.omni_iie.dataset import OmniData
from editjudge.benchmarks.omni_iie.taxonomy import LONG, MULTI, SINGLE

from ..flaws import list_flaws
from .release import AUTHORS, mask, record, write_release

QA = [{"question": "Is it red?", "correct_answer": "Yes"}]
SINGLES = [
    record("coco2017val", "0001", "low"),
    record("coco2017val", "0001", "high", qa_pairs=QA),
    record("sharegpt4v(llava)", "0001", "low", qa_pairs=[], qa_pairs_error="no reply"),
]
ROUNDS = [
    record("gqa", "0001", "3", scale="high"),
    record("gqa", "0001", "1", scale="low"),
    record("gqa", "0001", "7", scale="high"),
    {**record("gqa", "0002", "2"), "level": 2},
]


def read(folder: Path, single: Any = SINGLES, multi: Any = ROUNDS) -> OmniData:
    return OmniData(write_release(folder, single, multi), roots={AUTHORS: str(folder / "files")})


def problems(data: OmniData) -> InputError:
    with pytest.raises(InputError) as raised:
        list(data.check_items())
    return raised.value


def test_items_are_keyed_by_folder_sample_and_level(tmp_path: Path) -> None:
    data = read(tmp_path)
    items = {ref.id: data.load(ref) for ref in data.check_items()}
    assert list(items) == [
        "coco2017val/0001_low",
        "coco2017val/0001_high",
        "sharegpt4v/0001_low",
        "gqa/0001_3",
        "gqa/0001_1",
        "gqa/0001_7",
        "gqa/0002_2",
    ]
    high = items["coco2017val/0001_high"]
    assert high.instruction == "do coco2017val/0001_high"
    assert high.questions == ({"question": "Is it red?", "answer": "Yes"},)
    assert items["sharegpt4v/0001_low"].questions == ()
    assert (high.task, items["gqa/0001_7"].task) == ("high", "round_7")
    assert high.target is not None
    assert high.mask is not None
    assert Path(high.target.name) == tmp_path / "files/synthesized_images/coco2017val/0001_high.png"
    assert high.mask.region.mean() == 0.25
    outlines = {ref.id: data.outline(ref) for ref in data.items()}
    for name, item in items.items():
        assert (outlines[name].extra, outlines[name].questions) == (item.extra, item.questions)
    why = data.outputs(tmp_path).why_not("gqa/0001_1")
    suffixes = ".jpg, .jpeg, .webp, .bmp, .tif, .tiff, .gif, .ppm"
    assert why.reason.endswith(f"gqa/0001_1.png (or {suffixes})")


def test_switches_of_scale_where_it_is_known(tmp_path: Path) -> None:
    data = read(tmp_path)
    found = {ref.id: data.outline(ref).extra["switch"] for ref in data.items()}
    assert found == {
        "coco2017val/0001_low": "",
        "coco2017val/0001_high": "",
        "sharegpt4v/0001_low": "",
        "gqa/0001_1": "",
        "gqa/0001_3": "low_to_high",
        "gqa/0001_7": "same_scale",
        "gqa/0002_2": "",
    }


@pytest.mark.parametrize("name", [SINGLE, MULTI, "mine_QA.json"])
def test_one_list_is_enough(tmp_path: Path, name: str) -> None:
    folder = write_release(tmp_path, SINGLES, ROUNDS)
    roots = {AUTHORS: str(folder / "files")}
    for other in {SINGLE, MULTI} - {name}:
        text = (folder / other).read_text()
        (folder / other).unlink()
    if not (folder / name).is_file():
        (folder / name).write_text(text)
    data = OmniData(folder / name, roots=roots)
    assert len(list(data.check_items())) in {3, 4}
    if name in {SINGLE, MULTI}:
        assert OmniData(folder, roots=roots).digest == data.digest
        assert "were released" in data.notes()[0]
    else:
        assert data.notes() == ()


def test_the_long_list_of_dialogues_is_found(tmp_path: Path) -> None:
    folder = write_release(tmp_path, SINGLES, ROUNDS)
    roots = {AUTHORS: str(folder / "files")}
    both = OmniData(folder, roots=roots)
    ids = [ref.id for ref in both.check_items()]
    (folder / LONG).write_text((folder / MULTI).read_text())
    again = OmniData(folder, roots=roots)
    assert again.digest == both.digest
    assert again.notes()[-1].startswith(f"{LONG} is not read beside {MULTI}")
    (folder / MULTI).unlink()
    alone = OmniData(folder, roots=roots)
    assert [ref.id for ref in alone.check_items()] == ids
    assert any(f"{LONG}: " in note and "1,226 were released" in note for note in alone.notes())


def test_roots_fit_whole_names_and_the_longest_counts(tmp_path: Path) -> None:
    folder = write_release(tmp_path, SINGLES[:1], [])
    elsewhere = tmp_path / "elsewhere"
    (folder / "files/masks").rename(elsewhere)
    data = OmniData(
        folder,
        roots={AUTHORS: str(folder / "files"), f"{AUTHORS}/masks": str(elsewhere), f"{AUTHORS}/synth": "/nowhere"},
    )
    (ref,) = data.check_items()
    assert data.image_paths(ref)["mask"] == (elsewhere / "coco2017val/0001_low_target.png",)
    assert data.roots[AUTHORS] == str(folder / "files")


def test_paths_without_a_root_lie_beside_the_list(tmp_path: Path) -> None:
    write_release(tmp_path, SINGLES[:1], [])
    released_list = tmp_path / SINGLE
    released_list.write_text(released_list.read_text().replace(f"{AUTHORS}/", "files/"))
    assert len(list(OmniData(tmp_path).check_items())) == 1


def test_files_that_are_not_there(tmp_path: Path) -> None:
    data = read(tmp_path)
    gone = tmp_path / "files/masks/gqa/0001_1_target.png"
    gone.unlink()
    assert list_flaws(data) == f"gqa/0001_1: mask: no such file: {gone}"
    refs = list(data.check_items())
    assert len(refs) == 7
    assert "--root OLD=NEW" in data.fix(refs[:1])
    item = {ref.id: data.load(ref) for ref in refs}["gqa/0001_1"]
    assert item.mask is None
    assert item.target is not None
    without = problems(OmniData(tmp_path))
    assert without.reason.startswith("none of 7 items has a source")
    assert "--root OLD=NEW" in str(without)
    assert f"source: no such file: {AUTHORS}/" in without.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"level": "medium"}, "level: must match pattern"),
        ({"level": "0"}, "level: must match pattern"),
        ({"sample_id": "../x"}, "sample_id: an id names a file"),
        ({"modification_text": None}, "modification_text: is missing"),
        ({"modified_image_path": "x.png"}, "modified_image_path: x.png is in no folder"),
        ({"modified_image_path": "../x.png"}, "the id '../8_1': an id names a file"),
        ({"modified_image_path": "a\\b/x.png"}, "an id names a file"),
        ({"modified_image_path": "a\ab/x.png"}, "255 printable characters"),
        ({"modification_text": " \n"}, "modification_text: is blank"),
        ({"qa_pair": QA}, "qa_pair: no such field; did you mean qa_pairs?"),
        (
            {"modification_text": None, "modification_texts": "x"},
            "modification_texts: no such field; did you mean modification_text?",
        ),
        ({"qa_pairs": [{"question": "  ", "correct_answer": "Yes"}]}, "qa_pairs: no pair has"),
        ({"qa_pairs": [{"question": "Is it?", "answer": "Yes"}]}, "qa_pairs: no pair has"),
        ({"qa_pairs": [{"question": 3, "correct_answer": "Yes"}]}, "0.question: must be text"),
        ({"scale": "medium"}, "scale: must be 'low' or 'high'"),
        ({}, "entry 2: the id 'gqa/7_1' is already used by final_dataset.json, entry 1"),
    ],
)
def test_entries_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    right = record("gqa", "7", "1")
    other = record("gqa", "8", "1") if change else right
    wrong = {k: v for k, v in {**other, **change}.items() if v is not None}
    data = read(tmp_path, [right, wrong], [record("coco2017val", "9", "1")])
    (line,) = list_flaws(data).splitlines()
    assert said in line
    there = [ref.id for ref in data.check_items()]
    assert "coco2017val/9_1" in there, "the others are judged"


def test_a_blank_pair_is_skipped_as_in_the_released_scorer(tmp_path: Path) -> None:
    blank = [
        {"question": "Is it?", "correct_answer": " "},
        {"question": "Is it?", "correct_answer": None},
        {"question": "", "correct_answer": "Yes"},
    ]
    data = read(tmp_path, [record("gqa", "7", "1", qa_pairs=[*QA, *blank])], [])
    (ref,) = data.check_items()
    assert data.load(ref).questions == ({"question": "Is it red?", "answer": "Yes"},)
    assert list_flaws(data) == ""
    assert any("without a question or an answer" in note for note in data.notes())


@pytest.mark.parametrize(
    "more",
    [
        {"caption": "x", "total_rounds": 3},
        # Near a field that is there, or that is not used.
        {"modification_type": "colour", "modification_text_zh": "x", "levels": ["low"]},
        {"original_mask_path": "x", "target_mask_path_old": "x", "modified_image_path_512": "x"},
        {"source_mask_path": ["x", None], "entities": [{"source": "a"}]},
        {"qa_pairs": QA, "qa_pairs2": []},
    ],
)
def test_fields_of_others_are_left_aside(tmp_path: Path, more: dict[str, Any]) -> None:
    one = record("gqa", "7", "1")
    data = read(tmp_path, [one], [])
    (tmp_path / SINGLE).write_text(json.dumps([{**one, **more}]))
    assert len(list(data.check_items())) == 1


def test_an_unused_field_may_be_misspelt(tmp_path: Path) -> None:
    one = record("gqa", "7", "1")
    one["source_masks_path"] = one.pop("source_mask_path")
    one["entitys"] = one.pop("entities")
    assert len(list(read(tmp_path, [one], []).check_items())) == 1


@pytest.mark.parametrize(("given", "due"), [(True, "True"), (2, "2"), (0.5, "0.5"), ("é", "é")])
def test_answers_are_texts_whatever_json_they_are(tmp_path: Path, given: Any, due: str) -> None:
    pair = {"question": "Is it?", "correct_answer": given, "type": "colour"}
    data = read(tmp_path, [record("gqa", "7", "1", qa_pairs=[pair])], [])
    (ref,) = data.check_items()
    assert data.outline(ref).questions == ({"question": "Is it?", "answer": due},)


def test_what_is_beyond_the_paper_is_noted(tmp_path: Path) -> None:
    rounds = [record("gqa", "1", level) for level in ("16", "17", "18")]
    pairs = [record("gqa", "2", "1", qa_pairs=QA * count) for count in (3, 4)]
    pairs[1]["sample_id"] = "3"
    late, many = read(tmp_path, pairs, rounds).notes()[2:]
    assert late.startswith("2 items: beyond round 16")
    assert late.endswith("no column of its round (gqa/1_17, gqa/1_18)")
    assert many.startswith("1 item: more than 3 pairs")
    assert many.endswith("(gqa/3_1)")


@pytest.mark.parametrize(("text", "said"), [("{", "cannot be read"), ("{}", "not a list"), ("[5]", "is no object")])
def test_what_is_no_list_of_records(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / SINGLE).write_text(text)
    assert said in problems(OmniData(tmp_path)).reason


def test_no_list_at_all(tmp_path: Path) -> None:
    (tmp_path / SINGLE).write_text("[]")
    assert problems(OmniData(tmp_path)).reason == "no items"
    (tmp_path / SINGLE).unlink()
    with pytest.raises(InputError, match=r"no final_dataset\.json, no final_multi.* and no long_multi"):
        OmniData(tmp_path)


def test_a_mask_in_colour_is_refused(tmp_path: Path) -> None:
    data = read(tmp_path, SINGLES[:1], [])
    (ref,) = data.check_items()
    (source,), (where,) = (data.image_paths(ref)[field] for field in ("source", "mask"))
    where.write_bytes(source.read_bytes())
    assert "mask in colour" in data.load(ref).flaws["mask"].reason
    mask(where, 0.0)
    loaded = data.load(ref).mask
    assert loaded is not None
    assert not loaded.region.any()


def test_a_mask_has_its_targets_aspect_ratio(tmp_path: Path) -> None:
    data = read(tmp_path, SINGLES[:1], [])
    (ref,) = data.check_items()
    (where,) = data.image_paths(ref)["mask"]
    mask(where, 0.25, (24, 20))
    assert data.load(ref).flaws == {}
    mask(where, 0.25, (200, 20))
    assert "mask of 200x20 for an image of 48x40" in data.load(ref).flaws["mask"].reason
