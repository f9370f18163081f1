"""A whole run of one question, against what one would write or install instead.

Each contender judges the same edits, two PNG pictures of 512x512 each, with the same scripted judge
(`scripted_judge.py`), started from nothing and until the scores are on disk:

- `script`: 35 lines of the SDK `openai`, threads as many as calls may be in flight, base64;
- `inspect_ai` and `evalscope`: the same question as a task of theirs;
- `editjudge`: `editjudge run kris`, one of its dimensions, which also asks the judge how it answers
  choices.

The judge answers clean, and then with faults (2 % status 500, 2 % status 429, 3 % replies without a
score, 1 % cut short, 1 % of the edits refused), which depend on the edit and on how often it was
asked about, so that all meet the same. Rounds are interleaved. Last, each is killed half way and
begun again. Peers have environments of their own, made under `--peers`; one that cannot be
installed is left out.

    python perf/peers.py [--latency 0.2] [--in-flight 16] [--edits 200] [--rounds 3] [--only NAME]

`bias` is the mean that a contender reports less the mean of what the judge thinks of all edits, on
its scale of 1 to 5; `invented` counts scores that the judge never gave, `paid twice` calls that had
been answered a tenth of a second before the kill and were made again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import click
import numpy as np
from PIL import Image as Pil
from rich.console import Console
from rich.table import Table
from scripted_judge import CLEAN, EDIT, FAULTY, HIGH, LOW, Record, record_of, score_of, serve_script

HERE = Path(__file__).resolve().parent
SIDE = 512
DIMENSION = "kris.visual_consistency"
TASK = "count_change"
QUESTION = (
    "The first image is the source, the second one is the edited image. How well is everything "
    f"kept that the instruction does not touch, from {LOW} to {HIGH}? Reply with one JSON object "
    'and nothing around it: {"reasoning": "...", "consistency_score": N}'
)
MOST_SECONDS = 600
JUST_NOW = 0.1
"""Seconds in which an answer may be on its way to the disk."""


def write_edits(folder: Path, count: int) -> None:
    """Edits as a data set of KRIS-Bench, and as one list for those who read another form."""
    rng = np.random.default_rng(0)
    sources, outputs = folder / "kris" / TASK, folder / "outputs" / TASK
    sources.mkdir(parents=True)
    outputs.mkdir(parents=True)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    records, lines = {}, []
    for number in range(1, count + 1):
        waves = rng.uniform(2, 20, 6)
        scene = [128 + 90 * np.sin(waves[c] * rows + waves[c + 3] * columns) for c in range(3)]
        grain = rng.normal(0, 2, (SIDE, SIDE, 3))
        pixels = np.clip(np.stack(scene, axis=-1) + grain, 0, 255).astype(np.uint8)
        Pil.fromarray(pixels).save(sources / f"{number}.png", compress_level=1)
        pixels[100:300, 100:300] = pixels[100:300, 100:300][:, ::-1]
        Pil.fromarray(pixels).save(outputs / f"{number}.png", compress_level=1)
        text = EDIT.format(number)
        records[str(number)] = {"ori_img": f"{number}.png", "gt_img": "", "ins_en": text, "explain_en": ""}
        lines.append(
            {
                "id": str(number),
                "instruction": text,
                "question": QUESTION,
                "source": f"kris/{TASK}/{number}.png",
                "edited": f"outputs/{TASK}/{number}.png",
            }
        )
    (sources / "annotation.json").write_text(json.dumps(records))
    (folder / "edits.json").write_text(json.dumps(lines))


@dataclass(frozen=True)
class Contender:
    """One who judges edits.

    Attributes:
        name: Of it.
        command: Of the folder of the edits, the judge's address, a folder of its own and the calls
            in flight: what is run. The same command goes on with what it began.
        scores: Of its own folder: by edit, what it reports; None where it reports none.
    """

    name: str
    command: Callable[[Path, str, Path, int], Sequence[str]]
    scores: Callable[[Path], dict[str, float | None]]


def _read_scores(out: Path) -> dict[str, float | None]:
    scores: dict[str, float | None] = json.loads((out / "scores.json").read_text())
    return scores


def _peer(name: str, python: Path, program: str) -> Contender:
    def command(folder: Path, judge: str, out: Path, in_flight: int) -> Sequence[str]:
        arguments = str(folder), f"{judge}/v1", str(out / "scores.json"), str(in_flight)
        return str(python), str(HERE / "contenders" / program), *arguments

    return Contender(name, command, _read_scores)


def _run(folder: Path, judge: str, out: Path, in_flight: int) -> Sequence[str]:
    return (
        *(sys.executable, "-m", "editjudge", "run", "kris"),
        *("--data", str(folder / "kris"), "--outputs", f"m={folder / 'outputs'}"),
        *("--dimension", DIMENSION, "--judge", f"{judge}/v1"),
        *("--set", f"concurrency={in_flight}", "--out", str(out / "run")),
    )


def _read_run(out: Path) -> dict[str, float | None]:
    import editjudge
    from editjudge.base.verdict import Score

    with editjudge.RunView(out / "run") as view:
        return {
            one.item.rpartition("/")[2]: one.verdict.value if isinstance(one.verdict, Score) else None
            for one in view.verdicts(evidence=False)
        }


OURS = Contender("editjudge", _run, _read_run)
# By name: what is installed, and the program that uses it.
PEERS = {
    "script": (("openai",), "plain.py"),
    "inspect_ai": (("inspect_ai", "openai"), "with_inspect.py"),
    "evalscope": (("evalscope",), "with_evalscope.py"),
}


def contenders(peers: Path, only: Sequence[str]) -> list[Contender]:
    """Those that are asked for and can be had."""
    ready = []
    for name, (packages, program) in PEERS.items():
        if only and name not in only:
            continue
        python = _install(peers / name, packages)
        if python is None:
            click.echo(f"{name}: cannot be installed here, left out")
        else:
            ready.append(_peer(name, python, program))
    return [*ready, OURS] if not only or OURS.name in only else ready


def _install(folder: Path, packages: Sequence[str]) -> Path | None:
    """The interpreter of an environment with these packages; None where they cannot be had."""
    python = folder / "bin" / "python"
    whole = folder / "installed"
    if whole.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    process = subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], capture_output=True, check=False)
    if process.returncode:
        return None
    whole.touch()
    return python


@dataclass(frozen=True)
class Measurement:
    """What one session of a contender took.

    Attributes:
        rate: Edits per second, from the start of the process to its end.
        paced_rate: The same from the first call to the last answer.
        busy: Processor milliseconds per edit, its children's among them.
        first: Seconds until the first call.
        memory: MB that were resident at most.
        most: Calls that waited at the same time.
        calls: Made per edit, those about no edit among them.
        bias: Mean reported less the true one.
        invented_count: Scores that the judge did not give.
        coverage: Share of edits with a score.
    """

    rate: float
    paced_rate: float
    busy: float
    first: float
    memory: float
    most: float
    calls: float
    bias: float
    invented_count: float
    coverage: float


def _begin(command: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=out, start_new_session=True, env=_environment())


def _environment() -> dict[str, str]:
    # Settings of other uses; and modules are compiled once, as wherever they are installed.
    others = "OPENAI_", "EDITJUDGE_", "PYTHONDONTWRITEBYTECODE"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return variables | {"OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}


def measure(one: Contender, folder: Path, judge: str, out: Path, in_flight: int) -> Measurement:
    """A session from nothing to its end."""
    start = time.monotonic()
    process = _begin(one.command(folder, judge, out, in_flight), out)
    _, status, usage = os.wait4(process.pid, 0)
    end = time.monotonic()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 3}:  # 3: some verdicts failed
        log = (out / "log").read_text()[-2000:]
        raise SystemExit(f"{one.name} ended with {process.returncode}:\n{log}")
    return _of(one, folder, record_of(judge), out, start, end, usage)


def _of(one, folder: Path, record: Record, out: Path, start: float, end: float, usage) -> Measurement:
    edits = [edit["id"] for edit in json.loads((folder / "edits.json").read_text())]
    true = {edit: score_of(edit) for edit in edits}
    scores = {edit: s for edit, s in one.scores(out).items() if s is not None}
    first = min(call[1] for call in record.calls)
    last = max(call[2] or 0 for call in record.calls)
    mean = statistics.fmean(scores.values()) if scores else float("nan")
    return Measurement(
        rate=len(edits) / (end - start),
        paced_rate=len(edits) / (last - first),
        busy=1e3 * (usage.ru_utime + usage.ru_stime) / len(edits),
        first=first - start,
        memory=usage.ru_maxrss / 1024,
        most=record.most,
        calls=(len(record.calls) + record.beside) / len(edits),
        bias=mean - statistics.fmean(true.values()),
        invented_count=sum(score != true[edit] for edit, score in scores.items()),
        coverage=len(scores) / len(edits),
    )


@dataclass(frozen=True)
class Resumption:
    """What a kill cost.

    Attributes:
        waiting_count: Calls in flight when it was killed; those that were answered less than a tenth of a
            second before are among them.
        twice: Calls with a score in their answer, made again though it had been sent before that.
        coverage: Share of edits with a score in the end.
    """

    waiting_count: int
    twice: int
    coverage: float


def kill_and_resume(one: Contender, folder: Path, judge: str, out: Path, in_flight: int) -> Resumption:
    """Kill a session half way, begin it again."""
    edits = len(json.loads((folder / "edits.json").read_text()))
    process = _begin(one.command(folder, judge, out, in_flight), out)
    try:
        deadline = time.monotonic() + MOST_SECONDS
        while sum(call[2] is not None for call in record_of(judge).calls) < edits // 2:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{one.name} ended before it was killed")
            time.sleep(0.02)
    finally:
        kill_time = time.monotonic()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = record_of(judge).calls
    finished_calls = [call for call in before if call[2] is not None and call[2] < kill_time - JUST_NOW]
    answered_edits = {call[0] for call in finished_calls if call[3] == "good"}
    process = _begin(one.command(folder, judge, out, in_flight), out)
    process.wait(MOST_SECONDS)
    again = [call for call in record_of(judge).calls[len(before) :] if call[0] in answered_edits]
    scores = [score for score in one.scores(out).values() if score is not None]
    waiting_count = len(before) - len(finished_calls)
    return Resumption(waiting_count, len(again), len(scores) / edits)


def compare(
    ready: Sequence[Contender], folder: Path, rounds: int, latency: float, in_flight: int
) -> dict[str, dict[str, list[Measurement]]]:
    """By script of the judge and contender, its rounds."""
    scripts = {"clean": CLEAN, "faults": FAULTY}
    measurements: dict[str, dict[str, list[Measurement]]] = {name: {one.name: [] for one in ready} for name in scripts}
    for _ in range(rounds):
        for name, script in scripts.items():
            for one in random.sample(list(ready), len(ready)):
                variant = type(script)(**(vars(script) | {"latency": latency}))
                with serve_script(variant) as judge, tempfile.TemporaryDirectory() as out:
                    measurements[name][one.name].append(measure(one, folder, judge, Path(out), in_flight))
    return measurements


def _median(rounds: Sequence[Measurement]) -> Measurement:
    return Measurement(**{f.name: statistics.median(getattr(r, f.name) for r in rounds) for f in fields(Measurement)})


_HEADINGS = {
    "rate": ("edits/s", ".1f"),
    "paced_rate": ("from 1st call", ".1f"),
    "busy": ("CPU ms/edit", ".1f"),
    "first": ("s to 1st call", ".2f"),
    "memory": ("MB", ".0f"),
    "most": ("in flight", ".0f"),
    "calls": ("calls/edit", ".3f"),
    "bias": ("bias", "+.4f"),
    "invented_count": ("invented", ".0f"),
    "coverage": ("coverage", ".3f"),
}


def show(title: str, measurements: dict[str, list[Measurement]]) -> None:
    """Medians, and our ratios to the others of the same round."""
    table = Table(title=title)
    table.add_column("contender")
    for heading, _ in _HEADINGS.values():
        table.add_column(heading, justify="right")
    for name, rounds in measurements.items():
        median = _median(rounds)
        table.add_row(name, *(format(getattr(median, f), w) for f, (_, w) in _HEADINGS.items()))
    console = Console(width=140)
    console.print(table)
    ours = measurements.get(OURS.name, [])
    for name, rounds in measurements.items() if ours else ():
        if name == OURS.name:
            continue
        pairs = list(zip(ours, rounds, strict=True))
        rate = statistics.median(a.rate / b.rate for a, b in pairs)
        busy = statistics.median(a.busy / b.busy for a, b in pairs)
        memory = statistics.median(a.memory / b.memory for a, b in pairs)
        console.print(f"{OURS.name} over {name}: edits/s {rate:.2f}, processor time {busy:.2f}, memory {memory:.2f}")


@click.command()
@click.option("--latency", default=0.2, show_default=True, help="Seconds until the judge answers.")
@click.option("--in-flight", default=16, show_default=True, help="Calls at most.")
@click.option("--edits", default=200, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--only", multiple=True, help="A contender; several times for several.")
@click.option("--peers", type=click.Path(path_type=Path), help="Folder of their environments, kept.")
@click.option("--kill/--no-kill", default=True, show_default=True, help="Also kill and go on.")
def main(
    latency: float, in_flight: int, edits: int, rounds: int, only: tuple[str, ...], peers: Path | None, *, kill: bool
) -> None:
    """Print what each contender takes, and editjudge's ratios to the others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "edits"
        write_edits(folder, edits)
        ready = contenders((peers or Path(name) / "peers").resolve(), only)
        for script, measurements in compare(ready, folder, rounds, latency, in_flight).items():
            setting = f"{edits} edits, {latency:g} s, {in_flight} in flight, {rounds} rounds"
            show(f"{script}: {setting}", measurements)
        for one in ready if kill else ():
            variant = type(CLEAN)(latency=latency)
            with serve_script(variant) as judge, tempfile.TemporaryDirectory() as out:
                resumption = kill_and_resume(one, folder, judge, Path(out), in_flight)
            click.echo(
                f"{one.name}, killed half way and begun again: {resumption.twice} paid twice,"
                f" {resumption.waiting_count} were in flight, coverage {resumption.coverage:.3f}"
            )


if __name__ == "__main__":
    main()
