"""Items that changed between two sessions are judged again, each by itself.

Each case runs twice: by a clock that is right, where files that were just written are read again,
and by one that is a day ahead, where every file seems to have been settled when it was read.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import editjudge
from editjudge import RunView
from editjudge.app import run as module
from editjudge.app.export import long_rows
from editjudge.app.merge import merge
from editjudge.app.rescoring import rescore_run
from editjudge.app.run import preview_run
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.base.errors import ConfigError, StoreError
from editjudge.storage.store import FILE

from ...fakes.openai import ScriptedOpenAi
from ...small_data import read_items, save_picture, write_items
from .changing import (
    COUNT,
    DIMENSIONS,
    LEVELS,
    Folder,
    Values,
    cells,
    count_judged_anew,
    half,
    is_like_a_fresh_run,
    noise,
    rewrite_file,
    run_again,
    spec,
    values,
)

pytestmark = pytest.mark.usefixtures("clock")


Lines = list[dict[str, Any]]


def rewrite(folder: Path, change: Callable[[Lines], Lines]) -> Lines:
    """Change the items; what they were."""
    lines = read_items(folder / "data")
    write_items(folder / "data", change(lines))
    return lines


def _mask_is_inverted(folder: Path) -> None:
    save_picture(folder / "data" / "masks" / "1.bmp", half(left=False))


def _mask_is_inverted_in_place(folder: Path) -> None:
    other = save_picture(folder / "other.bmp", half(left=False))
    rewrite_file(folder / "data" / "masks" / "1.bmp", other.read_bytes())


def _mask_is_another_link(folder: Path) -> None:
    other = save_picture(folder / "other.bmp", half(left=False))
    (folder / "data" / "masks" / "1.bmp").unlink()
    (folder / "data" / "masks" / "1.bmp").symlink_to(other)


def _target_is_replaced(folder: Path) -> None:
    other = save_picture(folder / "other.bmp", noise(40))
    other.replace(folder / "data" / "targets" / "1.bmp")


def _source_of_two_is_replaced(folder: Path) -> None:
    save_picture(folder / "data" / "sources" / "0.bmp", noise(41))


def _folders_of_data_change_places(folder: Path) -> None:
    shutil.copytree(folder / "data" / "masks", folder / "other", copy_function=shutil.copy2)
    save_picture(folder / "other" / "1.bmp", half(left=False))
    (folder / "data" / "masks").rename(folder / "old")
    (folder / "other").rename(folder / "data" / "masks")


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (_mask_is_inverted, 1),
        (_mask_is_inverted_in_place, 1),
        (_mask_is_another_link, 1),
        (_target_is_replaced, 1),
        (_source_of_two_is_replaced, 2),
        (_folders_of_data_change_places, 1),
    ],
)
def test_items_whose_pictures_became_others_are_judged_again(
    folder: Path, before: Values, change: Folder, count: int
) -> None:
    change(folder)
    assert {cell.counts["pending"] for cell in cells(folder)} == {count}
    assert count_judged_anew(folder) == count
    assert is_like_a_fresh_run(folder)
    assert values(folder / "run") != before
    quiet, said = run_again(folder)
    assert (quiet.last_event.edits, said) == (0, [])


def test_an_item_that_becomes_what_it_was_was_judged_before(folder: Path, before: Values) -> None:
    lines = rewrite(folder, _fix_instruction)
    assert count_judged_anew(folder) == 1
    write_items(folder / "data", lines)
    assert (count_judged_anew(folder), values(folder / "run")) == (0, before)


def _fix_instruction(lines: Lines) -> Lines:
    return [lines[0], lines[1] | {"instruction": "fixed"}, *lines[2:]]


def _last_has_a_hint(lines: Lines) -> Lines:
    return [*lines[:3], lines[3] | {"hint": "a cup"}]


CASES: dict[str, tuple[Callable[[Lines], Lines], dict[str, int]]] = {
    "fixed": (_fix_instruction, {"changed": 1}),
    "a field more": (_last_has_a_hint, {"changed": 1}),
    "another mask": (lambda lines: [lines[0] | {"mask_shows": "kept"}, *lines[1:]], {"changed": 1}),
    "no mask": (lambda lines: [{k: v for k, v in lines[0].items() if k != "mask"}, *lines[1:]], {"changed": 1}),
    "removed": (lambda lines: lines[1:], {"gone": 1}),
    "other order": (lambda lines: lines[::-1], {}),
    "other order of fields": (lambda lines: [dict(reversed(x.items())) for x in lines], {}),
    "spaces": (lambda lines: [x | {"instruction": f" {x['instruction']} "} for x in lines], {}),
    "sources in a list": (
        lambda lines: [{k: v for k, v in x.items() if k != "source"} | {"sources": [x["source"]]} for x in lines],
        {},
    ),
    "all at once": (
        lambda lines: [lines[3], lines[1] | {"id": "new"}, lines[0] | {"hint": "a cup"}, lines[2]],
        {"changed": 1, "new": 1, "gone": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_items_are_compared_each_by_itself(folder: Path, before: Values, case: str) -> None:
    change, due = CASES[case]
    rewrite(folder, change)
    if "new" in due:
        shutil.copyfile(folder / "v2" / "0.bmp", folder / "v1" / "new.bmp")
    _, plan = preview_run(spec(folder), folder / "run", Settings())
    with RunView(folder / "run") as view:
        note = f"{folder / 'data' / 'items.jsonl'} is not what the run judged"
        assert view.data_note == f"{note}; items are as the run stored them"
    left = due.get("changed", 0) + due.get("new", 0)
    for cell in cells(folder):
        assert cell.counts == {"scored": COUNT}, "until a session judges what the data has now"
    assert plan.edit_count == left
    assert count_judged_anew(folder) == left
    run_again(folder, out="fresh")
    fresh = values(folder / "fresh")
    assert {key: one for key, one in values(folder / "run").items() if key in fresh} == fresh
    with RunView(folder / "run") as view, RunView(folder / "fresh") as other:
        assert view.results().models == other.results().models


def test_an_item_comes_back_with_its_verdicts(folder: Path, before: Values) -> None:
    whole = rewrite(folder, lambda lines: lines[1:])
    assert count_judged_anew(folder) == 0
    with RunView(folder / "run") as view:
        assert {row.item for row in long_rows(view)} == {"1", "2", "3"}
    assert {cell.scored for cell in cells(folder)} == {COUNT - 1}
    write_items(folder / "data", whole)
    assert (count_judged_anew(folder), values(folder / "run")) == (0, before)


def test_data_of_something_else_is_refused(folder: Path, before: Values) -> None:
    rewrite(folder, lambda lines: [line | {"id": f"other/{line['id']}"} for line in lines])
    with pytest.raises(ConfigError, match=r"has none of the 4 items that .* \(first: \d\)"):
        run_again(folder, outputs={"ours": folder / "v1"})


def test_a_session_that_ends_before_it_judges_forgets_no_change(
    folder: Path, before: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(folder, _fix_instruction)

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "compare_with_last_session", ends)
        with pytest.raises(KeyboardInterrupt):
            run_again(folder)
    assert count_judged_anew(folder) == 1


def test_other_models_of_a_changed_item_do_not_stand(folder: Path) -> None:
    outputs = {"ours": folder / "v1", "theirs": folder / "v2"}
    run_again(folder, outputs=outputs)
    rewrite(folder, _fix_instruction)
    assert count_judged_anew(folder, outputs={"ours": folder / "v1"}) == 1
    for model, counts in (("ours", {"scored": 4}), ("theirs", {"scored": 3, "pending": 1})):
        assert [cell.counts for cell in cells(folder, model)] == [counts] * len(DIMENSIONS)
    assert count_judged_anew(folder, outputs=outputs) == 1


def test_what_an_item_was_is_kept_beyond_the_limit_too(folder: Path, before: Values) -> None:
    rewrite(folder, _last_has_a_hint)
    assert count_judged_anew(folder, limit=1) == 0
    assert count_judged_anew(folder) == 1


async def test_calls_that_stay_the_same_are_not_made_again(folder: Path) -> None:
    server = ScriptedOpenAi(probabilities={"good": 0.7, "bad": 0.3})
    async with server.serving() as url:
        settings = Settings(judges={"judge": JudgeEndpoint(url=url)})
        asked = spec(folder, dimensions=(LEVELS, *DIMENSIONS))

        async def judge() -> tuple[int, int]:
            """The edits that are judged, and the requests so far."""
            result = await editjudge.run_async(asked, out=folder / "run", settings=settings)
            return result.last_event.edits, len(server.requests)

        _, calls = await judge()
        assert len(values(folder / "run")) == COUNT * 4, "all have a number"
        _mask_is_inverted(folder)
        assert await judge() == (1, calls), "no question shows the mask"
        rewrite(folder, _fix_instruction)
        assert await judge() == (1, calls + 1)


def test_shards_of_which_an_item_differs_are_not_merged(folder: Path) -> None:
    shards = [folder / "first", folder / "second"]
    asked = spec(folder)
    editjudge.run(asked, out=shards[0], shard=(0, 2))
    editjudge.run(asked, out=shards[1], shard=(1, 2))
    lines = rewrite(folder, _last_has_a_hint)
    editjudge.run(asked, out=shards[1], shard=(1, 2))
    merge(shards, folder / "run")
    assert count_judged_anew(folder) == 0, "no item was judged by both"
    write_items(folder / "data", lines)
    assert count_judged_anew(folder) == 1

    run_again(folder, out="third")
    told = "third judged another version of 3 than an earlier run"
    with pytest.raises(ConfigError, match=told) as raised:
        merge([*shards, folder / "third"], folder / "all")
    assert "on the present data" in raised.value.fix


def test_rescore_leaves_alone_what_was_judged_of_another_item(folder: Path, before: Values) -> None:
    _mask_is_inverted(folder)
    changes = rescore_run(folder / "run", write=True)
    assert {(one.kept, one.why_kept) for one in changes} == {(1, "the item has changed since it was judged")}
    assert values(folder / "run") == before


def test_of_a_damaged_run_nobody_says_that_an_item_is_unknown(folder: Path, before: Values) -> None:
    with contextlib.closing(sqlite3.connect(folder / "run" / FILE)) as db, db:
        # One alone: they are read in the order in which they were judged.
        db.execute("UPDATE edits SET content = zeroblob(16) WHERE id = 1")
        assert db.total_changes == 1
    with RunView(folder / "run") as view, pytest.raises(StoreError, match=r"row 1 \(table edits\)"):
        view.results()
