"""Runs that are looked at while they go on: read anew where they changed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock

from ..app.view import RunView
from ..base.errors import EditjudgeError, StoreError
from ..base.screen import tell
from .contents import About, ShownRun, report_of, title_of
from .gathered import CHUNK, Chunk, Gathered, Plain
from .page import script_json
from .pictures import PictureNames, picture_name
from .read import Reading, readings

_SHARE = 4
"""Runs are read anew after so many times what it took last, so that the judging has the cores: of
the processor, for beside other work the clock says little."""
_FEWEST_SECONDS = 1.0
_QUIET_SECONDS = 60.0
"""Where nothing changed for so long nobody writes, as far as a page cares."""
_FILES = ("run.sqlite", "run.sqlite-wal")


class _State:
    """Runs as they were when they were read; they stay open.

    Attributes:
        version: Another one where a run changed since.
        title: Of the page.
        report: See `contents.report_of`, as JSON.
        edits: See `Gathered.index`, as JSON.
        asked: How many edits there are.
        judged: Of these, those of which nothing is still to be judged.
    """

    def __init__(
        self, runs: Sequence[Path], pictures: dict[str, Path], version: str, *, published: bool
    ) -> None:
        self._lock, self._open = Lock(), True
        self._gathered = Gathered(PictureNames(pictures))
        with ExitStack() as stack:
            views = [stack.enter_context(RunView(run)) for run in runs]
            self._readings: list[Reading] = readings(views)
            self._shown: tuple[ShownRun, ...] = tuple(
                each.gather(self._gathered, published=published) for each in self._readings
            )
            self._views = stack.pop_all()
        self.version, self.title = version, title_of(self._shown)
        self.edits = script_json(self._gathered.index())
        about = About(self.title, version)
        self.report = script_json(report_of(self._shown, self._gathered, about, "view"))
        self.asked, self.judged = self._gathered.count, self._gathered.judged()

    def detail(self, number: int) -> str | None:
        """A chunk of details as JSON; None where there is no such, or the runs were closed."""
        gathered = self._gathered
        if not 0 <= number < gathered.chunks:
            return None
        places = range(number * CHUNK, min((number + 1) * CHUNK, gathered.count))
        numbers = {gathered.keys[place]: place for place in places}
        chunk = Chunk()
        with self._lock:
            if not self._open:
                return None
            for reading, shown in zip(self._readings, self._shown, strict=True):
                items = {item for run, item, _ in numbers if run == reading.number}
                for edit in reading.edits(items, shown.results.changes) if items else ():
                    place = numbers.get((reading.number, edit.row.item.id, edit.row.model))
                    if place is not None:
                        item = gathered.item_of(place)
                        chunk.add(place, item, edit, gathered.dimensions, reading.prompt)
        return script_json(chunk.plain())

    def close(self) -> None:
        """Close the runs, once nobody reads them."""
        with self._lock:
            self._open = False
            self._views.close()


class Viewed:
    """Runs that are looked at; use as a context manager. Methods may be called in any thread.

    Args:
        runs: Folders.
        published: Also what the papers print.

    Raises:
        ConfigError: a folder holds no run, or one that cannot be read here.
        InputError: the data of a run is not there any more.
        StoreError: a run is damaged.
    """

    def __init__(self, runs: Sequence[Path], *, published: bool = False) -> None:
        self._runs, self._published = tuple(runs), published
        self._pictures: dict[str, Path] = {}
        self._changed_pictures: set[str] = set()
        self._lock = Lock()
        self._said = ""
        self._changed = self._due = -float("inf")
        self._state = self._read(self._version())

    def __enter__(self) -> Viewed:
        return self

    def __exit__(self, *_: object) -> None:
        self._state.close()

    @property
    def title(self) -> str:
        """Of the page."""
        return self._state.title

    @property
    def report(self) -> str:
        """See `contents.report_of`, as JSON."""
        return self._state.report

    @property
    def edits(self) -> str:
        """See `Gathered.index`, as JSON."""
        return self._state.edits

    def progress(self) -> Plain:
        """How far the runs are, read anew where that is due, and why that cannot be."""
        with self._lock:
            self._refresh()
            state = self._state
            waits = self._version() != state.version
            live = waits or time.monotonic() - self._changed < _QUIET_SECONDS
            said = self._said
        return {
            "version": state.version,
            "live": live and not said,
            "said": said,
            "judged": state.judged,
            "asked": state.asked,
        }

    def detail(self, number: int) -> str | None:
        """A chunk of details as JSON; None where there is no such."""
        state = self._state
        text = state.detail(number)
        # Read anew meanwhile: what is asked for is in the next state.
        return self._state.detail(number) if text is None and state is not self._state else text

    def picture(self, name: str) -> Path | None:
        """Where a picture lies; None where there is no such, or it is another one by now.

        Of another one the runs are read anew, for what was judged is not what is there.
        """
        file = self._pictures.get(name)
        if file is None or picture_name(file) == name:
            return file
        self._changed_pictures.add(name)
        return None

    def _refresh(self) -> None:
        version = self._version()
        if version == self._state.version:
            self._said = ""
            return
        if time.monotonic() < self._due:
            return
        self._changed = time.monotonic()
        try:
            state = self._read(version)
        except (EditjudgeError, StoreError) as error:  # it is being merged, moved or removed
            self._due = time.monotonic() + _QUIET_SECONDS / 10
            said = f"what was read before is shown: {error}"
            if said != self._said:
                self._said = said
                tell(said)
            return
        before, self._state, self._said = self._state, state, ""
        before.close()

    def _read(self, version: str) -> _State:
        began = time.thread_time()
        state = _State(self._runs, self._pictures, version, published=self._published)
        took = time.thread_time() - began
        self._due = time.monotonic() + max(_FEWEST_SECONDS, _SHARE * took)
        return state

    def _version(self) -> str:
        """Another text where a run was written to, or a picture changed; no file is opened."""
        stats = [_written(run / name) for run in self._runs for name in _FILES]
        told = repr((stats, len(self._changed_pictures)))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def _written(file: Path) -> tuple[int, int]:
    """Size and time of what was written last; an empty log, which readers leave too, is none."""
    try:
        stat = file.stat()
    except OSError:
        return (0, 0)
    return (stat.st_size, stat.st_mtime_ns) if stat.st_size else (0, 0)
