"""Texts of `items.jsonl`, whichever benchmark reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.errors import InputError
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.registry import load_benchmarks

FILES = {one.name: one.data for one in load_benchmarks().values()
         if isinstance(one.data, type) and issubclass(one.data, ItemsFile)
         and (one.data is not ItemsFile or one.name == "core")}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {"core": {}, "i2i": {"task": "local_editing"}, "co_edit": {"type": "style_editing"}}
BLANK = ["", " ", "\t\n", "\u3000", "\u00a0\u2003", "\u200b"]


def data(folder: Path, name: str, **given: Any) -> Any:
    Pil.fromarray(np.zeros((8, 6, 3), np.uint8)).save(folder / "s.png")
    line = {"id": "1", "instruction": "make it red", "source": "s.png", **OWN[name], **given}
    (folder / "items.jsonl").write_text(json.dumps(line))
    return FILES[name](folder / "items.jsonl")


def test_every_items_file_is_tested() -> None:
    without = sorted(set(FILES) - set(OWN))
    assert not without, f"add to OWN the fields that a line of {', '.join(without)} must have"


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("field", ["instruction", "target_text", "hint"])
@pytest.mark.parametrize("name", OWN)
def test_a_blank_text_is_a_flaw(tmp_path: Path, name: str, field: str, blank: str) -> None:
    read = data(tmp_path, name, **{field: blank})
    (ref,) = read.check_items()
    assert {n: f.reason for n, f in read.flaws(ref).items()} == {field: f"{field}: is blank"}
    assert not getattr(read.load(ref), field)


@pytest.mark.parametrize("name", OWN)
def test_the_folder_of_the_file_will_do(tmp_path: Path, name: str) -> None:
    file = data(tmp_path, name).path
    read = FILES[name](tmp_path)
    assert read.path == file
    assert [ref.id for ref in read.check_items()] == ["1"]
    file.rename(tmp_path / "mine.jsonl")
    with pytest.raises(InputError, match=r"holds no items\.jsonl; give --data items\.jsonl"):
        FILES[name](tmp_path)


@pytest.mark.parametrize("name", OWN)
def test_texts_are_read_without_the_space_around_them(tmp_path: Path, name: str) -> None:
    texts = {"instruction": " say \u3000 it\n", "target_text": "\u3000SALE ", "hint": "\tice melts"}
    read = data(tmp_path, name, **texts)
    (ref,) = read.check_items()
    item = read.load(ref)
    assert (item.instruction, item.target_text, item.hint) == ("say \u3000 it", "SALE", "ice melts")


def test_a_blank_task_is_none(tmp_path: Path) -> None:
    read = data(tmp_path, "core", task=" \u3000")
    (ref,) = read.check_items()
    assert read.load(ref).task == ""


@pytest.mark.parametrize("name", [" ", "a/ ", " /b", " .. /b"])
def test_a_blank_id_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="line 1: id: an id names a file"):
        list(data(tmp_path, "core", id=name).check_items())


@pytest.mark.parametrize("name", OWN)
def test_a_mask_of_another_picture_is_unusable_and_the_item_is_not(tmp_path: Path, name: str) -> None:
    for file, shape in (("fits.png", (4, 3)), ("other.png", (6, 8))):
        Pil.fromarray(np.zeros(shape, np.uint8)).save(tmp_path / file)
    for file, unusable in (("fits.png", {}), ("other.png", {"mask"})):
        read = data(tmp_path, name, mask=file)
        item = read.load(next(read.check_items()))
        assert item.flaws.keys() == set(unusable)
    assert "other.png: mask of 8x6 for an image of 6x8" in item.flaws["mask"].reason


def test_a_path_without_end_is_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1: source: .* 4096 characters") as raised:
        list(data(tmp_path, "core", source="x" * 70_000).check_items())
    assert len(str(raised.value)) < 1000


def line_of(name: str, item: str = "1", **fields: Any) -> str:
    line = {"id": item, "instruction": "x", "source": "s.png", **OWN[name], **fields}
    return json.dumps(line)


def lines(folder: Path, name: str, *texts: str, encoding: str = "utf-8") -> Any:
    read = data(folder, name)
    read.path.write_bytes("".join(texts).encode(encoding))
    return read


@pytest.mark.parametrize("name", OWN)
def test_a_mark_and_line_ends_of_other_systems_and_empty_lines_do_not_count(tmp_path: Path, name: str) -> None:
    one, other = line_of(name), line_of(name, "2")
    read = lines(tmp_path, name, "\ufeff", one, "\r\n", "\r\n", "  \n", other, "\r\n")
    assert [ref.id for ref in read.check_items()] == ["1", "2"]


NO_LINE: dict[str, tuple[Callable[[str], str], str]] = {
    "twice": (line_of, "the id '1' is already used by line 1"),
    "comma within": (lambda name: line_of(name, "2")[:-1] + ",}", r"not JSON, at character \d+: trailing comma"),
    "comma behind": (
        lambda name: line_of(name, "2") + ",",
        r"not JSON, at character \d+: something follows the object",
    ),
    "cut": (lambda name: line_of(name, "2")[:-9], "not JSON, at .*: it ends while parsing"),
    "list": (lambda name: f"[{line_of(name, '2')}]", "must be a table"),
    "nothing": (lambda _: "null", "must be a table"),
    "no instruction": (lambda _: '{"id": "2", "source": "s.png"}', ".*instruction: is missing"),
    "key": (lambda name: line_of(name, "2").replace('"id": "2"', '"id": "3", "id" :"2"'), "'id': given more than once"),
    "key written otherwise": (
        lambda name: line_of(name, "2").replace('"id"', '"\\u0069d": "3", "id"'),
        "'id': given more than once",
    ),
    "key within": (
        lambda name: line_of(name, "2", extra={"x": 1}).replace('"x": 1', '"x": 2, "x": 1'),
        "'x': given more than once",
    ),
    "id": (lambda name: line_of(name).replace('"1"', "NaN"), "NaN is no number that can be kept"),
}


@pytest.mark.parametrize("case", NO_LINE)
@pytest.mark.parametrize("name", OWN)
def test_a_line_that_is_no_item_is_told_by_its_number(tmp_path: Path, name: str, case: str) -> None:
    made, told = NO_LINE[case]
    read = lines(tmp_path, name, line_of(name), "\n\n", made(name), "\n")
    told = rf"items\.jsonl: 1 line cannot be used:\n  line 3: {told}"
    with pytest.raises(InputError, match=told):
        list(read.check_items())


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e400", "-1E+400", "9" * 400 + ".0", "1" + "0" * 250 + "e99"]
)
@pytest.mark.parametrize("name", OWN)
def test_what_stands_for_a_number_and_is_none_is_told(tmp_path: Path, name: str, number: str) -> None:
    line = line_of(name, "2", extra={"x": [0]}).replace("0]", f"{number}]")
    told = rf"line 2: {re.escape(number)} is no number that can be kept"
    with pytest.raises(InputError, match=told):
        list(lines(tmp_path, name, line_of(name), "\n", line).check_items())


@pytest.mark.parametrize("name", OWN)
def test_what_only_looks_like_no_number_is_kept(tmp_path: Path, name: str) -> None:
    said = 'NaN, 1e400 and Infinity; "x": 1, "x": 2'
    extra = {"x": said, "y": 1e300, "z": 10**299, "w": [{"x": 1}, {"x": 1}]}
    (ref,) = lines(tmp_path, name, line_of(name, extra=extra)).check_items()
    assert ref.data.extra == extra


def test_another_encoding_is_told(tmp_path: Path) -> None:
    wrong = lines(tmp_path, "core", json.dumps({"id": "é"}, ensure_ascii=False), encoding="latin-1")
    with pytest.raises(InputError, match=r"line 1: .*not in UTF-8\n?.*; data is JSON lines"):
        list(wrong.check_items())
