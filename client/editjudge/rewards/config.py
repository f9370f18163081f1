"""The file `reward.toml`: named rewards, each a weighted mix of dimensions with gates."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, Self, TypeAlias

from pydantic import Field, FiniteFloat, PrivateAttr, model_validator

from ..app.dimensions import DimensionSet
from ..app.spec import RunSpec
from ..base.contracts import NAME
from ..base.errors import ConfigError, InputError
from ..base.strict import Strict
from ..benchmarks.dimension import Dimension
from ..engine.outcomes import sort_by_dependency
from ..prompts.prompt_files import parse_file, read_text
from ..prompts.rubrics import load_rubric_files
from ..scorers.scorer import Scorer

Name: TypeAlias = Annotated[str, Field(pattern=f"^{NAME}$")]
Range: TypeAlias = tuple[FiniteFloat, FiniteFloat]
WithoutNumber: TypeAlias = Literal["error", "skip"] | FiniteFloat


class Part(Strict):
    """One dimension of a mix.

    Attributes:
        weight: Its share of the mix, relative to the other parts.
        range: The values that become the worst and the best end of the reward's scale, in this
            order; values beyond are clipped. By default the range of the dimension, best end last.
    """

    weight: FiniteFloat = Field(default=1.0, gt=0)
    range: Range | None = None


class Gate(Strict):
    """A condition that caps the reward.

    Attributes:
        dimension: The dimension that decides, by `above` or `below`.
        above: The gate closes where the value is larger.
        below: The gate closes where the value is smaller.
        size_differs: The gate closes where the output has another size than the source.
        cap: The highest reward of an edit at a closed gate; by default the lowest of the scale.
    """

    dimension: str = ""
    above: FiniteFloat | None = None
    below: FiniteFloat | None = None
    size_differs: bool = False
    cap: FiniteFloat | None = None

    @model_validator(mode="after")
    def _has_one_condition(self) -> Self:
        limits = (self.above is not None) + (self.below is not None)
        if (limits, bool(self.dimension)) != (not self.size_differs,) * 2:
            raise ValueError("give `dimension` with `above` or `below`, or `size_differs = true`")
        return self


class RewardTable(Strict):
    """One reward.

    Attributes:
        parts: The dimensions that are mixed, by id.
        gates: Conditions that cap the reward, by name.
        scale: The lowest and the highest reward: 0 and 1, or -1 and 1.
        minimum_parts: How many parts must have a number; by default all. Parts that this edit
            lacks are then left out and the weights of the others count. A part whose service failed
            is never left out.
        pin: The signature of the reward, as `editjudge reward check` prints it. Another signature
            ends scoring with an error; empty for no check.
    """

    parts: dict[str, Part] = Field(min_length=1)
    gates: dict[Name, Gate] = Field(default_factory=dict)
    scale: Range = (0.0, 1.0)
    minimum_parts: int | None = Field(default=None, ge=1)
    pin: str = ""

    @model_validator(mode="after")
    def _fits_its_scale(self) -> Self:
        if self.scale not in {(0.0, 1.0), (-1.0, 1.0)}:
            raise ValueError("scale is [0, 1] or [-1, 1]")
        if (self.minimum_parts or 1) > len(self.parts):
            raise ValueError(f"minimum_parts is more than the {len(self.parts)} parts")
        for name, gate in self.gates.items():
            if gate.cap is not None and not self.scale[0] <= gate.cap < self.scale[1]:
                raise ValueError(f"gates.{name}: the cap lies outside the scale, or caps nothing")
        return self


class Listener(Strict):
    """An address for trainers, who send no token.

    Attributes:
        address: As `host:port`; only rewards are served there.
        team: The team that every request there counts for, whatever its headers say.
    """

    address: str = Field(pattern=r"^\S+:[0-9]{1,5}$")
    team: Name


class RewardConfig(Strict):
    """The content of `reward.toml`.

    ```python
    config = RewardConfig.load("reward.toml")
    ```

    Attributes:
        rewards: The rewards by name.
        rubrics: Files of rubrics; each adds the dimension `rubric.<name of the file>`.
        judges: Names of the judges in the settings, which judge side by side.
        check_every: Seconds after which the judges rate the canaries before a batch. A judge that has
            changed then ends scoring with an error, until a check finds it steady. 0 for no checks.
        deadline: Seconds for a batch. What is not judged by then has no number.
        without_number: What trainers get for an edit without a number: `error` fails the batch,
            `skip` gives it no number, and a number is a reward that is invented and counted.
        concurrency: Edits at a time in process.
        listener: An address of its own for trainers; a service alone has one.
        roots: By team the folder below which its pictures may be named by path; "" without a team.
    """

    rewards: dict[Name, RewardTable] = Field(min_length=1)
    rubrics: tuple[Path, ...] = ()
    judges: tuple[str, ...] = Field(default=("judge",), min_length=1)
    check_every: FiniteFloat = Field(default=0.0, ge=0)
    deadline: FiniteFloat = Field(default=240.0, gt=0)
    without_number: WithoutNumber = "error"
    concurrency: int = Field(default=64, ge=1)
    listener: Listener | None = None
    roots: dict[str, Path] = Field(default_factory=dict)
    _prompts: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read the file; paths in it are relative to its folder.

        Raises:
            ConfigError: it cannot be read, has a wrong field, or names what does not exist.
        """
        path = Path(path)
        config = parse_file(cls, read_text(path), str(path))
        config._prompts = load_rubric_files(path.parent / each for each in config.rubrics)
        roots = {team: path.parent / folder for team, folder in config.roots.items()}
        config = config.model_copy(update={"roots": roots})
        for name, table in config.rewards.items():
            config._check(f"{path}: rewards.{name}", table)
        return config

    @property
    def prompts(self) -> Mapping[str, str]:
        """The texts of the rubrics, as `Client.score` takes them."""
        return self._prompts

    @cached_property
    def dimension_set(self) -> DimensionSet:
        """All dimensions under these judges and rubrics."""
        spec = RunSpec(benchmark="core", data=Path(), judges=self.judges, prompts=dict(self.prompts))
        return DimensionSet(spec)

    @cached_property
    def scorers(self) -> Mapping[str, tuple[Scorer, ...]]:
        """By dimension of a reward the scorers of its readings, and of what it derives from."""
        by_id = self.dimension_set.by_id
        parts = {name: sort_by_dependency([by_id[name]], by_id) for name in self.list_ids()}
        return {name: tuple(each.scorer for one in of for each in one.readings) for name, of in parts.items()}

    def list_rewards(self) -> dict[str, list[str]]:
        """List the numbers of each reward, the reward itself first."""
        return {name: ["reward", *table.parts] for name, table in self.rewards.items()}

    def list_ids(self, *names: str) -> tuple[str, ...]:
        """List the dimensions of rewards, each once: those of parts, then those of gates.

        Raises:
            ConfigError: there is no such reward.
        """
        ids: dict[str, None] = {}
        for name in names or self.rewards:
            if name not in self.rewards:
                fix = f"there is {', '.join(self.rewards)}"
                raise ConfigError(f"no reward is called {name!r}", fix)
            gates = self.rewards[name].gates.values()
            ids |= dict.fromkeys(self.rewards[name].parts)
            ids |= dict.fromkeys(gate.dimension for gate in gates if gate.dimension)
        return tuple(ids)

    @contextmanager
    def open_file(self, field: str, path: str, team: str) -> Iterator[BinaryIO]:
        """Open a file below the folder of a team; what was opened is checked, not its name.

        Args:
            field: What names the file, for errors.

        Raises:
            InputError: there is no such file, or the team has no folder.
        """
        if (root := self.roots.get(team)) is None:
            raise InputError(field, "this team has no folder here", "send the bytes")
        try:
            with open(os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
                place = Path(f"/proc/self/fd/{file.fileno()}").readlink()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and place.is_relative_to(root.resolve()):
                    yield file
                    return
        except (OSError, ValueError):
            pass
        raise InputError(field, "no such file below the folder of the team", "send the bytes")

    def range_of(self, name: str, part: str) -> Range:
        """Return the values of a part at the worst and the best end of the scale."""
        dimension = self.dimension_set.by_id[part]
        low, high = dimension.range
        usual = (low, high) if dimension.higher_is_better else (high, low)
        return self.rewards[name].parts[part].range or usual

    def _check(self, place: str, table: RewardTable) -> None:
        by_id = self.dimension_set.by_id
        gates = {f"gates.{name}": gate.dimension for name, gate in table.gates.items()}
        for where, one in {**{f"parts.{i}": i for i in table.parts}, **gates}.items():
            if one and one not in by_id:
                fix = "editjudge list dimensions shows the ids; a rubric needs `rubrics`"
                raise ConfigError(f"{place}.{where}: no dimension is called {one!r}", fix)
        for part, own in table.parts.items():
            _check_range(f"{place}.parts.{part}", own.range, by_id[part])
        self.dimension_set.select(filter(None, (*table.parts, *gates.values())))


def _check_range(place: str, own_range: Range | None, dimension: Dimension) -> None:
    low, high = dimension.range
    if own_range is None:
        return
    worst, best = own_range
    if worst == best or not (low <= worst <= high and low <= best <= high):
        text = f"{place}: the range {worst:g} to {best:g} does not fit {low:g} to {high:g}"
        raise ConfigError(text, "give two values of the dimension, the worst first")
