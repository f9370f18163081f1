"""What changed between two sessions is judged again, whichever way it changed, and nothing else.

Each case runs twice: by a clock that is right, where files that were just written are read again,
and by one that is a day ahead, where every file seems to have been settled when it was read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editjudge import RunView
from editjudge.base import file_states, images
from editjudge.base.errors import ConfigError, InputError, UnreadError
from editjudge.engine import scheduler
from editjudge.engine.scheduler import Scheduler

from ...small_data import save_picture
from .changing import (
    COUNT,
    DAY,
    DIMENSIONS,
    Folder,
    Values,
    cells,
    count_judged_anew,
    is_like_a_fresh_run,
    noise,
    rewrite_file,
    run_again,
    values,
)

pytestmark = pytest.mark.usefixtures("clock")


def _folders_change_places(folder: Path) -> None:
    (folder / "v1").rename(folder / "old")
    (folder / "v2").rename(folder / "v1")


def _folder_is_linked_elsewhere(folder: Path) -> None:
    (folder / "ours").unlink()
    (folder / "ours").symlink_to("v2")


def _of_each(change: Callable[[Path, Path], Any]) -> Folder:
    """A change of each output, given the one that comes into its place."""

    def change_all(folder: Path) -> None:
        for index in range(COUNT):
            change(folder / "v1" / f"{index}.bmp", folder / "v2" / f"{index}.bmp")

    return change_all


def _link(there: Path, other: Path) -> None:
    there.unlink()
    there.symlink_to(other)


def _link_hard(there: Path, other: Path) -> None:
    there.unlink()
    there.hardlink_to(other)


def _restore_backup(there: Path, other: Path) -> None:
    times = there.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns - DAY))
    other.replace(there)


@pytest.mark.parametrize(
    "change",
    [
        _folders_change_places,
        _folder_is_linked_elsewhere,
        _of_each(lambda there, other: other.replace(there)),
        _of_each(_link),
        _of_each(_link_hard),
        _of_each(lambda there, other: rewrite_file(there, other.read_bytes())),
        _of_each(_restore_backup),
    ],
)
def test_outputs_that_became_others_are_judged(folder: Path, before: Values, change: Folder) -> None:
    change(folder)
    assert {cell.scored for cell in cells(folder)} == {0}, "no table shows what another was given"
    assert count_judged_anew(folder) == COUNT
    assert {cell.scored for cell in cells(folder)} == {COUNT}
    assert is_like_a_fresh_run(folder)
    assert values(folder / "run") != before


def test_outputs_that_come_back_were_judged_before(folder: Path, before: Values) -> None:
    _folders_change_places(folder)
    assert count_judged_anew(folder) == COUNT
    (folder / "old").rename(folder / "v2")
    shutil.rmtree(folder / "v1")
    (folder / "v2").rename(folder / "v1")
    assert count_judged_anew(folder) == 0
    assert values(folder / "run") == before


def test_a_model_may_move_and_may_not_become_another(folder: Path, before: Values) -> None:
    shutil.copytree(folder / "v1", folder / "moved")
    result, said = run_again(folder, outputs={"ours": folder / "moved"})
    assert (result.last_event.edits, said) == (0, [])
    with RunView(folder / "run") as view:
        assert view.spec.outputs == {"ours": folder / "moved"}
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"/v2 holds none of the outputs .*moved; give these"):
            run_again(folder, outputs={"ours": folder / "v2"})
    shutil.copyfile(folder / "v1" / "0.bmp", folder / "v2" / "0.bmp")
    assert count_judged_anew(folder, outputs={"ours": folder / "v2"}) == COUNT - 1


def test_what_was_only_copied_or_moved_is_read_once_and_not_judged(
    folder: Path, before: Values, hashed_files: list[str], clock: str
) -> None:
    shutil.copytree(folder / "v1", folder / "copies")
    (folder / "ours").unlink()
    (folder / "ours").symlink_to("copies")
    shutil.copytree(folder / "data", folder / "moved")
    shutil.rmtree(folder / "data")
    (folder / "moved").rename(folder / "data")
    hashed_files.clear()
    result, said = run_again(folder)
    assert (result.last_event.edits, said, values(folder / "run")) == (0, [], before)
    of_items = {"0.bmp", "1.bmp", "2.bmp", "3.bmp"}
    assert set(hashed_files) == of_items
    if clock != "right":
        assert len(hashed_files) == 2 + 3 * COUNT, "each file once, whichever items name it"
        hashed_files.clear()
        run_again(folder)
        assert not hashed_files


def test_what_a_first_session_loads_is_read_once(folder: Path, hashed_files: list[str]) -> None:
    run_again(folder)
    assert not hashed_files


def test_a_file_that_changes_after_it_was_read_is_judged_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = images._read_file

    def changing(path: Path, shown: str) -> bytes:
        data = read(path, shown)
        if path.parts[-2:] == ("targets", "1.bmp"):
            save_picture(path, noise(99))
        return data

    with monkeypatch.context() as patched:
        patched.setattr(images, "_read_file", changing)
        assert run_again(folder)[0].last_event.exit_code == 0
    assert count_judged_anew(folder) == 1
    assert is_like_a_fresh_run(folder)


def test_what_is_gone_stays_judged(folder: Path, before: Values) -> None:
    (folder / "data" / "masks" / "1.bmp").unlink()
    (folder / "v1" / "2.bmp").unlink()
    assert (count_judged_anew(folder), values(folder / "run")) == (0, before)


def test_an_output_that_could_not_be_read_is_read_again_when_it_changed(folder: Path) -> None:
    whole = (folder / "v1" / "1.bmp").read_bytes()
    (folder / "v1" / "1.bmp").write_bytes(b"no picture")
    run_again(folder)
    assert count_judged_anew(folder) == 0
    rewrite_file(folder / "v1" / "1.bmp", whole)
    assert count_judged_anew(folder) == 1


def test_an_output_that_was_missing_and_came_is_judged(folder: Path) -> None:
    (folder / "v1" / "1.bmp").rename(folder / "kept.bmp")
    run_again(folder)
    (folder / "kept.bmp").rename(folder / "v1" / "1.bmp")
    result, said = run_again(folder)
    assert (result.last_event.edits, said) == (1, [])
    assert is_like_a_fresh_run(folder)


def test_outputs_whose_items_could_not_be_loaded_are_no_others_than_last_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked at them: they may lie in another folder now, too."""
    with monkeypatch.context() as patched:
        lost = InputError("0", "its files changed while they were read")
        patched.setattr(scheduler._SharedItem, "_read", lambda *_: lost)
        assert str(lost) in str(run_again(folder)[0].last_event.first_failure)
    result, said = run_again(folder, outputs={"ours": folder / "v2"})
    assert (result.last_event.edits, said) == (COUNT, [])


MORE = (*DIMENSIONS, "core.mse.source.whole")


@pytest.mark.parametrize("moment", ["planning", "judging"])
def test_an_output_that_cannot_be_read_for_a_moment_keeps_its_verdicts(
    folder: Path, before: Values, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    whole = images._read_file if moment == "judging" else file_states.file_digest

    def failing(path: Any, *more: Any) -> Any:
        if str(path).endswith("ours/1.bmp"):
            raise OSError(24, "Too many open files")
        return whole(path, *more)

    if moment == "judging":
        monkeypatch.setattr(images, "_read_file", _as_read(failing))
    else:
        os.utime(folder / "v1" / "1.bmp")
        monkeypatch.setattr(file_states, "file_digest", failing)
    run_again(folder, dimensions=MORE)
    assert values(folder / "run", *DIMENSIONS) == before
    monkeypatch.undo()
    result, _ = run_again(folder, dimensions=MORE)
    assert result.status == "done"
    assert is_like_a_fresh_run(folder, dimensions=MORE)


def _as_read(failing: Any) -> Any:
    """`_read` with the translation that it makes of what the system says."""

    def read(path: Path, shown: str) -> bytes:
        try:
            return bytes(failing(path, shown))
        except OSError as error:
            raise UnreadError(shown, f"cannot be read: {error.strerror}") from error

    return read


def test_an_output_that_goes_away_while_others_are_judged_stays_judged(
    folder: Path, before: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Scheduler.run

    async def run(self: Scheduler) -> Any:
        (folder / "v1" / "1.bmp").unlink()
        return await begun(self)

    monkeypatch.setattr(Scheduler, "run", run)
    run_again(folder, dimensions=MORE)
    assert values(folder / "run", *DIMENSIONS) == before


def test_outputs_that_were_put_away_stay_as_they_were_judged(folder: Path, before: Values) -> None:
    before = cells(folder)
    (folder / "v1").rename(folder / "away")
    assert cells(folder) == before
