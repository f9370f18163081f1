"""What a run shows while it goes on, on any terminal and on none."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from editjudge.engine.events import FinishEvent, ProgressEvent
from editjudge.engine.progress import DimensionProgress, Progress
from editjudge.panel.replica import ServerLoad
from editjudge.report.display import Display, draw_progress, format_progress


def progress(dimensions: int = 2, endpoints: int = 1, **more: Any) -> ProgressEvent:
    """A run half way through, resumed after 10 edits."""
    one = ServerLoad(limit=8, in_flight=8, waiting=3, open=False, waits_for="room: " + "x" * 200, again=4)
    fields: dict[str, Any] = {
        "edits": 30,
        "judged": 5,
        "judged_before": 10,
        "missing_outputs": 0,
        "edits_per_second": 2.5,
        "seconds_left": 9.0,
        "verdicts": {
            f"core.some.long.name.of.a.dimension.number.{i}": DimensionProgress(
                total=40, scored=13 + i % 2, unscored=2 * (i == 7), failed=int(i == 9)
            )
            for i in range(dimensions)
        },
        "endpoints": {f"http://gpu-{i}.somewhere.example:8000/v1": one for i in range(endpoints)},
        "usage": {
            "calls": 1234,
            "known": 56,
            "prompt_tokens": 2_000_000,
            "cached_tokens": 0,
            "completion_tokens": 345,
            "cost": 1.25,
        },
    }
    return ProgressEvent(**(fields | more))


def print_event(event: ProgressEvent, width: int) -> list[str]:
    file = io.StringIO()
    screen = Console(file=file, width=width, force_terminal=False)
    screen.print(draw_progress(event, width))
    return file.getvalue().splitlines()


@pytest.mark.parametrize("endpoints", [0, 1, 3, 9])
@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_it_fits_any_terminal(endpoints: int, width: int) -> None:
    lines = print_event(progress(60, endpoints), width)
    assert max(map(len, lines)) <= width
    assert len(lines) < 10


def test_a_terminal_of_80_columns_shows_all_that_matters() -> None:
    first, second, third, fourth = print_event(progress(60), 80)
    assert first.startswith("━━━━━━━━")
    assert "15/40 edits (10 judged before); 2.5 edits/s; 9 s left" in first
    assert second == "813/2,400 verdicts; 2 unscored; 1 failed"
    assert third.startswith("1,234 calls (56 stored, free), cost 1.25, 2,000,000 prompt tokens (0% cached)")
    assert fourth.startswith("http://gpu-0.somewhere.example:8000/v1 8+3 of 8 in flight, 4 retries")


def test_a_server_that_is_waited_for_is_told_without_a_guess_of_the_time_left() -> None:
    url = "http://judge.example:8000/v1"
    load = ServerLoad(8, 0, 3, True, "an answer: nothing listens at this address", 4, 95.0, 205.0)
    panel: Any = SimpleNamespace(measure_loads=lambda: {url: load}, service_names=())
    counts = Progress(edits=4, judged_edits=1, start_time=time.monotonic() - 10)
    counts._record_point()
    lost = ProgressEvent.by(counts, panel)
    assert (lost.seconds_left, lost.edits_per_second > 0) == (None, True)
    assert "left" not in format_progress(lost)
    assert (
        f"{url} 0+3 of 8 in flight, 4 retries, lost 1 min 35 s ago, calls fail in 3 min 25 s, waits"
        " for an answer: nothing listens at this address"
    ) in format_progress(lost)
    panel.measure_loads = lambda: {url: ServerLoad(8, 3, 0)}
    assert "left" in format_progress(ProgressEvent.by(counts, panel))


def test_the_bar_moves_with_edits() -> None:
    bars = [print_event(progress(judged=judged), 80)[0].count("━") for judged in (5, 10, 20)]
    assert bars == sorted({*bars})


def test_all_numbers_are_about_the_whole_run() -> None:
    """A resumed run begins where the last session ended, in edits as in verdicts."""
    assert format_progress(progress(usage={}, endpoints=0)) == (
        "15/40 edits (10 judged before), 27/80 verdicts; 2.5 edits/s; 9 s left"
    )
    assert "before" not in format_progress(progress(judged_before=0))


def test_at_the_end_nothing_is_left_to_wait_for() -> None:
    counts = progress().model_dump(exclude={"event", "endpoints", "usage", "seconds_left", "time"})
    ended = FinishEvent(
        **counts,
        seconds_left=None,
        ended="interrupted",
        exit_code=130,
        usage={},
        unscored={},
        first_failure=None,
        not_served={},
        columns={},
    )
    assert "left" not in format_progress(ended)


def test_a_log_is_not_flooded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every five seconds at first; of an hour about fifty lines, not seven hundred."""
    now = 0.0
    monkeypatch.setattr("editjudge.report.display.time.monotonic", lambda: now)
    lines = Display()
    for step in range(1, 721):
        now = step * Display.seconds_between
        lines.show_progress(progress())
        if step == 5:
            assert capsys.readouterr().err.count("\n") == 5
    assert 35 < capsys.readouterr().err.count("\n") < 60
