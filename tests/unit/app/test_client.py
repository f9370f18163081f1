"""Edits from Python, one and many: side by side, in a running loop, pickled, cancelled, broken."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import editjudge
from editjudge import Client, Judgement, Score
from editjudge.app.client import iterate_completed
from editjudge.base import errors, item
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError, EditjudgeError, ImageError, InputError
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.images import load_mask
from editjudge.base.item import Edit
from editjudge.base.verdict import NotServed
from editjudge.benchmarks.dimension import Dimension
from editjudge.benchmarks.registry import load_dimensions

from ...small_data import count_calls, save_picture

NAME = "core.mse.source.whole"
PIXELS = np.full((24, 32, 3), 100, np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source, its mask, and four edits that differ from it by 0 to 3."""
    save_picture(tmp_path / "source.png", PIXELS)
    save_picture(tmp_path / "mask.png", PIXELS[..., 0] > 200)
    for step in range(4):
        save_picture(tmp_path / f"{step}.png", PIXELS + np.uint8(step))
    return tmp_path


def make_arguments(folder: Path, step: int, **more: object) -> dict[str, Any]:
    paths = {"source": folder / "source.png", "edited": folder / f"{step}.png"}
    return {**paths, "instruction": "x", **more}


def score_many(edits: Any, names: Any = NAME, **more: Any) -> list[Any]:
    return editjudge.score_many(edits, names, settings=Settings(), **more)


def value(judged: Judgement | EditjudgeError) -> float:
    assert isinstance(judged, Judgement), judged
    (outcome,) = judged.outcomes.values()
    assert isinstance(outcome, Score), outcome
    return round(outcome.value)


def unpickle(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 - our own


def through_pickle(thing: Any) -> Any:
    return unpickle(pickle.dumps(thing))


# One edit


def test_an_edit_is_judged_in_ones_own_words(photo_file: Path, tmp_path: Path) -> None:
    words = tmp_path / "mine"
    (words / "core").mkdir(parents=True)
    file = words / "core" / "instruction_following.toml"

    def judge_edit(text: str) -> Judgement:
        file.write_text(f'user = "{text}"')
        asked = ["core.instruction_following", "core.editing_artifacts"]
        edit: Any = {"source": photo_file, "edited": photo_file, "instruction": "x"}
        return editjudge.score(**edit, dimensions=asked, settings=Settings(), prompts=words)

    own = judge_edit("{sources}{edited}{instruction}")
    assert {name: d.prompt_origins for name, d in own.dimensions.items()} == {
        "core.instruction_following": "custom",
        "core.editing_artifacts": "own",
    }
    assert all(isinstance(outcome, NotServed) for outcome in own.outcomes.values())
    with pytest.raises(ConfigError, match=r"instruction_following\.toml lacks {sources}"):
        judge_edit("{edited}{instruction}")


async def test_a_client_makes_a_signature_once(photo_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as it knows the same dimensions, and the services stay what they are."""
    made = count_calls(monkeypatch, Dimension, "signature", lambda of, *_: of.variant)
    edit = Edit.load(source=photo_file, edited=photo_file, instruction="x")
    own = replace(load_dimensions()[NAME], variant="mine")
    async with Client(Settings()) as client:
        first = await client.score(edit, [NAME])
        assert (await client.score(edit, [NAME])).signatures == first.signatures
        assert len(made) == 1
        of_own = await client.score(edit, [own])
        assert of_own.signatures[NAME] != first.signatures[NAME]
        assert made[1:] == ["mine"]
        another = {ServiceName("quality", "piqe"): ModelIdentity("another")}
        monkeypatch.setattr(client.panel, "identities", lambda: another)
        assert (await client.score(edit, [own])).signatures == of_own.signatures
        assert made[1:] == ["mine", "mine"]


def test_one_dimension_needs_no_list(photo_file: Path) -> None:
    edit: dict[str, Any] = {"source": photo_file, "edited": photo_file, "instruction": "x"}
    for asked in (NAME, load_dimensions()[NAME]):
        assert [*editjudge.score(**edit, dimensions=asked)] == [NAME]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimensions": []}, "no dimension is selected"),
        ({"dimensions": 3}, "dimensions: int is no id"),
        ({"dimensions": [NAME, 3]}, "dimensions: int is no id"),
        ({"instruction": None}, "instruction: NoneType where text"),
        ({"target_text": 5}, "target text: int where text"),
        ({"source": None}, "source: NoneType is not an image"),
        ({"source": []}, "source: no picture"),
        ({"source": "nowhere.png"}, "nowhere.png: no such file"),
        ({"edited": None}, "edited: NoneType is not an image"),
        ({"edited": PIXELS.astype(float)}, "edited: array of float64"),
        ({"edited": b""}, "edited: 0 bytes"),
        ({"mask": 5}, "mask: int is not an image"),
        ({"mask": [[True]]}, "mask: list is not an image"),
        ({"target": 3}, "target: int is not an image"),
        ({"settings": {"attempts": 1}}, "settings: dict is no Settings"),
        ({"judges": ["http://127.0.0.1:9/v1"]}, "judges: list is no Mapping"),
    ],
)
def test_what_was_given_wrongly_is_named_in_a_line(arguments: dict[str, Any], message: str) -> None:
    complete = {"source": PIXELS, "edited": PIXELS, "instruction": "x", "dimensions": NAME}
    with pytest.raises(EditjudgeError) as raised:
        editjudge.score(**(complete | arguments))
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


# Many edits


def test_results_are_in_order_and_a_broken_file_costs_its_edit(folder: Path) -> None:
    (folder / "2.png").write_bytes(b"no picture")
    told: list[int] = []
    judged = score_many(
        [make_arguments(folder, step) for step in range(4)], concurrency=2, progress=lambda place, _: told.append(place)
    )
    assert [value(judged[place]) for place in (0, 1, 3)] == [0, 1, 9]
    assert isinstance(judged[2], ImageError)
    assert "2.png" in str(judged[2])
    assert sorted(told) == [0, 1, 2, 3]


async def test_a_notebook_can_score_many(folder: Path) -> None:
    """Where a loop runs, as in Jupyter, the synchronous call works too."""
    edits = [Edit.load(**make_arguments(folder, step)) for step in (1, 2)]
    threads: list[threading.Thread] = []
    judged = score_many(edits, progress=lambda *_: threads.append(threading.current_thread()))
    assert list(map(value, judged)) == [1, 4]
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"edits": "1.png"}, r"edit 0: unknown 'edits'; Edit.load takes source, edited"),
        ({"edited": b""}, r"edit 0: .*missing 2 required .* 'source' and 'instruction'"),
        ({"source": (), "edited": b"x", "instruction": "x"}, "give one, or several"),
        ({"source": b"", "edited": b"", "instruction": "x"}, "0 bytes"),
        (5, "edit 0: int is neither an edit nor the arguments of one"),
    ],
)
def test_bad_input_is_one_line_of_its_edit(arguments: Any, told: str) -> None:
    (error,) = score_many([arguments])
    with pytest.raises(InputError, match=told):
        raise error
    assert "\n" not in str(error)


def test_what_no_edit_could_be_judged_by_is_raised(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no dimension matches 'nothing'"):
        score_many([make_arguments(folder, 0)], ["nothing"])
    with pytest.raises(InputError, match="0 edits at once; give 1 or more"):
        score_many([make_arguments(folder, 0)], concurrency=0)
    assert score_many([]) == []


async def test_no_more_are_in_progress_than_asked_for() -> None:
    """And none is taken from the iterable before it can begin; each is told when it is done."""
    taken, running, most = 0, 0, 0

    def edits() -> Iterator[int]:
        nonlocal taken
        for each in range(9):
            taken += 1
            yield each

    async def work(_: int, each: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert taken <= each + 3
        await asyncio.sleep(0)
        running -= 1
        return each * each

    results = [pair async for pair in iterate_completed(edits(), work, 3)]
    assert sorted(results) == [(each, each * each) for each in range(9)]
    assert most == 3


async def test_the_first_done_is_told_first() -> None:
    first = asyncio.Event()

    async def work(place: int, _: str) -> int:
        await (first.wait() if place == 0 else asyncio.sleep(0))
        return place

    order = []
    async for place, _ in iterate_completed("abc", work, 2):
        order.append(place)
        if place == 2:
            first.set()
    assert order == [1, 2, 0]


@pytest.mark.parametrize("how", ["cancelled", "left", "raised"])
async def test_who_goes_takes_what_is_in_progress_along(how: str) -> None:
    ended: list[int] = []
    begun = asyncio.Event()

    async def work(place: int, _: str) -> int:
        try:
            if place == 2:
                begun.set()
            await (begun.wait() if place == 0 else asyncio.sleep(3600))
        except asyncio.CancelledError:
            ended.append(place)
            raise
        if how == "raised":
            raise RuntimeError("the store is gone")
        return place

    async def all_of_them() -> None:
        async with aclosing(iterate_completed("abc", work, 3)) as results:
            async for _ in results:
                if how == "left":
                    return

    task = asyncio.create_task(all_of_them())
    await begun.wait()
    if how == "cancelled":
        await asyncio.sleep(0.01)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sorted(ended) == [1, 2]


async def test_an_edit_is_made_beside_the_loop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = count_calls(monkeypatch, item, "load_image", lambda *_: threading.current_thread())
    edit = await asyncio.to_thread(editjudge.Edit.load, **make_arguments(folder, 1, model="ours"))
    assert (edit.model, len(threads)) == ("ours", 2)
    assert threading.main_thread() not in threads


# Pickles


def test_a_pickled_edit_is_the_same_without_its_files(folder: Path) -> None:
    edit = Edit.load(**make_arguments(folder, 1, mask=folder / "mask.png"))
    data = pickle.dumps(edit)
    (folder / "1.png").unlink()
    again = unpickle(data)
    assert np.array_equal(again.output.rgb, edit.output.rgb)
    assert again.item.mask.region.tolist() == edit.item.mask.region.tolist()  # type: ignore[union-attr]
    for of in (again.output, edit.output):
        assert (of.size, of.notes) == ((32, 24), edit.output.notes)
        assert of.encoded_bytes == edit.output.encoded_bytes
    assert [p.digest for p in again.pictures] == [p.digest for p in edit.pictures]


def test_a_pickle_holds_no_pixels(folder: Path) -> None:
    pixels = np.full((400, 500, 3), 7, np.uint8)
    edit = Edit.load(source=folder / "source.png", edited=pixels, instruction="x")
    assert len(pickle.dumps(edit)) < 50_000
    assert np.array_equal(through_pickle(edit).output.rgb, pixels)


def test_a_mask_that_was_turned_stays_so(folder: Path) -> None:
    mask = load_mask(folder / "mask.png").invert()
    again = through_pickle(mask)
    assert again.region.all()
    assert (again.region.dtype, again.notes) == (bool, mask.notes)


def test_another_process_judges_a_pickled_edit_and_gives_it_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, and with what was given by a relative path."""
    monkeypatch.chdir(folder)
    edit = Edit.load(source="source.png", edited="2.png", instruction="x", mask="mask.png")
    broken = {"source": b"", "edited": b"", "instruction": "x"}
    code = (
        "import os, pickle, sys, editjudge\n"
        "os.chdir('/')\n"
        "given = pickle.load(sys.stdin.buffer)\n"
        f"judged = editjudge.score_many(given, [{NAME!r}], settings=editjudge.Settings())\n"
        "sys.stdout.buffer.write(pickle.dumps(judged))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps([edit, broken]), capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    judged, error = unpickle(ran.stdout)
    assert value(judged) == 4
    assert judged.edit.item.instruction == "x"
    assert isinstance(error, ImageError)
    assert (error.name, error.reason) == ("source", "0 bytes")


@pytest.mark.parametrize(
    "error",
    [
        ImageError("a.png", "broken", "fix it"),
        errors.MissingExtra("parquet export", "report"),
        errors.Overload("no room", service="ocr.ppocr", endpoint="grpc://x", retry_after=2.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_pickle_whole(error: EditjudgeError) -> None:
    again = through_pickle(error)
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
