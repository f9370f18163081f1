"""Reading the released file, and what is made of it once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.base.errors import ConfigError, InputError
from editjudge.benchmarks.comparison_words import PLACES, refers_to_source
from editjudge.benchmarks.gie import BENCHMARK
from editjudge.benchmarks.gie import release as module
from editjudge.benchmarks.gie.dataset import GieData, OwnItems
from editjudge.benchmarks.gie.release import CONVERTED_FILE, ComparisonDecision, convert, write_decisions
from editjudge.benchmarks.gie.taxonomy import EDIT_TYPES, TITLES, edit_type

from ....patience import patience
from ..flaws import list_flaws as flaws
from .release import SIDE, make_odd_records, mask, picture, pixels, record, write_release

ROOT = Path(__file__).parents[4]


def of(data: GieData) -> list[Any]:
    return [data.load(ref) for ref in data.items()]


@pytest.mark.parametrize("indent", [2, None, 0])
def test_the_released_file_as_it_is(tmp_path: Path, indent: int | None) -> None:
    records = make_odd_records()[:6]
    path = write_release(tmp_path, records, indent=indent)
    data = GieData(path)
    items = of(data)
    assert [one.id for one in items] == [str(i) for i in range(len(records))]
    for one, given in zip(items, records, strict=True):
        assert one.instruction == given["edit_instruction"]
        assert one.extra["edit_type"] == given["edit_type"]
        assert one.sources[0].size == (240, 160)
        np.testing.assert_array_equal(one.mask.region, np.array(given["object_mask"], bool))
    assert [ref.id for ref in data.items({1, 2})] == ["1", "2"]


def test_numbers_do_not_depend_on_the_order_of_fields(tmp_path: Path) -> None:
    given = record(edit_instruction='a "object_mask": [[0]] } ] \u00e9 \\')
    last = {k: v for k, v in given.items() if k != "object_mask"}
    last["object_mask"] = given["object_mask"]
    one, other = (GieData(write_release(tmp_path / "a", [given])), GieData(write_release(tmp_path / "b", [last])))
    assert one.digest == other.digest
    assert of(one)[0].instruction == given["edit_instruction"]


def test_what_users_add_changes_nothing(tmp_path: Path) -> None:
    mine = record(edited_image_path="/home/me/1.png", aligned_mse_diff=None)
    one, other = (GieData(write_release(tmp_path / "a", [mine])), GieData(write_release(tmp_path / "b", [record()])))
    assert one.digest == other.digest


def test_texts_are_as_they_were_released(tmp_path: Path) -> None:
    told = {"edit_instruction": " Add it. \n", "expected_answer": "The new one "}
    (item,) = of(GieData(write_release(tmp_path, [record(**told)])))
    assert item.instruction == " Add it. \n"
    assert item.questions[0]["expected"] == "The new one "


def test_converted_it_is_the_same(tmp_path: Path) -> None:
    path = write_release(tmp_path / "data")
    before = GieData(path)
    size = convert(path, tmp_path / "compact")
    after = GieData(tmp_path / "compact")
    assert sum(1 for _ in after.items()) == 10
    assert before.digest == after.digest
    assert size < path.stat().st_size / 15
    for one, other in zip(of(before), of(after), strict=True):
        assert (one.id, one.questions, one.task, one.extra) == (
            other.id, other.questions, other.task, other.extra,
        )  # fmt: skip
        assert one.sources[0].digest == other.sources[0].digest
        np.testing.assert_array_equal(one.mask.region, other.mask.region)
    assert [f.name for f in sorted((tmp_path / "compact").iterdir())] == [CONVERTED_FILE]
    (tmp_path / "compact").rename(tmp_path / "elsewhere")
    list(GieData(tmp_path / "elsewhere").check_items())
    convert(path, tmp_path / "elsewhere")
    assert GieData(tmp_path / "elsewhere").digest == before.digest
    assert GieData(tmp_path / "data").digest == before.digest, "the folder will do"


def test_the_folder_is_converted_too(tmp_path: Path) -> None:
    path = write_release(tmp_path / "data")
    convert(tmp_path / "data", tmp_path / "compact")
    assert GieData(tmp_path / "compact").digest == GieData(path).digest
    list(GieData(tmp_path / "compact").check_items())
    with pytest.raises(InputError, match=r"gie_bench\.json: no such file; give gie_bench\.json as"):
        convert(tmp_path / "compact", tmp_path / "again")


def test_a_changed_mask_is_other_data(tmp_path: Path) -> None:
    one = GieData(write_release(tmp_path / "a", [record()]))
    other = GieData(write_release(tmp_path / "b", [record(where=mask(60, 70, 130, 151))]))
    assert one.digest != other.digest


def test_the_root_is_not_dropped(tmp_path: Path) -> None:
    path = write_release(tmp_path / "data", [record(image="/nature/a.jpg")])
    images = tmp_path / "pexels"
    (tmp_path / "data" / "nature").rename(images)
    with pytest.raises(InputError, match=r"0: source: no such file: .*data/nature/a\.jpg"):
        list(GieData(path).check_items())
    (ref,) = GieData(path, roots={"/nature/": str(images), "/": "/nowhere"}).check_items()
    assert ref.id == "0"
    (ref,) = GieData(path, roots={"/nature": f"{images}/"}).check_items()


def test_where_images_lie_is_told(tmp_path: Path) -> None:
    """The authors' scripts need real paths in `image`; they are found from the root."""
    path = write_release(tmp_path / "data", [record(image="/nature/a.jpg")])
    there = tmp_path / "data" / "nature" / "a.jpg"
    real = tmp_path / "real"
    real.mkdir()
    (real / "gie_bench.json").write_text(json.dumps([record(image=str(there))]))
    folder = str(there.parent)
    fix = f"; `image` holds absolute paths: to allow them, add --root {folder}"
    with pytest.raises(InputError, match=f"{fix}$"):
        list(GieData(real).check_items())
    for roots in ({folder: folder}, {"/": "/"}):
        (ref,) = (data := GieData(real, roots=roots)).check_items()
        assert data.image_paths(ref) == {"source": (there,)}
    there.unlink()
    for data in (GieData(path), GieData(real)):
        with pytest.raises(InputError, match="; if the images are in another folder, add --root /="):
            list(data.check_items())
    assert GieData(path).fix([]) == ""


def test_a_mask_covers_the_whole_frame(tmp_path: Path) -> None:
    half = mask(0, 0, SIDE, SIDE // 2)
    (item,) = of(GieData(write_release(tmp_path, [record(where=half)])))
    for width, height in ((240, 160), (160, 240), (512, 512), (224, 224), (30, 1000)):
        fitted = item.mask.resize((width, height))
        assert fitted.size == (width, height)
        np.testing.assert_array_equal(fitted.region[0], np.arange(width) < width / 2)
    assert item.mask.resize((SIDE, SIDE)) is item.mask


def test_questions(tmp_path: Path) -> None:
    items = of(GieData(write_release(tmp_path)))
    found = [one.questions[0] for one in items]
    assert [i for i, one in enumerate(found) if one["compares"]] == [1]
    assert [i for i, one in enumerate(found) if one["answer"] not in one["options"]] == [2]
    assert (found[3]["answer"], found[3]["expected"]) == ("Yes", "yes.")
    tasks = [one.task for one in items]
    assert tasks[5:8] == ["scene_background_change"] * 3
    assert len(set(tasks)) == 8


@pytest.mark.parametrize(
    ("question", "options", "told"),
    [
        ("What colour is the car?", ("Red", "Blue"), False),
        ("Is the dog larger than in the original image?", ("Yes", "No"), True),
        ("How large is the dog?", ("Larger than before", "Unchanged"), True),
        ("How has the apple's size changed compared to the plate?", ("Larger", "Smaller"), True),
        # Which of the two is compared cannot be told: the source is shown where in doubt.
        ("How large is the apple compared to the plate?", ("Larger", "Smaller"), True),
        ("Compared to the first image, is the car larger?", ("Yes", "No"), True),
        ("How does the edited image compare with the unaltered photo?", ("Same", "Else"), True),
        ("Is the expression the same as in the input\n image?", ("Yes", "No"), True),
        ("What is the difference from the source?", ("Sky", "Sea"), True),
        ("Is the vase now bigger than it was?", ("Yes", "No"), True),
        ("What changed in the sky?", ("Clouds", "Birds"), True),
        ("Is the mug of another colour than in the first picture?", ("Yes", "No"), True),
        ("Is the sky darker than before the edit?", ("Yes", "No"), True),
        ("What is standing before the altar?", ("A priest", "A dog"), False),
        ("What is the source of the light?", ("A lamp", "The sun"), False),
        ("Who wrote 'The Original Recipe' on the sign?", ("A cook", "A guest"), False),
        ('What does it say instead of "Before"?', ("\u201cInitially\u201d", "\u2018Earlier\u2019"), False),
        ("Isn't the dogs' bowl larger than before, at the cat's?", ("Yes", "No"), True),
        ("What differs between the two images?", ("Sky", "Sea"), True),
        ("What does the sign say?", ("ORIGINALITY", "BEFOREHAND"), False),
        ("How many people were there before the removal?", ("One", "Two"), True),
        ("What stood there before the replacement?", ("A cup", "A jug"), True),
        ("Is the sky brighter than before the adjustment?", ("Yes", "No"), True),
        ("How many cups were there before the addition?", ("One", "Two"), True),
        ("Does the car look the way it did before the update?", ("Yes", "No"), True),
        ("What was there before a tree was added?", ("Grass", "Sand"), True),
        ("What colour was it before the house was painted?", ("Red", "White"), True),
        ("Is the man standing before a mirror?", ("Yes", "No"), False),
        ("Who sings before an audience, and who before the wall?", ("A boy", "A girl"), False),
        ('Is the hat gone that the "original" image has?', ("Yes", "No"), True),
        ("Is it that of the \u201coriginal\u201d\n photo?", ("Yes", "No"), True),
        ("How does the 'after' picture look beside the 'before' picture?", ("Odd", "Well"), True),
        ('Is "the original" written below the image?', ("Yes", "No"), False),
        ("Is the sky unchanged?", ("Yes", "No"), True),
        ("Did the colour of the car stay the same?", ("Yes", "No"), True),
        ("How large is the ball?", ("Larger", "It stayed the same"), True),
        ("Does the road remain the same?", ("Yes", "No"), True),
        ("Do the two cups have the same colour?", ("Yes", "No"), False),
        # What became of something cannot be told from the result alone.
        ("Was the vase removed?", ("Yes", "No"), True),
        ("Where was the lamp moved to?", ("To the left", "To the right"), True),
        ("Where has the red lamp been moved?", ("Left", "Right"), True),
        ("What is the apple replaced with?", ("A pear", "A plum"), True),
        ("Is the cat gone?", ("No, it moved", "It was taken away and replaced"), True),
        ("Did the dog move?", ("Yes", "No"), True),
        ("Is there still a boat?", ("Yes", "No, it is no longer there"), True),
        ("Where is the vase located on the table?", ("Left", "Right"), False),
        ("What is the man moving?", ("A box", "A chair"), False),
        # Text in the image, and where it stands, is no time before the edit.
        ("What comes first?", ("The word before 'SOON'", "The word after it"), False),
        ("Which word stands before \u201cSOON\u201d?", ("COMING", "LATE"), False),
        ("What is the letter before the logo?", ("A", "B"), False),
        ("What is shown in the first picture on the wall?", ("A cow", "A sheep"), False),
        ("How do the two photos on the desk hang?", ("Straight", "Askew"), False),
    ],
)
def test_which_questions_compare(question: str, options: tuple[str, ...], told: bool) -> None:
    assert refers_to_source(question, options) is told


def test_the_page_tells_the_words() -> None:
    """Every word there makes a question one that compares, but for the places."""
    text = (ROOT / "docs" / "howto" / "benchmarks" / "gie.md").read_text(encoding="utf-8")
    told = text.partition("the words decide:")[2].partition("In doubt")[0]
    words, places = told.split("*Before* a place")
    listed = re.findall(r"\*([^*]+)\*", words)
    assert len(listed) > 8
    assert [one for one in listed if not refers_to_source(one.replace("\n", " "), ())] == []
    found = re.search(r"\(([^)]+)\)", places)
    assert found is not None
    assert set(found[1].replace("\n", " ").split(", ")) <= set(PLACES)


def test_notes_tell_what_is_odd(tmp_path: Path) -> None:
    notes = GieData(write_release(tmp_path)).notes()
    assert [one.split(",")[0].split(" (")[0] for one in notes] == [
        "10 records",
        "1 item: the expected answer is no option",
        "2 items: the expected answer is no option to the letter",
        "1 item: the question compares with the source",
        "1 item: an all-black mask: nothing may change",
        "1 item: an all-white mask: nothing is outside it",
        "1 item repeats another's instruction and image",
    ]
    assert [one.rpartition("(")[2] for one in notes[1:4]] == ["2)", "2, 3)", "1)"]
    (length,) = GieData(write_release(tmp_path / "b", [record()])).notes()
    assert length.startswith("1 record, 1,080 were released: ")


LONGER = np.zeros((SIDE + 1, SIDE), int).tolist()
RAGGED = [[0] * (SIDE - 1), [0] * (SIDE + 1), *([[0] * SIDE] * (SIDE - 2))]
BAD: dict[str, tuple[Any, str]] = {
    "no mask": ({"object_mask": None}, "0: object_mask: is missing"),
    "one number": ({"object_mask": 0}, "0: object_mask: is not 224 rows"),
    "an empty mask": ({"object_mask": []}, "0: object_mask: is not 224 rows"),
    "a flat mask": ({"object_mask": [0] * SIDE * SIDE}, "0: object_mask: is not 224 rows"),
    "a mask with a row more": ({"object_mask": LONGER}, "0: object_mask: is not 224 rows"),
    "a ragged mask": ({"object_mask": RAGGED}, "0: object_mask: is not 224 rows"),
    "a grey mask": ({"object_mask": [[2] * SIDE] * SIDE}, "0: object_mask: is not 224 rows"),
    "white as 255": ({"object_mask": [[255] * SIDE] * SIDE}, "0: object_mask: is not 224 rows"),
    "a mask of truths": ({"object_mask": [[True] * SIDE] * SIDE}, "0: object_mask: is not"),
    "a mask of fractions": ({"object_mask": [[0.0] * SIDE] * SIDE}, "0: object_mask: is not"),
    "an unknown type": ({"edit_type": "Add"}, "0: edit_type: 'Add' is none of Add Object"),
    "one option": ({"multiple_choice_options": ["a"]}, "at least two different options"),
    "an option twice": ({"multiple_choice_options": ["a", "a "]}, "at least two different"),
    "one that is not blank": ({"multiple_choice_options": ["a", " "]}, "0: multiple_choice_op"),
    "no question": ({"evaluation_question": ""}, "0: evaluation_question: is blank"),
    "no instruction": ({"edit_instruction": None}, "0: edit_instruction: is missing"),
    "an image elsewhere": ({"image": "/no/such.jpg"}, "0: source: no such file: "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_record_that_cannot_be_used_whole_is_an_item(tmp_path: Path, name: str) -> None:
    change, told = BAD[name]
    folder = tmp_path / "data"
    path = write_release(folder, [record(), record("Size Change")])
    path.write_text(json.dumps([record() | change, record("Size Change")]))
    data = GieData(path)
    assert [ref.id for ref in data.check_items()] == ["0", "1"], "no id shifts"
    (line,) = flaws(data).splitlines()
    assert told in line
    convert(path, tmp_path / "out")
    converted = GieData(tmp_path / "out")
    assert flaws(converted) == line
    assert converted.digest == data.digest


WRONG = {
    "no such file": (None, "no such file; give gie_bench.json, or the folder"),
    "nothing in it": (b"", "cannot be read as JSON"),
    "an object": (b'{"a": 1}', "is not a list of records"),
    "cut short": (json.dumps([record()]).encode()[:5000], "ends inside an object_mask"),
    "cut short behind": (json.dumps([record()]).encode()[:-9], "cannot be read as JSON"),
    "no JSON": (b"\xff\xfe\x00nothing", "cannot be read as JSON"),
    "too deep": (b"[" * 200_000, "cannot be read as JSON"),
    "a list that never ends": (b'[{"object_mask": [' + b"0," * 9_000, "ends inside an object_mask"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    content, told = WRONG[name]
    path = tmp_path / "gie_bench.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        GieData(path)
    assert told in str(caught.value)
    assert "gie_bench.json" in str(caught.value)


def test_nothing_but_text_is_no_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REST", 1 << 20)
    path = tmp_path / "gie_bench.json"
    for content in ('["' + "x" * (2 << 20) + '"]', '[{"object_mask": [' + "0," * (1 << 20)):
        path.write_text(content)
        with pytest.raises(InputError, match="besides its masks"):
            GieData(path)


def test_no_items(tmp_path: Path) -> None:
    path = write_release(tmp_path, [])
    with pytest.raises(InputError, match="no items"):
        list(GieData(path).check_items())
    with pytest.raises(InputError, match="no items"):
        convert(path, tmp_path / "out")


@pytest.mark.parametrize(
    "damage",
    [
        {"masks": ["no mask"] * 10},
        {"masks": ["AAAA"] * 10},
        {"masks": [None] * 10},
        {"masks": []},
        {"records": 1},
        {"images": None},
        {"digests": None},
        {"digests": 1},
    ],
)
def test_a_damaged_conversion_is_made_again(tmp_path: Path, damage: dict[str, Any]) -> None:
    out = tmp_path / "compact"
    convert(write_release(tmp_path / "data"), out)
    head = json.loads((out / CONVERTED_FILE).read_text()) | damage
    (out / CONVERTED_FILE).write_text(json.dumps(head))
    with pytest.raises(InputError, match=r"convert gie_bench\.json again"):
        GieData(out)


@pytest.mark.parametrize("text", ["{}", "[]", "1", "no JSON", ""])
def test_what_is_no_conversion(tmp_path: Path, text: str) -> None:
    (tmp_path / CONVERTED_FILE).write_text(text)
    with pytest.raises(InputError, match=r"convert gie_bench\.json again"):
        GieData(tmp_path)


def test_memory_does_not_grow_with_the_masks(tmp_path: Path) -> None:
    """A file eight times as large takes a few megabytes more."""
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    text = json.dumps(record(), indent=2)
    small.write_text(f"[{text}]")
    with large.open("w") as file:
        file.write("[" + ",".join([text] * 80) + "]")
    assert large.stat().st_size > 30e6
    code = (
        "import sys, tracemalloc; from pathlib import Path\n"
        "from editjudge.benchmarks.gie.dataset import GieData\n"
        "tracemalloc.start(); peak = lambda: tracemalloc.get_traced_memory()[1] / 2**20\n"
        "GieData(Path(sys.argv[1])); before = peak(); GieData(Path(sys.argv[2]))\n"
        "print(peak() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(small), str(large)],
        capture_output=True, text=True, check=True, timeout=patience(60),
    )  # fmt: skip
    assert float(done.stdout) < 25


OWN: dict[str, Any] = {
    "id": "kitchen/1",
    "instruction": "Paint the chair red.",
    "source": "1.png",
    "task": "Colour change",
    "questions": [{"question": "Which colour?", "options": ["Red", "As before"], "answer": "Red"}],
}


def own(folder: Path, *lines: dict[str, Any]) -> Any:
    picture(folder / "1.png", pixels(1))
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return BENCHMARK.data(folder / "items.jsonl", roots={})


def test_data_of_ones_own(tmp_path: Path) -> None:
    data = own(tmp_path, OWN, OWN | {"id": "2", "task": "scene or background change"})
    one, other = (data.load(ref) for ref in data.check_items())
    assert (one.task, other.task) == ("color_change", "scene_background_change")
    assert one.questions[0]["compares"]
    assert one.questions[0]["answer"] == "Red"
    assert edit_type("anything else") == "anything else"
    assert {edit_type(label) for label in EDIT_TYPES} == set(TITLES)
    for path in (tmp_path / "items.jsonl", tmp_path):
        with pytest.raises(ConfigError, match="not for items.jsonl"):
            BENCHMARK.data(path, roots={"/": "/x"})


def test_the_folder_of_ones_own_data_will_do(tmp_path: Path) -> None:
    """Where it holds the released data too, in either form, it is that."""
    given = own(tmp_path, OWN)
    data = BENCHMARK.data(tmp_path)
    assert (type(data), data.path, data.digest) == (OwnItems, given.path, given.digest)
    path = write_release(tmp_path / "both")
    (path.parent / "items.jsonl").write_text(json.dumps(OWN))
    assert isinstance(BENCHMARK.data(path.parent), GieData)
    compact = tmp_path / "compact"
    convert(path, compact)
    (compact / "items.jsonl").write_text(json.dumps(OWN))
    assert isinstance(BENCHMARK.data(compact), GieData)
    with pytest.raises(InputError, match=r"gie_bench\.json: no such file"):
        BENCHMARK.data(tmp_path.parent)


@pytest.mark.parametrize(("answer", "due"), [("red.", "Red"), ("Red", "Red"), ("RED", "Red"), ("Green", "Green")])
def test_an_answer_of_ones_own_is_the_option_that_it_means(tmp_path: Path, answer: str, due: str) -> None:
    question = OWN["questions"][0] | {"answer": answer}
    data = own(tmp_path, OWN | {"questions": [question]})
    (item,) = (data.load(ref) for ref in data.check_items())
    assert (item.questions[0]["answer"], item.questions[0]["expected"]) == (due, answer)
    kept = own(tmp_path, OWN | {"questions": [question | {"expected": "scarlet"}]})
    (item,) = (kept.outline(ref) for ref in kept.items())
    assert item.questions[0]["expected"] == "scarlet"


def test_notes_on_questions_of_ones_own(tmp_path: Path) -> None:
    question: dict[str, Any] = OWN["questions"][0] | {"options": ["Red", "Blue"]}

    def line(id_: str, *changes: dict[str, Any]) -> dict[str, Any]:
        return OWN | {"id": id_, "questions": [question | one for one in changes]}

    data = own(
        tmp_path,
        line("a", {}, {"answer": "Green"}, {"answer": "Grey"}),
        line("b", {"answer": "red."}),
        line("c", {"options": ["Red", "As before"]}),
        line("d", {"compares": True}),
        line("e", {"options": ["Red", "As before"], "compares": False}),
        line("no question is read", {"options": None}),
    )
    unwinnable, literally, comparing = data.notes()
    assert unwinnable.startswith("1 item: the expected answer is no option, so")
    assert unwinnable.endswith("(a)")
    assert literally.startswith("2 items: the expected answer is no option to the letter")
    assert literally.endswith("(a, b)")
    assert comparing == ("2 items: the question compares with the source, which the judge is shown too (c, d)")
    assert own(tmp_path, line("a", {})).notes() == ()


def test_a_mask_of_ones_own_fits_outputs_once_it_fits_its_source(tmp_path: Path) -> None:
    picture(tmp_path / "m.png", np.tile(np.arange(240) < 120, (160, 1)))
    picture(tmp_path / "other.png", np.ones((160, 160), bool))
    for shows, inside in (("edited", True), ("kept", False)):
        line = OWN | {"mask": "m.png", "mask_shows": shows}
        data = own(tmp_path, line)
        item = data.load(next(data.check_items()))
        for size in ((240, 160), (224, 224), (100, 300)):
            assert item.mask.resize(size).region[0, 0] == inside
            assert item.mask.resize(size).region.mean() == 0.5
    data = own(tmp_path, OWN | {"mask": "other.png"})
    item = data.load(next(data.check_items()))
    assert item.mask is None
    assert "mask of 160x160 for an image of 240x160" in item.flaws["mask"].reason


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"compares": "no"}, "`compares` of a question is true or false"),
        ({"expected": 3}, "`expected` of a question is a text"),
        ({"options": ["Red"]}, "at least two different options"),
        ({"options": "Red"}, "`options` of a question is a list of texts, not 'Red'"),
        ({"options": 3}, "`options` of a question is a list of texts, not 3"),
        ({"answer": None}, "`answer` of a question is a text, not None"),
        ({"question": ""}, "of a question is blank"),
        ({"question": " \u3000"}, "of a question is blank"),
        ({"answer": "\t"}, "of a question is blank"),
        ({"options": ["Red", " "]}, "one of the `options` of a question is blank"),
    ],
)
def test_questions_of_ones_own_that_cannot_be_asked(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    data = own(tmp_path, OWN | {"questions": [OWN["questions"][0] | change]})
    (ref,) = data.check_items()
    assert list(data.flaws(ref)) == ["questions"]
    assert told in data.flaws(ref)["questions"].reason
    assert data.load(ref).questions == ()


def test_what_was_decided_is_not_told_by_words(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    convert(write_release(tmp_path / "data"), folder)
    by_words = GieData(folder)
    ask = [one["evaluation_question"] for one in make_odd_records()]
    write_decisions(
        folder, [ComparisonDecision(0, ask[0], compares=True, words=False), ComparisonDecision(1, ask[1], True, True)]
    )
    data = GieData(folder)
    told = [item.questions[0]["compares"] for item in of(data)]
    assert told[:3] == [True, True, False], "of what nobody decided, words tell"
    assert data.digest != by_words.digest, "judges are shown something else"
    assert any("compares.json says which compare" in note for note in data.notes())
    first = json.loads((folder / "compares.json").read_text())[0]
    assert first["position"] == 0, "what words say otherwise stands first"
    assert first["words"] is False
    write_decisions(folder, [ComparisonDecision(0, "Another?", compares=True, words=False)])
    with pytest.raises(InputError, match="record 0 has another question than 'Another"):
        GieData(folder)
    (folder / "compares.json").write_text("{}")
    with pytest.raises(InputError, match=r"compares\.json: cannot be read"):
        GieData(folder)


def test_the_sources_themselves_as_outputs(tmp_path: Path) -> None:
    data = GieData(write_release(tmp_path, [record(), record("Size Change")]))
    (tmp_path / "siz" / "pexels-someone-1.jpg").unlink()
    assert data.has_outputs(Path(":sources"))
    outputs = data.outputs((tmp_path / ":sources").resolve())
    assert outputs.path("0") == str(tmp_path / "add" / "pexels-someone-1.jpg")
    assert outputs.path("1") is None
    assert "exactly one source file" in outputs.why_not("1").reason


@pytest.mark.parametrize("place", ['"Add Object"', '"Color Change"'])
def test_what_is_no_json_is_told_by_the_line_of_the_file(tmp_path: Path, place: str) -> None:
    path = write_release(tmp_path, [record(url="é"), record("Color Change")])
    text = path.read_text().replace(f'"edit_type": {place}', f'"edit_type": {place},')
    path.write_text(text)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if f"{place},," in one)
    with pytest.raises(InputError, match=rf"gie_bench\.json: cannot be read as JSON: .* line {line};?"):
        list(GieData(path).check_items())
