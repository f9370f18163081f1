"""Folders of preparations, and decisions about what they hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editjudge.answers.questions import ChoiceQuestion
from editjudge.base.errors import ConfigError, InputError, StoreError
from editjudge.benchmarks.items import ItemsFile
from editjudge.prepare.folder import ACCEPT_FILE, REJECT_FILE, Folder
from editjudge.prepare.items import Entry
from editjudge.prepare.review import apply_decisions, write_page

from .folders import decide, lines, save, write_items

QUESTION = ChoiceQuestion("Which?", ("a", "b"), "a")
PNG = b"any bytes"


def write_data(folder: Path, lines: list[dict[str, Any]]) -> ItemsFile:
    return ItemsFile(write_items(folder, lines))


@pytest.fixture
def preparation(tmp_path: Path) -> Folder:
    """Four items that were asked about, and one that had its question."""
    items: list[dict[str, Any]] = [{"id": name, "instruction": f"do {name}"} for name in "abcde"]
    items[4]["questions"] = [QUESTION._asdict()]
    data = write_data(tmp_path / "data", items)
    folder = Folder(tmp_path / "out")
    entries = {name: Entry("made", questions=(QUESTION,)) for name in "abc"}
    entries |= {"d": Entry("failed", "refused: no"), "e": Entry("had")}
    with folder.lock():
        folder.begin(data, "choice")
        folder.write_items(data, entries)
        record = folder.record()
        statuses = {name: entry.status for name, entry in entries.items()}
        folder.write_record(record.model_copy(update={"statuses": statuses}))
        write_page(folder, record, entries)
    return folder


def decisions(folder: Folder, **by_id: str) -> dict[str, Any]:
    return decide(folder, ItemsFile(folder.items), **by_id)


def ids(file: Path) -> list[str]:
    return [one["id"] for one in lines(file)]


def test_decisions_part_the_items(preparation: Folder) -> None:
    given = decisions(preparation, a="accept", c="reject")
    given["decisions"][1]["note"] = "two answers"
    before = preparation.items.read_bytes()
    applied = apply_decisions(preparation, save(preparation, given))
    assert (applied.accepted, applied.untouched) == (1, 1)
    assert applied.rejected == {"c": "two answers"}
    assert applied.undecided == ("b", "d")
    assert ids(preparation.path / ACCEPT_FILE) == ["a", "e"]
    assert ids(preparation.path / REJECT_FILE) == ["c"]
    (ref,) = ItemsFile(preparation.path / REJECT_FILE).check_items()
    assert not ref.data.questions
    assert preparation.items.read_bytes() == before
    changed = apply_decisions(preparation, save(preparation, decisions(preparation, a="reject")))
    assert ids(preparation.path / ACCEPT_FILE) == ["e"]
    assert changed.accepted == 0


def test_an_arbiter_decides_where_two_differ(preparation: Folder, tmp_path: Path) -> None:
    """The second looked at two of the three; they agree on one of them."""
    people = [{"a": "accept", "b": "reject", "c": "reject"}, {"b": "reject", "c": "accept"}]
    first, second, arbiter = (
        save(Folder(tmp_path / str(n) / "out"), decisions(preparation, **each))
        for n, each in enumerate([*people, {"a": "reject", "c": "accept"}])
    )
    open_ = apply_decisions(preparation, first, second)
    assert (open_.accepted, [*open_.rejected], open_.disputes, open_.undecided) == (1, ["b"], ("c",), ("c", "d"))
    assert ids(preparation.path / ACCEPT_FILE) == ["a", "e"]
    final = apply_decisions(preparation, first, second, arbiter=arbiter)
    assert (final.accepted, [*final.rejected], final.disputes) == (2, ["b"], ())
    assert ids(preparation.path / ACCEPT_FILE) == ["a", "c", "e"], "on what nobody disputes the arbiter has no word"


def twice(decided: dict[str, Any]) -> dict[str, Any]:
    return decided | {"decisions": decided["decisions"] * 2}


def add_marks(decided: dict[str, Any], *marks: int) -> dict[str, Any]:
    return decided | {
        "decisions": [decided["decisions"][0] | {"marks": {str(n): mark for n, mark in enumerate(marks)}}]
    }


def change_digest(decided: dict[str, Any]) -> dict[str, Any]:
    return decided | {"decisions": [decided["decisions"][0] | {"seen": "sha256:0"}]}


BAD: list[tuple[str, Callable[[Folder], Any], str]] = [
    ("no JSON", lambda f: "accept all", "is no file of decisions"),
    ("another file", lambda f: {"a": 1}, "is no file of decisions"),
    ("another format", lambda f: decisions(f) | {"review": "x"}, "is no file of decisions"),
    ("no decision", lambda f: decisions(f, a="maybe"), "decision"),
    ("other data", lambda f: decisions(f) | {"data_digest": "sha256:0"}, "for other data"),
    ("other things", lambda f: decisions(f) | {"what": "masks"}, "about masks for other data"),
    ("no such item", lambda f: decisions(f, z="accept"), "nothing to review: z"),
    ("failed", lambda f: decisions(f, d="accept"), "nothing to review: d"),
    ("had it", lambda f: decisions(f, e="reject"), "nothing to review: e"),
    ("twice", lambda f: twice(decisions(f, a="accept")), "several decisions about a"),
    ("poor marks", lambda f: add_marks(decisions(f, a="accept"), 3, 2), "accepts items without full marks: a"),
    ("changed", lambda f: change_digest(decisions(f, b="accept")), "since they were reviewed: b"),
]


@pytest.mark.parametrize(("make", "said"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_decisions_about_something_else_are_refused(
    preparation: Folder, make: Callable[[Folder], Any], said: str
) -> None:
    with pytest.raises(InputError, match=r"review\.json") as caught:
        apply_decisions(preparation, save(preparation, make(preparation)))
    assert said in str(caught.value)
    assert not (preparation.path / ACCEPT_FILE).exists()


def test_a_mask_that_was_replaced_must_be_seen_again(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", [{"id": "a/1", "instruction": "x"}])
    folder = Folder(tmp_path / "out")
    with folder.lock():
        folder.begin(data, "masks")
        assert folder.write_mask("a/1", PNG) == "masks/a/1.png"
        folder.write_items(data, {"a/1": Entry("made", mask=PNG)})
    (ref,) = ItemsFile(folder.items).items()
    before = folder.review_digest(ref.data)
    folder.write_mask("a/1", PNG + b"!")
    assert folder.review_digest(ref.data) != before


def test_paths_lead_to_the_same_files_through_links(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", [{"id": "a", "instruction": "x", "target": "s.png"}])
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "far" / "away")
    folder = Folder(tmp_path / "out")
    folder.write_items(data, {"a": Entry("failed", "x")})
    (ref,) = ItemsFile(folder.items).check_items()
    assert ref.data.source == ref.data.target == "pictures/s.png"
    assert (folder.path / "pictures").readlink() == Path("../../data")
    absolute = write_data(tmp_path / "b", [{"id": "a", "instruction": "x", "source": str(tmp_path / "b" / "s.png")}])
    folder.write_items(absolute, {"a": Entry("failed", "x")})
    (ref,) = ItemsFile(folder.items).check_items()
    assert ref.data.source == "pictures/s.png"
    assert (folder.path / "pictures").resolve() == tmp_path / "b"
    outside = [{"id": "a", "instruction": "x", "source": "../data/s.png"}]
    folder.write_items(write_data(tmp_path / "c", outside), {"a": Entry("failed", "x")})
    (ref,) = ItemsFile(folder.items, {"": str(tmp_path / "data")}).check_items()
    assert ref.data.source == "../../data/s.png"
    with pytest.raises(InputError, match="outside the folder of the data"):
        list(ItemsFile(folder.items).check_items())


def test_a_folder_is_held_by_one_process(tmp_path: Path) -> None:
    with Folder(tmp_path / "out").lock():
        with pytest.raises(ConfigError, match="in use"), Folder(tmp_path / "out").lock():
            pass
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="can be written"), Folder(tmp_path / "file").lock():
        pass


def test_what_cannot_be_written_or_read_says_where(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    with pytest.raises(StoreError, match="masks"):
        folder.write_mask("n" * 255, PNG)
    (tmp_path / "out" / "prepared.json").write_text("{}")
    with pytest.raises(InputError, match=r"prepared\.json"):
        folder.record()
    with pytest.raises(ConfigError, match="holds no preparation"):
        apply_decisions(Folder(tmp_path / "none"), tmp_path / "review.json")
    assert not (tmp_path / "none").exists(), "it is not made"
