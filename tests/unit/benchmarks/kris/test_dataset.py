"""The reader of KRIS-Bench, in both layouts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import InputError
from editjudge.benchmarks.kris.dataset import KrisData
from editjudge.benchmarks.kris.taxonomy import FOLDERS, REASONING_DIMENSIONS, TAXONOMY, TEMPORAL_TASKS, TESTS_KNOWLEDGE

from ..flaws import list_flaws
from .release import flatten, picture, record, write_release


def amend_record(path: Path, folder: str, number: str, **fields: Any) -> None:
    """Change a record; None takes a field away."""
    file = path / folder / "annotation.json"
    found = json.loads(file.read_text())
    found[number] = {k: v for k, v in {**found[number], **fields}.items() if v is not None}
    file.write_text(json.dumps(found))


def problems(data: KrisData) -> str:
    with pytest.raises(InputError) as raised:
        list(data.check_items())
    return raised.value.reason


def test_the_taxonomy_is_the_papers() -> None:
    assert sum(FOLDERS.values()) == 1267
    assert len(FOLDERS) == 20
    assert Counter(FOLDERS.values()) == {75: 9, 74: 1, 68: 1, 50: 9}
    assert len(REASONING_DIMENSIONS) == 22
    of = {d: sum(f.values()) for dimensions in TAXONOMY.values() for d, f in dimensions.items()}
    assert of == {
        "attribute_perception": 275,
        "spatial_perception": 100,
        "temporal_prediction": 74,
        "social_science": 125,
        "natural_science": 393,
        "logical_reasoning": 150,
        "instruction_decomposition": 150,
    }
    assert sum(d in TESTS_KNOWLEDGE for d in REASONING_DIMENSIONS.values()) == 10


def test_both_layouts_hold_the_same_items(tmp_path: Path) -> None:
    folders = KrisData(write_release(tmp_path / "a"))
    listed = KrisData(flatten(write_release(tmp_path / "b")))
    ours = {ref.id: folders.outline(ref) for ref in folders.check_items()}
    theirs = {ref.id: listed.outline(ref) for ref in listed.check_items()}
    assert set(ours) == {f"{folder}/1" for folder in FOLDERS}
    assert ours == theirs
    assert folders.digest != listed.digest


def test_frames_stand_in_the_order_of_time(tmp_path: Path) -> None:
    path = write_release(tmp_path, temporal_prediction=4)
    amend_record(path, "temporal_prediction", "2", ori_img=["2-4.jpg", "2-1.jpg", "2-3.jpg"])
    data = KrisData(path)
    items = [data.load(ref) for ref in data.check_items()]
    assert [item.task for item in items] == [
        "reverse_prediction",
        "intermediate_prediction",
        "intermediate_prediction",
        "forward_prediction",
    ]
    assert set(TEMPORAL_TASKS) == {item.task for item in items}
    assert [item.extra["position"] for item in items] == [1, 2, 3, 4]
    assert [Path(image.name).name for image in items[1].sources] == ["2-1.jpg", "2-3.jpg", "2-4.jpg"]
    assert items[1].target is not None


def test_odd_names_and_missing_fields(tmp_path: Path) -> None:
    path = write_release(tmp_path, anomaly_correction=1, color_change=1, multi__element_composition=1)
    picture(path / "color_change" / "a b (é).JPG", format="PNG")
    amend_record(path, "color_change", "1", ori_img="a b (é).JPG", gt_img=None, ins_cn="…")
    amend_record(path, "anomaly_correction", "1", explain_en=None)
    (path / "color_change" / ".DS_Store").write_bytes(b"x")
    data = KrisData(path)
    items = {ref.id: data.load(ref) for ref in data.check_items()}
    assert items["anomaly_correction/1"].hint is None
    assert items["color_change/1"].target is None
    source = items["color_change/1"].source
    assert source is not None
    assert "holds PNG" in source.notes[0].text
    assert len(items["multi-element_composition/1"].sources) == 2


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    path = write_release(tmp_path, biology=4, viewpoint_change=1, temporal_prediction=2, count_change=1)
    amend_record(path, "biology", "1", ins_en=None)
    amend_record(path, "biology", "2", explain="?")
    amend_record(path, "biology", "3", ori_img=[])
    amend_record(path, "viewpoint_change", "1", gt_img="")
    amend_record(path, "temporal_prediction", "1", gt_img="1-3.jpg")
    amend_record(path, "temporal_prediction", "2", ori_img=["2-1.jpg", "2-3.jpg"])
    (path / "biology" / "4.jpg").unlink()
    file = path / "count_change" / "annotation.json"
    file.write_text('{"1": ' + file.read_text()[6:-1] + ', "1": {"ori_img": "1.jpg", "ins_en": "x"}}')
    data = KrisData(path)
    said = list_flaws(data)
    assert len(said.splitlines()) == 7
    assert len(list(data.check_items())) == 7
    assert "biology/1: ins_en: is missing" in said
    assert "biology/3: ori_img" in said
    assert f"biology/4: source: no such file: {path / 'biology' / '4.jpg'}" in said
    assert "viewpoint_change/1: gt_img" in said
    assert "temporal_prediction/1: gt_img: 1-3.jpg is not frame 1" in said
    assert "temporal_prediction/2: ori_img must name three of the frames" in said
    assert "count_change/1: twice in the file" in said


@pytest.mark.parametrize("blank", ["", " \t\n"])
def test_a_judge_is_never_asked_about_nothing(tmp_path: Path, blank: str) -> None:
    path = write_release(tmp_path, biology=2)
    amend_record(path, "biology", "2", ins_en=blank)
    data = KrisData(path)
    assert list_flaws(data) == "biology/2: ins_en: is blank"
    assert [ref.id for ref in data.check_items()] == ["biology/1", "biology/2"]


def test_a_list_elsewhere_than_its_images_says_how_to_mend_it(tmp_path: Path) -> None:
    file = flatten(write_release(tmp_path / "eval_data", biology=2, count_change=1))
    lonely = tmp_path / "eval" / file.name
    lonely.parent.mkdir()
    lonely.write_bytes(file.read_bytes())
    with pytest.raises(InputError) as raised:
        list(KrisData(lonely).check_items())
    assert raised.value.name == str(lonely)
    missing = tmp_path / "eval" / "biology" / "1.jpg"
    assert f"biology/1: source: no such file: {missing}" in raised.value.reason
    assert f"copy or link {file.name} to where" in raised.value.fix
    (tmp_path / "eval" / "biology").symlink_to(file.parent / "biology")
    looked_for = tmp_path / "eval" / "count_change" / "1.jpg"
    assert f"count_change/1: source: no such file: {looked_for}" in list_flaws(KrisData(lonely))


def test_a_folder_with_a_list_is_told_to_give_the_list(tmp_path: Path) -> None:
    flatten(write_release(tmp_path, biology=1))
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="or the list itself"):
        KrisData(tmp_path)
    with pytest.raises(InputError, match="give the folder above <task>"):
        list(KrisData(tmp_path / "other.json").check_items())


def test_a_list_names_its_folders_and_ids_once(tmp_path: Path) -> None:
    file = flatten(write_release(tmp_path, biology=1))
    (entry,) = json.loads(file.read_text())
    file.write_text(json.dumps([entry, entry, {**entry, "type": "astrology"}, 5]))
    said = list_flaws(KrisData(file))
    assert "entry 2: the id 'biology/1' is already used by" in said
    assert "type 'astrology' is none of the 20 folders" in said
    assert "entry 4: is no object" in said


@pytest.mark.parametrize("text", ["[]", "{", '"x"'])
def test_what_is_no_annotation_at_all(tmp_path: Path, text: str) -> None:
    path = write_release(tmp_path, biology=1)
    (path / "biology" / "annotation.json").write_text(text)
    with pytest.raises(InputError, match="annotation.json"):
        list(KrisData(path).check_items())


def test_other_counts_than_the_release_are_noted(tmp_path: Path) -> None:
    some = {name.replace("-", "__"): count for name, count in FOLDERS.items() if count == 50}
    few = KrisData(write_release(tmp_path / "a", **{**some, "medicine": 49, "mathematics": 51}))
    others = [name for name, count in FOLDERS.items() if count != 50]
    assert few.notes() == (
        "mathematics: 51 items, 50 were released",
        "medicine: 49 items, 50 were released",
        f"no items of 11 folders: {', '.join(others)}",
        "450 items in all, 1,267 were released",
    )
    listed = KrisData(flatten(tmp_path / "a"))
    assert listed.notes() == few.notes()
    assert sum(1 for _ in listed.check_items()) == 450


def test_other_sources_and_explanations_than_the_release_are_noted(tmp_path: Path) -> None:
    path = write_release(
        tmp_path,
        anomaly_correction=2,
        biology=2,
        count_change=2,
        medicine=1,
        multi__element_composition=2,
        rule__based_reasoning=1,
        temporal_prediction=1,
    )
    alike = KrisData(path).notes()
    assert not [note for note in alike if "release, which" in note or "of the release" in note]

    amend_record(path, "anomaly_correction", "2", explain_en=None)
    alike = KrisData(path).notes()
    assert not [note for note in alike if "release, which" in note or "of the release" in note], "the release has one"

    amend_record(path, "anomaly_correction", "1", explain_en=" ")
    amend_record(path, "biology", "2", explain_en=None)
    amend_record(path, "rule-based_reasoning", "1", explain_en="a rule that was written down later")
    for number in ("1", "2"):
        amend_record(path, "count_change", number, ori_img=["1.jpg", "2.jpg"])
    amend_record(path, "multi-element_composition", "2", ori_img="2-1.png")
    (path / "medicine" / "annotation.json").write_text("{}")
    data = KrisData(path)
    assert sum(1 for _ in data.check_items()) == 10
    odd, counts = data.notes()[:4], data.notes()[4:]
    multi = "multi-element_composition"
    two = "anomaly_correction/1, anomaly_correction/2)"
    other = "another number of sources than in the release, which has"
    assert [*odd] == [
        f"count_change: 2 items: {other} 1 (count_change/1, count_change/2)",
        "anomaly_correction: 2 items: no explanation, which 1 of the release lack (" + two,
        "biology: 1 item: no explanation, which 0 of the release lack (biology/2)",
        f"{multi}: 1 item: {other} 2 to 5 ({multi}/2)",
    ]
    assert "medicine: 0 items, 50 were released" in counts
    assert "medicine" not in next(note for note in counts if note.startswith("no items of"))


def test_the_release_has_no_notes(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(
        json.dumps(
            [
                {"id": n, "type": folder, **record(folder, str(n))}
                for folder, count in FOLDERS.items()
                for n in range(1, count + 1)
            ]
        )
    )
    data = KrisData(tmp_path / "list.json")
    assert data.notes() == ()
    assert sum(1 for _ in data.items()) == 1267


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no <task>/annotation.json.*give the folder that holds"):
        KrisData(tmp_path)
    with pytest.raises(InputError, match="no <task>/annotation.json"):
        KrisData(tmp_path / "absent")
