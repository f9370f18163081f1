"""Attacks: trials that say what came of them, made from a seed and a number and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

SEED = 15
"""What is tried where nobody asks for another."""


class Violation(Exception):
    """What must hold does not; the text says what, in one line."""


@dataclass(frozen=True)
class Attack:
    """One way to attack, tried again and again.

    Attributes:
        trial: Of a seed and a number: the outcome, in few words, to be counted. `Broken`, and any
            other exception, is a finding.
        full: How many trials `make attack` makes.
        small: How many tests make.
        seconds: That a trial may take on an idle machine.
        mib: By which the memory of the process may grow meanwhile.
    """

    name: str
    trial: Callable[[int, int], str] = field(repr=False)
    full: int
    small: int
    seconds: float = 10.0
    mib: int = 1024


def dice(attack: str, seed: int, number: int) -> random.Random:
    """Chance of one trial: the same on every machine, whatever was tried before."""
    return random.Random(f"{attack}/{seed}/{number}")


def line(error: BaseException) -> str:
    """What an exception says, and where it was raised, in one line."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        last = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    said = " ".join(str(error).split())[:300]
    if isinstance(error, Violation):
        return said
    return f"uncaught {type(error).__name__} at {last}: {said}"
