"""By which rules a caller wants to be judged, and what these mean here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock

from editjudge.app.spec import MAX_ROUNDS, Resolved, RunSpec
from editjudge.base.errors import ConfigError
from editjudge.benchmarks.dimension import Dimension
from editjudge.benchmarks.registry import benchmark as benchmark_of
from editjudge.benchmarks.registry import dimensions as all_dimensions
from editjudge.benchmarks.registry import select
from editjudge.benchmarks.rounds import in_rounds, number_in_rounds, with_rounds
from editjudge.engine.judge import Signatures
from editjudge.engine.plan import in_order
from editjudge.prompts.custom import custom_templates

from .bodies import Protocol, Unusable

_MOST_GLOBS = 512
_LONGEST_NAME = 200
_MOST_PROMPTS = 512
_LONGEST_PROMPTS = 1024 * 1024
MAX_DIMENSIONS = 8192
"""Of a protocol, in all rounds of all judges."""
_BYTES_OF_ONE = 2048
"""That a dimension takes with its signature."""
_KEPT_BYTES = 128 * 1024 * 1024
"""Of protocols whose dimensions are kept ready."""


def listed(patterns: Iterable[str], field: str) -> tuple[Dimension, ...]:
    """Dimensions of all benchmarks by their usual rules; all of them for no pattern.

    Raises:
        Unusable: an id or glob matches none.
    """
    return meaning_of(Protocol()).chosen(tuple(patterns) or ("*",), field)


class Meaning:
    """The dimensions of a protocol.

    Raises:
        Unusable: naming the field of the request.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.resolved = Resolved(_spec(protocol))
        self.known = in_rounds(self._known(), self.resolved.spec.judge_rounds)
        self.signatures = Signatures(self.known)
        self._asked: set[str] = set()

    @property
    def bytes(self) -> int:
        """That it takes, about."""
        prompts = sum(map(len, self.resolved.spec.prompts.values()))
        return len(self.known) * _BYTES_OF_ONE + prompts

    def _known(self) -> dict[str, Dimension]:
        """All dimensions of whichever benchmark, once it is known that they are not too many."""
        known = self.resolved.rules.known(all_dimensions())
        number = number_in_rounds(known, self.resolved.spec.judge_rounds)
        if number > MAX_DIMENSIONS:
            told = f"{number:,} dimensions in all rounds of all judges"
            raise Unusable("protocol.rounds", told, f"send fewer: at most {MAX_DIMENSIONS:,}")
        return known

    def chosen(self, patterns: Iterable[str], field: str = "dimensions") -> tuple[Dimension, ...]:
        """The dimensions that a request names: an id names itself, a glob all with their rounds.

        Raises:
            Unusable: an id or glob matches none, there are more than anybody means, or official
                prompts that are asked are not imported here.
        """
        named = tuple(dict.fromkeys(patterns))
        if any(len(name) > _LONGEST_NAME for name in named):
            raise Unusable(field, f"a name of more than {_LONGEST_NAME} characters", "send its id")
        globs = [name for name in named if name not in self.known]
        if len(globs) > _MOST_GLOBS:
            raise Unusable(field, f"{len(globs):,} globs", f"send {_MOST_GLOBS} at most")
        ids = [name for name in named if name in self.known]
        try:
            matched = select(globs, self.resolved.rules) if globs or not ids else ()
            chosen = self._named(ids, with_rounds(matched, self.known))
            self._check_words(chosen)
        except ConfigError as error:
            raise Unusable(field, error.message, error.mend) from error
        return chosen

    def _named(self, ids: Sequence[str], matched: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
        """In the order asked for where ids are, else as they are declared."""
        if not matched:
            return tuple(self.known[name] for name in ids)
        names = {*ids, *(dimension.id for dimension in matched)}
        return tuple(d for name, d in self.known.items() if name in names)

    def _check_words(self, chosen: Iterable[Dimension]) -> None:
        """Refuse dimensions whose official prompts are not imported here."""
        new = [dimension for dimension in chosen if dimension.id not in self._asked]
        for dimension in in_order(new, self.known):
            _ = dimension.words
        self._asked.update(dimension.id for dimension in new)


class Meanings:
    """Meanings that were asked for lately, as many as there is room for; for several threads.

    Args:
        most: Bytes that they take.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, Meaning] = OrderedDict()
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """That they take, about."""
        return sum(meaning.bytes for meaning in self._kept.values())

    def of(self, protocol: Protocol) -> Meaning:
        """What a protocol means here.

        Raises:
            Unusable: naming the field.
        """
        key = protocol.model_dump_json()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        meaning = Meaning(protocol)
        with self._lock:
            meaning = self._kept.setdefault(key, meaning)
            while self.bytes > self._most:
                self._kept.popitem(last=False)
        return meaning


meaning_of = Meanings(_KEPT_BYTES).of
"""What a protocol means here; see `Meanings.of`."""


def _spec(protocol: Protocol) -> RunSpec:
    """As a run asks for it; of no data."""
    try:
        benchmark = benchmark_of(protocol.benchmark)
    except ConfigError as error:
        raise Unusable("protocol.benchmark", error.message, error.mend) from error
    switches = {switch.name for switch in benchmark.switches.declared()}
    for field, names in (("on", protocol.on), ("off", protocol.off)):
        if unknown := [name[:_LONGEST_NAME] for name in names if name not in switches]:
            there = f"there are {', '.join(sorted(switches))}" if switches else "there are none"
            raise Unusable(f"protocol.{field}", f"no switch is called {unknown[0]!r}", there)
    if protocol.rounds * len(set(protocol.judges)) > MAX_ROUNDS:
        most = f"send 1 to {MAX_ROUNDS:,}, of all judges together"
        raise Unusable("protocol.rounds", f"{protocol.rounds:,} of each judge", most)
    _check_prompts(protocol)
    try:
        return RunSpec(
            benchmark=protocol.benchmark,
            data=Path(),
            protocol=protocol.name,
            on=protocol.on,
            off=protocol.off,
            judges=protocol.judges,
            rounds=protocol.rounds,
            prompts=protocol.prompts,
        )
    except ConfigError as error:
        raise Unusable("protocol.name", error.message, error.mend) from error


def _check_prompts(protocol: Protocol) -> None:
    field, files = "protocol.prompts", protocol.prompts
    length = sum(map(len, files.values()))
    if len(files) > _MOST_PROMPTS or length > _LONGEST_PROMPTS:
        most = f"send {_MOST_PROMPTS} files of {_LONGEST_PROMPTS:,} characters at most"
        raise Unusable(field, f"{len(files):,} files of {length:,} characters", most)
    try:
        custom_templates(files)
    except ConfigError as error:
        raise Unusable(field, error.message, error.mend) from error
