"""What changed between two sessions is judged again, whichever way it changed, and nothing else.

Each case runs twice: by a clock that is right, where files that were just written are read again,
and by one that is a day ahead, where every file seems to have been settled when it was read.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pil

import editjudge
from editjudge import RunResult, RunSpec, RunView
from editjudge.app import run as module
from editjudge.app.export import rows_of
from editjudge.app.merge import merge
from editjudge.app.rescore import rescored_run
from editjudge.app.run import foreseen
from editjudge.app.wire.checks import Estimate
from editjudge.app.wire.results import Summary
from editjudge.app.wire.run import Noted, RunEvent
from editjudge.base import files, images
from editjudge.base.config import GeneralistEndpoint, Settings
from editjudge.base.errors import ConfigError, InputError, UnreadError
from editjudge.engine import scheduler
from editjudge.engine.scheduler import Scheduler
from editjudge.storage.store import RunStore
from editjudge.storage.tables import EDITS, FACTS, HEADER, ITEMS

from ...fakes.openai import ScriptedOpenAi

DIMENSIONS = ("core.psnr.source.whole", "core.psnr.source.outside", "core.psnr.target.inside")
LEVELS = "core.instruction_following"
COUNT = 4
DAY = 86_400 * 10**9
Folder = Callable[[Path], None]


def save(path: Path, pixels: NDArray[np.uint8]) -> None:
    """As BMP, whose size says nothing of its content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Pil.fromarray(pixels).save(path, format="BMP")


def noise(seed: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def half(*, left: bool) -> NDArray[np.uint8]:
    mask = np.zeros((8, 12), np.uint8)
    mask[:, :6] = 255
    return mask if left else 255 - mask


@pytest.fixture(params=["right", "a day ahead"], autouse=True)
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The clock that editjudge goes by."""
    if request.param != "right":
        monkeypatch.setattr(files, "time_ns", lambda: time.time_ns() + DAY)
    return str(request.param)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were read to compare them."""
    read: list[str] = []
    whole = files.file_digest

    def counted(path: Any) -> str:
        read.append(Path(path).name)
        return whole(path)

    monkeypatch.setattr(files, "file_digest", counted)
    return read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Items with sources of their own, one for two of them; outputs, and others beside them."""
    lines = []
    for index in range(COUNT):
        source = f"sources/{index // 2}.bmp"
        save(tmp_path / "data" / source, noise(index // 2, 8, 12, 3))
        save(tmp_path / "data" / f"masks/{index}.bmp", half(left=True))
        save(tmp_path / "data" / f"targets/{index}.bmp", noise(10 + index, 8, 12, 3))
        save(tmp_path / "v1" / f"{index}.bmp", noise(20 + index, 8, 12, 3))
        save(tmp_path / "v2" / f"{index}.bmp", noise(30 + index, 8, 12, 3))
        lines.append(
            {
                "id": str(index),
                "instruction": f"edit {index}",
                "source": source,
                "mask": f"masks/{index}.bmp",
                "target": f"targets/{index}.bmp",
            }
        )
    write(tmp_path, lines)
    (tmp_path / "ours").symlink_to("v1")
    return tmp_path


def write(folder: Path, lines: list[dict[str, Any]]) -> None:
    (folder / "data" / "items.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


def lines_of(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "data" / "items.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def spec(folder: Path, **given: Any) -> RunSpec:
    asked: dict[str, Any] = {
        "benchmark": "core",
        "data": folder / "data",
        "outputs": {"ours": folder / "ours"},
        "dimensions": DIMENSIONS,
    }
    return RunSpec(**{**asked, **given})


def values(out: Path) -> dict[tuple[str, str, str], float]:
    with RunView(out) as view:
        return {
            (one.item, one.model, one.dimension): one.verdict.value  # type: ignore[union-attr]
            for one in view.verdicts()
        }


def again(folder: Path, *, out: str = "run", **given: Any) -> tuple[RunResult, list[str]]:
    """Give the command once more; what came of it, and what it said."""
    said: list[RunEvent] = []
    result = editjudge.run(spec(folder, **given), out=folder / out, progress=said.append)
    return result, [one.text for one in said if isinstance(one, Noted)]


def rewritten(path: Path, data: bytes, times: os.stat_result | None = None) -> None:
    """Write into a file that is there, and give it its old times."""
    times = times or path.stat()
    with path.open("r+b") as file:
        file.truncate()
        file.write(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _folders_change_places(folder: Path) -> None:
    (folder / "v1").rename(folder / "old")
    (folder / "v2").rename(folder / "v1")


def _folder_is_linked_elsewhere(folder: Path) -> None:
    (folder / "ours").unlink()
    (folder / "ours").symlink_to("v2")


def _files_change_places(folder: Path) -> None:
    for index in range(COUNT):
        (folder / "v2" / f"{index}.bmp").replace(folder / "v1" / f"{index}.bmp")


def _files_are_linked_elsewhere(folder: Path) -> None:
    for index in range(COUNT):
        (folder / "v1" / f"{index}.bmp").unlink()
        (folder / "v1" / f"{index}.bmp").symlink_to(folder / "v2" / f"{index}.bmp")


def _files_are_hard_links(folder: Path) -> None:
    for index in range(COUNT):
        (folder / "v1" / f"{index}.bmp").unlink()
        (folder / "v1" / f"{index}.bmp").hardlink_to(folder / "v2" / f"{index}.bmp")


def _rewritten_in_place(folder: Path) -> None:
    for index in range(COUNT):
        data = (folder / "v2" / f"{index}.bmp").read_bytes()
        rewritten(folder / "v1" / f"{index}.bmp", data)


def _a_backup_comes_back(folder: Path) -> None:
    for index in range(COUNT):
        there = folder / "v1" / f"{index}.bmp"
        times = there.stat()
        shutil.copyfile(folder / "v2" / f"{index}.bmp", folder / "back.bmp")
        os.utime(folder / "back.bmp", ns=(times.st_atime_ns, times.st_mtime_ns - DAY))
        (folder / "back.bmp").replace(there)


@pytest.mark.parametrize(
    "change",
    [
        _folders_change_places,
        _folder_is_linked_elsewhere,
        _files_change_places,
        _files_are_linked_elsewhere,
        _files_are_hard_links,
        _rewritten_in_place,
        _a_backup_comes_back,
    ],
)
def test_outputs_that_became_others_are_judged_again(folder: Path, change: Folder) -> None:
    again(folder)
    before = values(folder / "run")
    change(folder)
    result, said = again(folder)
    again(folder, out="fresh")
    assert values(folder / "run") == values(folder / "fresh") != before
    assert result.finished.edits == COUNT
    assert any(line.startswith(f"{COUNT} outputs are others than last time") for line in said)


def _mask_is_inverted(folder: Path) -> None:
    save(folder / "data" / "masks" / "1.bmp", half(left=False))


def _mask_is_inverted_in_place(folder: Path) -> None:
    save(folder / "other.bmp", half(left=False))
    rewritten(folder / "data" / "masks" / "1.bmp", (folder / "other.bmp").read_bytes())


def _mask_is_another_link(folder: Path) -> None:
    save(folder / "other.bmp", half(left=False))
    (folder / "data" / "masks" / "1.bmp").unlink()
    (folder / "data" / "masks" / "1.bmp").symlink_to(folder / "other.bmp")


def _target_is_replaced(folder: Path) -> None:
    save(folder / "other.bmp", noise(40, 8, 12, 3))
    (folder / "other.bmp").replace(folder / "data" / "targets" / "1.bmp")


def _source_of_two_is_replaced(folder: Path) -> None:
    save(folder / "data" / "sources" / "0.bmp", noise(41, 8, 12, 3))


def _folders_of_data_change_places(folder: Path) -> None:
    shutil.copytree(folder / "data" / "masks", folder / "other", copy_function=shutil.copy2)
    save(folder / "other" / "1.bmp", half(left=False))
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
    folder: Path, change: Folder, count: int
) -> None:
    again(folder)
    before = values(folder / "run")
    change(folder)
    with RunView(folder / "run") as view:
        table = view.results()
        assert {cell.counts["pending"] for cell in table.cells["ours"].values()} == {count}
    result, said = again(folder)
    again(folder, out="fresh")
    assert values(folder / "run") == values(folder / "fresh") != before
    assert result.finished.edits == count
    first = "0" if count == 2 else "1"
    several = f"{count} items changed since they were judged, and are to be judged again"
    told = f"data: {several if count > 1 else '1 item changed since it was judged, and is to be'}"
    assert any(line.startswith(told) and line.endswith(f"(first: {first})") for line in said)
    quiet, said = again(folder)
    assert (quiet.finished.edits, said) == (0, [])


def test_a_model_may_move_and_may_not_become_another(folder: Path) -> None:
    again(folder)
    shutil.copytree(folder / "v1", folder / "moved")
    result, said = again(folder, outputs={"ours": folder / "moved"})
    assert (result.finished.edits, said) == (0, [])
    with RunView(folder / "run") as view:
        assert view.spec.outputs == {"ours": folder / "moved"}
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"moved, and .*/v2 holds none of them; give these"):
            again(folder, outputs={"ours": folder / "v2"})
    shutil.copyfile(folder / "v1" / "0.bmp", folder / "v2" / "0.bmp")
    assert again(folder, outputs={"ours": folder / "v2"})[0].finished.edits == COUNT - 1


def test_what_was_judged_of_another_item_is_an_earlier_verdict(folder: Path) -> None:
    again(folder)
    before = values(folder / "run")
    _mask_is_inverted(folder)
    again(folder)
    with RunView(folder / "run") as view:
        earlier = {
            (one.verdict.item, one.verdict.model, one.verdict.dimension): one
            for one in view.earlier()
        }
    assert {key: one.verdict.verdict.value for key, one in earlier.items()} == {  # type: ignore[union-attr]
        key: value for key, value in before.items() if key[0] == "1"
    }
    assert {one.why for one in earlier.values()} == {"item"}


def test_what_was_only_copied_or_moved_is_read_once_and_not_judged(
    folder: Path, hashed: list[str], clock: str
) -> None:
    again(folder)
    before = values(folder / "run")
    shutil.copytree(folder / "v1", folder / "copies")
    (folder / "ours").unlink()
    (folder / "ours").symlink_to("copies")
    shutil.copytree(folder / "data", folder / "moved")
    shutil.rmtree(folder / "data")
    (folder / "moved").rename(folder / "data")
    hashed.clear()
    result, said = again(folder)
    assert (result.finished.edits, said, values(folder / "run")) == (0, [], before)
    of_items = {"0.bmp", "1.bmp", "2.bmp", "3.bmp"}
    assert set(hashed) == of_items
    if clock != "right":
        assert len(hashed) == 2 + 3 * COUNT, "each file once, whichever items name it"
        hashed.clear()
        again(folder)
        assert not hashed


def test_what_a_first_session_loads_is_not_read_again_to_compare_it(
    folder: Path, hashed: list[str]
) -> None:
    again(folder)
    assert not hashed


def test_a_file_that_changes_after_it_was_read_is_judged_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = images._read

    def changing(path: Path, shown: str) -> bytes:
        data = read(path, shown)
        if path.parts[-2:] == ("targets", "1.bmp"):
            save(path, noise(99, 8, 12, 3))
        return data

    with monkeypatch.context() as patched:
        patched.setattr(images, "_read", changing)
        assert again(folder)[0].finished.exit_code == 0
    assert again(folder)[0].finished.edits == 1
    again(folder, out="fresh")
    assert values(folder / "run") == values(folder / "fresh")


def test_what_is_gone_stays_judged(folder: Path) -> None:
    again(folder)
    before = values(folder / "run")
    (folder / "data" / "masks" / "1.bmp").unlink()
    (folder / "v1" / "2.bmp").unlink()
    result, _ = again(folder)
    assert (result.finished.edits, values(folder / "run")) == (0, before)


def test_an_output_that_could_not_be_read_is_read_again_when_it_changed(folder: Path) -> None:
    whole = (folder / "v1" / "1.bmp").read_bytes()
    (folder / "v1" / "1.bmp").write_bytes(b"no picture")
    again(folder)
    quiet, said = again(folder)
    assert quiet.finished.edits == 0
    assert not any("others than last time" in line for line in said)
    rewritten(folder / "v1" / "1.bmp", whole)
    assert again(folder)[0].finished.edits == 1


def test_an_output_that_was_missing_and_came_is_no_other_than_last_time(folder: Path) -> None:
    (folder / "v1" / "1.bmp").rename(folder / "kept.bmp")
    again(folder)
    (folder / "kept.bmp").rename(folder / "v1" / "1.bmp")
    result, said = again(folder)
    assert (result.finished.edits, said) == (1, [])
    again(folder, out="fresh")
    assert values(folder / "run") == values(folder / "fresh")
    (folder / "v1" / "1.bmp").write_bytes((folder / "v2" / "1.bmp").read_bytes())
    assert again(folder)[1] == [
        "1 output is another than last time, and is judged anew (first: 1 of ours)"
    ]


def test_outputs_whose_items_could_not_be_loaded_are_no_others_than_last_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked at them: they may lie in another folder now, too."""
    with monkeypatch.context() as patched:
        lost = InputError("0", "its files change while they are read")
        patched.setattr(scheduler._Source, "_load", lambda *_: lost)
        assert str(lost) in str(again(folder)[0].finished.first_failure)
    result, said = again(folder, outputs={"ours": folder / "v2"})
    assert (result.finished.edits, said) == (COUNT, [])


def _mended(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [lines[0], lines[1] | {"instruction": "mended"}, *lines[2:]]


def _added(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [lines[0], lines[1] | {"id": "new"}, *lines[1:]]


CASES: dict[str, tuple[Callable[[list[dict[str, Any]]], list[dict[str, Any]]], dict[str, int]]] = {
    "mended": (_mended, {"changed": 1}),
    "a field more": (
        lambda lines: [lines[0] | {"hint": "a cup"}, *lines[1:]],
        {"changed": 1},
    ),
    "another mask": (
        lambda lines: [lines[0] | {"mask_shows": "kept"}, *lines[1:]],
        {"changed": 1},
    ),
    "no mask": (
        lambda lines: [{k: v for k, v in lines[0].items() if k != "mask"}, *lines[1:]],
        {"changed": 1},
    ),
    "removed": (lambda lines: lines[1:], {"gone": 1}),
    "other order": (lambda lines: lines[::-1], {}),
    "other order of fields": (lambda lines: [dict(reversed(x.items())) for x in lines], {}),
    "spaces": (lambda lines: [x | {"instruction": f" {x['instruction']} "} for x in lines], {}),
    "sources in a list": (
        lambda lines: [
            {k: v for k, v in x.items() if k != "source"} | {"sources": [x["source"]]}
            for x in lines
        ],
        {},
    ),
    "all at once": (
        lambda lines: [lines[3], lines[1] | {"id": "new"}, lines[0] | {"hint": "a cup"}, lines[2]],
        {"changed": 1, "new": 1, "gone": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_items_are_compared_each_by_itself(folder: Path, case: str) -> None:
    again(folder)
    change, due = CASES[case]
    write(folder, change(lines_of(folder)))
    if "new" in due:
        shutil.copyfile(folder / "v2" / "0.bmp", folder / "v1" / "new.bmp")
    estimate, plan, _ = foreseen(spec(folder), folder / "run", Settings())
    told = Estimate.of(estimate, plan.item_changes).data
    with RunView(folder / "run") as view:
        results = view.results()
    for data in (told, Summary.of(results).data):
        counts = data.model_dump(exclude={"outputs"})
        assert {n: one["count"] for n, one in counts.items() if one["count"]} == due
    left = due.get("changed", 0) + due.get("new", 0)
    items = COUNT + due.get("new", 0) - due.get("gone", 0)
    for cell in results.cells["ours"].values():
        assert cell.counts.get("pending", 0) <= left
        assert sum(cell.counts.values()) <= items
    result, said = again(folder)
    again(folder, out="fresh")
    fresh = values(folder / "fresh")
    assert {key: one for key, one in values(folder / "run").items() if key in fresh} == fresh
    assert result.finished.edits == left
    assert len([line for line in said if line.startswith("data: ")]) == len(due)
    with RunView(folder / "run") as view, RunView(folder / "fresh") as other:
        assert view.results().cells == other.results().cells


def test_an_item_comes_back_with_its_verdicts(folder: Path) -> None:
    again(folder)
    before, whole = values(folder / "run"), lines_of(folder)
    write(folder, whole[1:])
    again(folder)
    assert values(folder / "run") == before
    write(folder, whole)
    result, said = again(folder)
    assert (result.finished.edits, values(folder / "run")) == (0, before)
    assert [line for line in said if line.startswith("data: ")] == ["data: 1 item new (first: 0)"]


def test_data_of_something_else_is_refused(folder: Path) -> None:
    again(folder)
    write(folder, [line | {"id": f"other/{line['id']}"} for line in lines_of(folder)])
    with pytest.raises(ConfigError, match=r"4 items were judged \(first: \d\), and .* has none of"):
        again(folder, outputs={"ours": folder / "v1"})


def test_a_session_that_ends_before_it_judges_forgets_no_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again(folder)
    write(folder, _mended(lines_of(folder)))

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module.Session, "left", ends)
        with pytest.raises(KeyboardInterrupt):
            again(folder)
    assert again(folder)[0].finished.edits == 1


def test_other_models_of_a_changed_item_do_not_stand(folder: Path) -> None:
    outputs = {"ours": folder / "v1", "theirs": folder / "v2"}
    again(folder, outputs=outputs)
    write(folder, _mended(lines_of(folder)))
    assert again(folder, outputs={"ours": folder / "v1"})[0].finished.edits == 1
    with RunView(folder / "run") as view:
        counts = {
            model: cell.counts
            for model, row in view.results().cells.items()
            for cell in row.values()
        }
    assert counts == {"ours": {"scored": COUNT}, "theirs": {"scored": COUNT - 1, "pending": 1}}
    assert again(folder, outputs=outputs)[0].finished.edits == 1


def test_what_an_item_was_is_kept_of_those_beyond_the_limit_too(folder: Path) -> None:
    again(folder)
    lines = lines_of(folder)
    write(folder, [*lines[:3], lines[3] | {"hint": "a cup"}])
    assert again(folder, limit=1)[0].finished.edits == 0
    assert again(folder)[0].finished.edits == 1


async def test_calls_that_stay_the_same_are_not_made_again(folder: Path) -> None:
    server = ScriptedOpenAi(probabilities={"good": 0.7, "bad": 0.3})
    async with server.serving() as url:
        settings = Settings(generalists={"judge": GeneralistEndpoint(url=url)})
        asked = spec(folder, dimensions=(LEVELS, *DIMENSIONS))
        await editjudge.run_async(asked, out=folder / "run", settings=settings)
        calls = len(server.requests)
        assert len(values(folder / "run")) == COUNT * 4, "all have a number"
        await asyncio.to_thread(_mask_is_inverted, folder)
        result = await editjudge.run_async(asked, out=folder / "run", settings=settings)
        assert result.finished.edits == 1
        assert len(server.requests) == calls, "no question shows the mask"
        write(folder, _mended(lines_of(folder)))
        result = await editjudge.run_async(asked, out=folder / "run", settings=settings)
        assert result.finished.edits == 1
        assert len(server.requests) == calls + 1


def begun_earlier(out: Path) -> None:
    """Make a run what form 4 becomes: it does not know what its items and outputs were."""
    with RunStore.open(out) as store, store.database.transaction():
        store.database.delete(ITEMS, "true")
        store.database.delete(FACTS, "name LIKE 'items%'")
        store.database.change(EDITS, "true", {}, seen=None)
        store.database.change(HEADER, "name = 'per_item'", {}, value="false")
        assert not store.header.per_item


def test_a_run_of_an_earlier_form_goes_on_with_the_same_data(
    folder: Path, hashed: list[str]
) -> None:
    again(folder)
    before = values(folder / "run")
    begun_earlier(folder / "run")
    hashed.clear()
    with RunView(folder / "run") as view:
        assert view.results().cells["ours"][DIMENSIONS[0]].value is not None
    assert not hashed, "who only looks keeps nothing"
    result, said = again(folder)
    assert (result.finished.edits, said, values(folder / "run")) == (0, [], before)
    assert set(hashed) == {f"{index}.bmp" for index in range(COUNT)}
    _mask_is_inverted(folder)
    assert again(folder)[0].finished.edits == 1


def test_of_other_data_a_run_of_an_earlier_form_judges_all_again(folder: Path) -> None:
    again(folder)
    begun_earlier(folder / "run")
    write(folder, _mended(lines_of(folder))[:-1])
    with RunView(folder / "run") as view:
        assert view.results().cells["ours"][DIMENSIONS[0]].counts == {"pending": COUNT - 1}
    result, said = again(folder)
    assert result.finished.edits == COUNT - 1
    told = [line for line in said if line.startswith("data: ")]
    assert told[0].startswith("data: 3 items may have changed since they were judged")
    assert told[1].startswith("data: 1 item gone")
    again(folder, out="fresh")
    fresh = values(folder / "fresh")
    assert {key: one for key, one in values(folder / "run").items() if key in fresh} == fresh
    assert again(folder)[0].finished.edits == 0


def test_shards_of_which_an_item_differs_are_not_merged(folder: Path) -> None:
    shards = [folder / "first", folder / "second"]
    asked = spec(folder)
    editjudge.run(asked, out=shards[0], shard=(0, 2))
    editjudge.run(asked, out=shards[1], shard=(1, 2))
    lines = lines_of(folder)
    write(folder, [*lines[:3], lines[3] | {"hint": "a cup"}])
    editjudge.run(asked, out=shards[1], shard=(1, 2))
    merge(shards, folder / "run")
    assert again(folder)[0].finished.edits == 0, "no item was judged by both"
    write(folder, lines)
    assert again(folder)[0].finished.edits == 1

    again(folder, out="third")
    with pytest.raises(ConfigError, match="third judged another 3 than a run before it") as raised:
        merge([*shards, folder / "third"], folder / "all")
    assert "on today's data" in raised.value.mend


def test_rescore_leaves_alone_what_was_judged_of_another_item(folder: Path) -> None:
    again(folder)
    before = values(folder / "run")
    _mask_is_inverted(folder)
    changes = rescored_run(folder / "run", write=True)
    assert {(one.kept, one.why) for one in changes.values()} == {
        (1, "the item is not what was judged")
    }
    assert values(folder / "run") == before


MORE = (*DIMENSIONS, "core.mse.source.whole")


@pytest.mark.parametrize("moment", ["planning", "judging"])
def test_an_output_that_cannot_be_read_for_a_moment_keeps_its_verdicts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    again(folder)
    before = values(folder / "run")
    whole = images._read if moment == "judging" else files.file_digest

    def failing(path: Any, *more: Any) -> Any:
        if str(path).endswith("ours/1.bmp"):
            raise OSError(24, "Too many open files")
        return whole(path, *more)

    if moment == "judging":
        monkeypatch.setattr(images, "_read", _as_read(failing))
    else:
        os.utime(folder / "v1" / "1.bmp")
        monkeypatch.setattr(files, "file_digest", failing)
    again(folder, dimensions=MORE)
    kept = values_of(folder / "run", DIMENSIONS)
    assert kept == before
    monkeypatch.undo()
    result, _ = again(folder, dimensions=MORE)
    assert result.ended == "done"
    again(folder, out="fresh", dimensions=MORE)
    assert values_of(folder / "run", MORE) == values_of(folder / "fresh", MORE)


def _as_read(failing: Any) -> Any:
    """`_read` with the translation that it makes of what the system says."""

    def read(path: Path, shown: str) -> bytes:
        try:
            return bytes(failing(path, shown))
        except OSError as error:
            raise UnreadError(shown, f"cannot be read: {error.strerror}") from error

    return read


def values_of(out: Path, dimensions: tuple[str, ...]) -> dict[tuple[str, str, str], Any]:
    with RunView(out) as view:
        return {
            (one.item, one.model, one.dimension): getattr(one.verdict, "value", one.verdict)
            for one in view.verdicts()
            if one.dimension in dimensions
        }


def test_an_output_that_goes_away_while_others_are_judged_stays_judged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again(folder)
    before = values(folder / "run")
    begun = Scheduler.run

    async def run(self: Scheduler, queue: Any) -> Any:
        (folder / "v1" / "1.bmp").unlink()
        return await begun(self, queue)

    monkeypatch.setattr(Scheduler, "run", run)
    again(folder, dimensions=MORE)
    assert values_of(folder / "run", DIMENSIONS) == before


@pytest.mark.parametrize("exchanged", ["links", "folders"])
def test_no_table_shows_what_another_output_was_given(folder: Path, exchanged: str) -> None:
    again(folder)
    if exchanged == "links":
        (folder / "ours").unlink()
        (folder / "ours").symlink_to("v2")
    else:
        (folder / "v1").rename(folder / "old")
        (folder / "v2").rename(folder / "v1")
    with RunView(folder / "run") as view:
        results = view.results()
        assert {cell.scored for cell in results.cells["ours"].values()} == {0}
        assert any("4 outputs are others" in line for line in results.changes.lines)
        rows = [row for row in rows_of(view) if row.status == "scored"]
        assert {row.became for row in rows} == {"changed"}
        assert Summary.of(results).data.outputs["ours"].count == COUNT
    again(folder)
    with RunView(folder / "run") as view:
        assert not view.results().changes.lines
        assert {row.became for row in rows_of(view)} == {"same"}


def test_outputs_that_were_put_away_stay_as_they_were_judged(folder: Path) -> None:
    again(folder)
    with RunView(folder / "run") as view:
        before = view.results().cells
    (folder / "v1").rename(folder / "away")
    with RunView(folder / "run") as view:
        assert view.results().cells == before


def test_an_export_marks_items_that_changed_or_are_gone(folder: Path) -> None:
    again(folder)
    lines = lines_of(folder)
    write(folder, [lines[0] | {"instruction": "another"}, *lines[2:]])
    with RunView(folder / "run") as view:
        became = {row.item: row.became for row in rows_of(view)}
    assert became == {"0": "changed", "1": "gone", "2": "same", "3": "same"}
