from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.errors import InputError
from editjudge.base.images import Note
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.outputs import SUFFIXES, Outputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("source.png", "target.png"):
        Pil.fromarray(np.zeros((8, 6, 3), np.uint8)).save(tmp_path / name)
    Pil.fromarray(np.zeros((8, 6), np.uint8)).save(tmp_path / "mask.png")
    return tmp_path


def write_file(folder: Path, *lines: dict[str, Any] | str | bytes) -> ItemsFile:
    path = folder / "items.jsonl"
    texts = [json.dumps(one) if isinstance(one, dict) else one for one in lines]
    encoded = [one.encode() if isinstance(one, str) else one for one in texts]
    path.write_bytes(b"\n".join(encoded))
    return ItemsFile(path)


def line(**given: Any) -> dict[str, Any]:
    return {"id": "1", "instruction": "make it red", "source": "source.png", **given}


def test_items_are_read_with_all_their_fields(folder: Path) -> None:
    data = write_file(
        folder,
        line(),
        "",
        line(
            id="a/b",
            target="target.png",
            mask="mask.png",
            target_text="SALE",
            hint="ice melts",
            task="text",
            questions=[{"question": "?", "answer": "Yes"}],
            extra={"split": 3},
        ),
        {"id": 7, "instruction": "x", "sources": ["source.png", "target.png"]},
    )
    first, second, third = data.check_items()
    assert [ref.id for ref in (first, second, third)] == ["1", "a/b", "7"]
    item, outline = data.load(second), data.outline(second)
    assert item.source is not None
    assert item.mask is not None
    assert (item.target_text, item.hint, item.task) == ("SALE", "ice melts", "text")
    assert item.extra == {"split": 3}
    assert item.questions == outline.questions
    assert outline.mask is not None
    assert outline.target is not None
    assert len(data.load(third).sources) == 2
    assert data.load(third).source is None
    assert [ref.index for ref in data.items({1, 2})] == [1, 2]
    fields = {field: paths[0].name for field, paths in data.image_paths(second).items()}
    assert fields == {"source": "source.png", "mask": "mask.png", "target": "target.png"}


def test_a_mask_may_show_what_is_kept(folder: Path) -> None:
    left = np.zeros((8, 6), np.uint8)
    left[:, :2] = 255
    Pil.fromarray(left).save(folder / "left.png")
    data = write_file(
        folder, line(mask="left.png", mask_shows="kept"), line(id="2", mask="left.png", mask_shows="edited")
    )
    kept, edited = (data.load(ref).mask for ref in data.check_items())
    assert kept is not None
    assert edited is not None
    assert np.array_equal(kept.region, ~edited.region)
    assert edited.region[:, :2].all()
    assert kept.notes == (Note("mask", "mask inverted"),)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{", "it ends while"),
        (line(mask="mask.png", mask_shows="black"), "mask_shows: must be"),
        ("[1]", "must be a table"),
        (line(id=""), "at least 1 character"),
        (line(id="../x"), "an id names a file"),
        (line(id="/x"), "an id names a file"),
        (line(id="a//b"), "an id names a file"),
        (line(id="a\nb"), "printable"),
        (line(sources=["source.png"]), "either `source` or `sources`"),
        ({"id": "1", "instruction": "x"}, "either `source` or `sources`"),
        (line(taget="target.png"), "taget: no such field"),
        (b'{"id": "\xff", "instruction": "x", "source": "source.png"}', "not in UTF-8"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(folder: Path, bad: Any, said: str) -> None:
    with pytest.raises(InputError) as raised:
        list(write_file(folder, line(id="first"), bad).check_items())
    assert "line 2: " in str(raised.value)
    assert said.lower() in str(raised.value).lower()
    assert len(str(raised.value).splitlines()) == 2
    assert "1 line cannot be used" in str(raised.value)


@pytest.mark.parametrize(
    ("bad", "field", "said"),
    [
        (line(instruction="a\x07"), "instruction", "control character U+0007"),
        (line(instruction="x" * 20_000), "instruction", "20,000 characters"),
        (line(mask="nowhere.png"), "mask", "no such file: "),
        (line(source="."), "source", "no such file: "),
        (
            line(questions=[{"question": "?", "answer": "a", "options": 3}]),
            "questions",
            "`options` of a question is a list of texts, not 3",
        ),
    ],
)
def test_what_cannot_be_used_is_a_flaw_of_the_item(folder: Path, bad: Any, field: str, said: str) -> None:
    data = write_file(folder, bad, line(id="whole"))
    first, whole = data.check_items()
    assert list(data.flaws(first)) == [field]
    assert said in data.flaws(first)[field].reason
    assert data.load(first).flaws == data.outline(first).flaws == data.flaws(first)
    assert data.flaws(whole) == {}


def test_a_picture_that_cannot_be_read_is_a_flaw_that_may_pass(folder: Path) -> None:
    data = write_file(folder, line(target="target.png"))
    (ref,) = data.check_items()
    (folder / "target.png").write_bytes(b"no picture")
    item = data.load(ref)
    assert item.target is None
    assert item.source is not None
    assert item.flaws["target"].status == "failed", "judged again by the next run"


def test_where_no_item_has_its_source_the_data_is_elsewhere(folder: Path) -> None:
    data = write_file(folder, line(source="x.png"), line(id="2", source="y.png"))
    with pytest.raises(
        InputError, match="none of 2 items has a source that can be read .first: 1: source: no such file"
    ):
        list(data.check_items())


def test_all_bad_lines_are_listed_up_to_twenty(folder: Path) -> None:
    bad = [line(id=str(i), masks="no.png") for i in range(30)]
    with pytest.raises(InputError, match="30 lines cannot be used") as raised:
        list(write_file(folder, *bad, line(id="x")).check_items())
    assert "line 20: " in str(raised.value)
    assert "line 21: " not in str(raised.value)


def test_an_empty_file_and_none(folder: Path) -> None:
    with pytest.raises(InputError, match="no items"):
        list(write_file(folder, "", " ").check_items())
    with pytest.raises(InputError, match="no such file"):
        ItemsFile(folder / "nowhere.jsonl")


def test_the_digest_is_of_the_lines(folder: Path) -> None:
    one = write_file(folder, line()).digest
    assert one == write_file(folder, line()).digest
    assert one != write_file(folder, line(instruction="x")).digest


@pytest.mark.parametrize("index", [False, True])
def test_outputs_by_any_suffix(folder: Path, index: bool) -> None:
    out = folder / "out"
    (out / "sub").mkdir(parents=True)
    for number, suffix in enumerate((*SUFFIXES, ".PNG", ".JPG")):
        (out / "sub" / f"{number}{suffix}").write_bytes(b"x")
    for name in ("two.png", "two.jpg", "v1.5.webp", "notes.txt"):
        (out / name).write_bytes(b"x")
    (out / "linked.png").symlink_to(out / "v1.5.webp")
    (out / "lost.png").symlink_to(out / "nowhere.png")
    found: Any = Outputs(out).index() if index else Outputs(out)
    for number, suffix in enumerate((*SUFFIXES, ".PNG", ".JPG")):
        assert found.path(f"sub/{number}") == str(out / "sub" / f"{number}{suffix}")
    assert found.path("v1.5") == str(out / "v1.5.webp")
    assert found.path("linked") == str(out / "linked.png")
    assert found.path("lost") is None
    assert "lost.png leads to no file" in str(found.why_not("lost"))
    assert found.path("two") is None
    assert "several outputs: two.jpg, two.png" in str(found.why_not("two"))
    assert found.path("notes") is None
    assert found.path("sub") is None
    assert f"no {out}/none.png (or .jpg" in str(found.why_not("none"))


def test_pictures_that_are_nobodys_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "set").mkdir(parents=True)
    for name in ("set/a.png", "set/b.jpg", "set/b.png", "set/c.JPG", "notes.txt", ".DS_Store"):
        (out / name).write_bytes(b"x")
    outputs = Outputs(out)
    assert outputs.list_unmatched({"set/a"}) == ["set/b.jpg", "set/b.png", "set/c.JPG"]
    assert outputs.index().list_unmatched({"set/a", "set/b", "set/c"}) == []
