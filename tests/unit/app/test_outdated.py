"""What changed since verdicts were made is told before any call, with what it takes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import editjudge
from editjudge import RunSpec
from editjudge.app.events import Again, RunEvent
from editjudge.app.run import foreseen
from editjudge.base.config import GeneralistEndpoint, Settings
from editjudge.engine.outdated import Stale, outdated
from editjudge.engine.session import Session
from editjudge.storage.store import FILE, RunStore

from .test_public_run import PSNR, spec

__all__ = ["spec"]
STORED = Path(__file__).parents[2] / "golden" / "stored" / "v4" / "kris.paper.zip"
PROMPT = "kris/perception"


def resign(run: Path, old: str, new: str) -> int:
    """Let verdicts be signed as if something had been otherwise when they were made."""
    with RunStore.open(run) as store:
        rows = [one for one in store.verdicts() if old in one.signature]
        for one in rows:
            edit = store.edit(one.item, one.model)
            assert edit is not None
            signed = {one.dimension: one.signature.replace(old, new)}
            calls = store.calls_of(edit.id, one.dimension)
            store.put_verdicts(edit.id, {one.dimension: one.verdict}, signed)
            store.rests_on(edit.id, one.dimension, calls)
    return len(rows)


def test_a_changed_implementation(spec: RunSpec, tmp_path: Path) -> None:
    out = tmp_path / "run"
    editjudge.run(spec, out=out)
    count = resign(out, "psnr_from_mse.1", "psnr_from_mse.0")
    text = (
        f"implementation of psnr_from_mse (0 → 1) changed: {count} verdicts to judge again, no call"
    )
    _, _, (again,) = foreseen(spec, out, Settings())
    assert again.text == text
    events: list[RunEvent] = []
    editjudge.run(spec, out=out, progress=events.append)
    names = [event.event for event in events]
    assert names.index("again") < names.index("started")
    (event,) = [event for event in events if isinstance(event, Again)]
    assert event.outdated == again
    assert event.outdated.dimensions == (PSNR,)
    (cause,) = event.outdated.causes
    assert (cause.kind, cause.of) == ("implementation", "psnr_from_mse")
    assert foreseen(spec, out, Settings())[2] == ()
    with RunStore.open(out, read_only=True) as store:
        # Once when the test signed them otherwise, once when they were judged again.
        assert sum(1 for _ in store.earlier()) == 2 * count


def test_the_store_is_gone_through_beside_the_event_loop(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of many edits takes seconds for it, in which it could not be interrupted."""
    editjudge.run(spec, out=tmp_path / "run")
    assert resign(tmp_path / "run", "psnr_from_mse.1", "psnr_from_mse.0")
    beside: dict[str, bool] = {}

    def watched(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            try:
                beside[name] = asyncio.get_running_loop() is None
            except RuntimeError:
                beside[name] = True
            return work(*given)

        return call

    for name in ("stale", "keep_changes"):
        monkeypatch.setattr(RunStore, name, watched(name, getattr(RunStore, name)))
    monkeypatch.setattr(Session, "_amend", watched("amend", Session._amend))
    editjudge.run(spec, out=tmp_path / "run")
    assert beside == {"stale": True, "keep_changes": True, "amend": True}


@pytest.fixture
def kris(tmp_path: Path) -> tuple[Path, RunSpec, Settings]:
    """A run with two judges, none of which is there any more."""
    shutil.unpack_archive(STORED, tmp_path)
    run = tmp_path / "run"
    with contextlib.closing(sqlite3.connect(run / FILE)) as db, db:
        for table, column in (("header", "value"), ("edits", "reason")):
            db.execute(
                f"UPDATE {table} SET {column} = replace({column}, '/golden', ?)",  # noqa: S608
                (str(tmp_path),),
            )
    with RunStore.open(run) as store:
        header = store.header
    kept = header.settings["generalists"]
    assert isinstance(kept, dict)
    judges = {name: GeneralistEndpoint.model_validate(one) for name, one in kept.items()}
    urls = header.settings["endpoints"]
    assert isinstance(urls, list)
    endpoints = {str(place): {"url": url} for place, url in enumerate(urls)}
    return run, RunSpec.of(header), Settings(generalists=judges, endpoints=endpoints)  # type: ignore[arg-type]


def test_a_changed_prompt_takes_its_calls(kris: tuple[Path, RunSpec, Settings]) -> None:
    run, spec, settings = kris
    with RunStore.open(run, read_only=True) as store:
        signature = next(one.signature for one in store.verdicts() if "(prompt=" in one.signature)
    prompt = signature.partition("(prompt=")[2].partition(")")[0]
    name, _, _ = prompt.partition("(own,sha256:")
    count = resign(run, prompt, f"{name}(own,sha256:00000000")
    estimate, _, told = foreseen(spec, run, settings)
    before = f"prompt {name} (own,sha256:00000000 → own,sha256:"
    (again,) = [one for one in told if before in one.text]
    assert again.verdicts >= count > 0
    calls = sum(again.calls.values())
    assert 0 < calls <= estimate.calls.total()
    assert f"at most {calls} calls" in again.text


def test_judges_that_are_asked_otherwise(kris: tuple[Path, RunSpec, Settings]) -> None:
    run, spec, settings = kris
    name = next(iter(settings.generalists))
    warmer = settings.generalists[name].model_copy(update={"temperature": 0.7})
    generalists = {**settings.generalists, name: warmer}
    _, _, told = foreseen(spec, run, settings.model_copy(update={"generalists": generalists}))
    text = f"setting temperature of generalist.{name} (0.0 → 0.7) changed"
    assert any(text in one.text for one in told), [one.text for one in told]


def test_a_judge_that_was_not_asked_yet_is_told_by_its_settings(
    kris: tuple[Path, RunSpec, Settings],
) -> None:
    run, spec, settings = kris
    moved = {
        name: one.model_copy(update={"url": f"{one.url}/other", "model": ""})
        for name, one in settings.generalists.items()
    }
    _, _, told = foreseen(spec, run, settings.model_copy(update={"generalists": moved}))
    texts = [one.text for one in told]
    assert any("setting url of generalist." in text for text in texts), texts
    assert not any("unknown" in text for text in texts), texts


def test_services_elsewhere_may_be_the_same(kris: tuple[Path, RunSpec, Settings]) -> None:
    run, spec, settings = kris
    plan = foreseen(spec, run, settings)[1]
    model = next(iter(plan.todo))
    place, name = next((i, one) for i, names in enumerate(plan.todo[model]) for one in names)
    today = {**plan.signatures, name: "dimension:core.one|a.b:unknown"}
    stale = [Stale(plan.ids[place], model, name, "dimension:core.one|a.b:m(x=1)")]
    store: Any = SimpleNamespace(stale=lambda _: stale)
    (again,) = outdated(replace(plan, signatures=today), store)
    assert (
        again.text == "services that are set otherwise, and asked what they are when the run begins"
    )
