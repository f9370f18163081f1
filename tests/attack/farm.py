"""Trials in processes of their own, which may hang, crash or eat memory: that is a finding then."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from ..patience import patience
from .trials import Attack, line

WORKERS = 2
_MIB = 1024 * 1024
_ADDRESSES = 8 * 1024 * _MIB
"""Bytes of addresses that a worker may take, so that no trial takes the machine's memory."""
_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class AttackReport:
    """What came of an attack.

    Attributes:
        outcomes: How often each.
        findings: By number of trial, what did not hold.
        worst: Seconds and growth in MiB of the trials that took most.
    """

    attack: Attack
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    worst: tuple[float, float] = (0.0, 0.0)

    def add(self, number: int, outcome: str, what: str, cost: tuple[float, float]) -> None:
        """What came of a trial."""
        self.worst = max(self.worst[0], cost[0]), max(self.worst[1], cost[1])
        if what:
            self.findings[number] = what
        else:
            self.outcomes[outcome] += 1

    @property
    def count(self) -> int:
        """Trials made."""
        return sum(self.outcomes.values()) + len(self.findings)


def run_attack(
    attack: Attack, seed: int, numbers: Sequence[int], tell: Callable[[AttackReport], None] = lambda _: None
) -> AttackReport:
    """Try an attack, some numbers at a time; `tell` is called every few seconds."""
    report, began = AttackReport(attack), time.monotonic()
    workers = [_Worker(attack, seed, list(numbers[i::WORKERS])) for i in range(WORKERS)]
    told = began
    try:
        while busy := [worker for worker in workers if worker.left]:
            wait([worker.pipe for worker in busy], timeout=0.2)
            for worker in busy:
                for heard in worker.read_outcomes():
                    report.add(*heard)
            report.seconds = time.monotonic() - began
            if time.monotonic() - told > 10:
                told = time.monotonic()
                tell(report)
    finally:
        for worker in workers:
            worker.end()
    report.seconds = time.monotonic() - began
    return report


_TrialResult = tuple[int, str, str, tuple[float, float]]


class _Worker:
    """A process that tries numbers one after the other; it is made anew when it ends early."""

    def __init__(self, attack: Attack, seed: int, numbers: list[int]) -> None:
        self.attack = attack
        self.seed = seed
        self.left = numbers
        self._limit = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        asked = (self.attack.name, self.seed, list(self.left), theirs)
        self._process = context.Process(target=_work, args=asked, daemon=False)
        self._process.start()
        theirs.close()
        self._limit = time.monotonic() + patience(120)  # modules are loaded first

    def read_outcomes(self) -> Iterator[_TrialResult]:
        """What came of trials since it was asked last."""
        try:
            while self.left and self.pipe.poll():
                said = self.pipe.recv()
                self._limit = time.monotonic() + patience(self.attack.seconds) * 2
                if said is not None:
                    self.left.pop(0)
                    yield said
        except EOFError:
            self._process.join()
            yield self._give_up(f"the process ended with {self._process.exitcode}")
        if self.left and time.monotonic() > self._limit:
            yield self._give_up("it does not end")

    def _give_up(self, why: str) -> _TrialResult:
        self.end()
        number = self.left.pop(0)
        if self.left:
            self._start()
        return number, "", why, (0.0, 0.0)

    def end(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(name: str, seed: int, numbers: list[int], pipe: Connection) -> None:
    """In the process of a worker: tries, and says what came of each."""
    from . import ATTACKS

    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders in C complain there
    attack = ATTACKS[name]
    for number in numbers:
        pipe.send(None)
        pipe.send((number, *run_trial(attack, seed, number)))
    pipe.close()


def run_trial(attack: Attack, seed: int, number: int) -> tuple[str, str, tuple[float, float]]:
    """Make one trial: its outcome, or what is found, and the seconds and MiB that it took."""
    _forget_peak()  # also that of whatever the process did before the first trial
    before, began = _resident(), time.perf_counter()
    outcome = what = ""
    try:
        outcome = attack.trial(seed, number)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        what = line(error)
    seconds, grown = time.perf_counter() - began, (_resident(peak=True) - before) / _MIB
    if not what and seconds > patience(attack.seconds):
        what = f"it takes {seconds:.1f} s"
    elif not what and grown > attack.mib:
        what = f"it takes {grown:,.0f} MiB"
    return outcome, what, (seconds, grown)


def _resident(*, peak: bool = False) -> int:
    """Bytes of memory of this process, now or at most; 0 where the system does not say."""
    if not _STATUS.exists():
        return 0
    label = "VmHWM:" if peak else "VmRSS:"
    kib = next(row for row in _STATUS.read_text().splitlines() if row.startswith(label)).split()[1]
    return int(kib) * 1024


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        _REFS.write_text("5")


def in_process(attack: Attack, seed: int, numbers: Sequence[int]) -> AttackReport:
    """The same in this process, for tests: what hangs or crashes does so here."""
    report, began = AttackReport(attack), time.monotonic()
    gc.collect()  # what other tests left behind must not be given back while a trial is measured
    for number in numbers:
        report.add(number, *run_trial(attack, seed, number))
    report.seconds = time.monotonic() - began
    return report
