"""What a run is asked for, and what that means here: the benchmark's rules, data and dimensions."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from ..base.config import Settings
from ..base.errors import ConfigError
from ..base.identity import ServiceName
from ..base.objects import find_url
from ..base.output_files import write_output
from ..base.parse import first_problem
from ..base.strict import FrozenModel, pick_fields
from ..benchmarks.benchmark import Benchmark, Rules
from ..benchmarks.dataset import Dataset, has_path_mapping
from ..benchmarks.dimension import Dimension
from ..benchmarks.imported_dimensions import make_imported_dimensions
from ..benchmarks.pairs import FILE as PAIRS
from ..benchmarks.pairs import FIRST, PREFERENCE, Pairs, PairsFile
from ..benchmarks.registry import add_specialists, list_requests, select_dimensions
from ..benchmarks.registry import load_benchmark as benchmark_of
from ..benchmarks.registry import load_dimensions as all_dimensions
from ..benchmarks.rounds import DEFAULT_JUDGE, JudgeRounds, make_rounds, with_rounds
from ..engine.outcomes import sort_by_dependency
from ..engine.run_header import RunHeader
from ..engine.run_inputs import RunInputs
from ..engine.session import service_settings
from ..panel.specialists import filter_custom
from ..prompts.custom_templates import ORIGIN as CUSTOM
from ..prompts.custom_templates import load_custom_templates, load_custom_texts
from ..prompts.rubrics import list_rubric_ids, select_rubrics

MAX_ROUNDS = 1000
_PathByName: TypeAlias = Annotated[
    Mapping[str, Path],
    AfterValidator(MappingProxyType),
    PlainSerializer(lambda paths: {name: str(path) for name, path in paths.items()}),
]


def _check_models(outputs: Mapping[str, Path]) -> Mapping[str, Path]:
    for model in outputs:
        if not model or not model.isprintable():
            raise ValueError(f"{model!r} is no name of a model")
    return outputs


def _read_prompts(prompts: Any) -> Any:
    return load_custom_texts(Path(prompts)) if isinstance(prompts, str | os.PathLike) else prompts


class RunSpec(FrozenModel):
    """A specification of a run: benchmark, data, outputs, and what to judge them on.

    ```python
    spec = RunSpec(benchmark="core", data="items.jsonl", outputs={"ours": "out/ours"})
    ```

    It is frozen plain data: it goes to JSON and back, equal specs compare equal.

    Attributes:
        benchmark: The name of the benchmark.
        data: The path of its data.
        outputs: The folder of outputs by model under test; `ours@2` has more outputs of `ours`.
        protocol: A short name, or a full one (`kris.paper.1`); empty for the usual protocol.
        on: Switches to turn on besides (`editjudge list switches`).
        off: Switches to turn off.
        roots: Where files lie that the data names by their official paths. A folder by its own
            name is one whose pictures the data may name although it lies elsewhere.
        judges: Names of the judges, which judge side by side.
        rounds: The number of rounds in which each judge judges, 1 to 1,000. Every round is stored.
        dimensions: Ids, globs or `Dimension` objects, never an empty list; None for those of the
            benchmark, as the empty tuple of the attribute says.
        limit: The number of items, from the first; None for all.
        tasks: Globs of the tasks whose items are judged; by default all.
        services: Your own specialists (`quality.mylab`) whose dimensions may be chosen.
        prompts: Your own prompt templates, which replace ours: their texts by file, so that the
            spec is complete by itself. A folder is read when the spec is made (docs/howto/prompts.md).
        single_image: Models under test that take one image only: what they gave no output for
            counts as the benchmark says. A run remembers them.

    Raises:
        ConfigError: a field is unknown or malformed, or the benchmark, the protocol or a switch
            does not exist.
    """

    benchmark: str
    data: Path
    outputs: Annotated[_PathByName, AfterValidator(_check_models)] = Field(default_factory=dict, validate_default=True)
    protocol: str = ""
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    roots: _PathByName = Field(default_factory=dict, validate_default=True)
    judges: Annotated[tuple[str, ...], AfterValidator(lambda names: tuple(dict.fromkeys(names)))] = Field(
        default=(DEFAULT_JUDGE,), min_length=1
    )
    rounds: int = Field(default=1, ge=1, le=MAX_ROUNDS)
    dimensions: Annotated[tuple[str, ...], PlainSerializer(lambda ids: ids or None)] = ()
    limit: int | None = Field(default=None, ge=1)
    tasks: tuple[str, ...] = ()
    prompts: Annotated[
        Mapping[str, str], BeforeValidator(_read_prompts), AfterValidator(MappingProxyType), PlainSerializer(dict)
    ] = Field(default_factory=dict, validate_default=True)
    single_image: tuple[str, ...] = ()
    services: tuple[ServiceName, ...] = ()
    _own: dict[str, Dimension] = PrivateAttr(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            benchmark: str,
            data: Path | str,
            outputs: Mapping[str, Path] | Mapping[str, str] = ...,
            protocol: str = "",
            on: Sequence[str] = (),
            off: Sequence[str] = (),
            roots: Mapping[str, Path] | Mapping[str, str] = ...,
            judges: Sequence[str] = ...,
            rounds: int = 1,
            dimensions: str | Dimension | Sequence[str | Dimension] | None = None,
            limit: int | None = None,
            tasks: Sequence[str] = (),
            prompts: Path | str | Mapping[str, str] = ...,
            single_image: Sequence[str] = (),
            services: Sequence[ServiceName | str] = (),
        ) -> None: ...

    @classmethod
    def of(cls, header: RunHeader, own_dimensions: Iterable[Dimension] = ()) -> Self:
        """Make the spec of a stored run, over all its sessions; without limit and tasks.

        Its rules need not exist any more: only the form is checked.

        Args:
            own_dimensions: Dimensions of the run that are no registered ones, as objects.
        """
        judge_rounds = JudgeRounds(header.judges, header.rounds)
        round_ids = {
            judge_round.dimension_id(name) for judge_round in judge_rounds.each_round for name in header.dimensions
        }
        spec = cls.model_construct(
            **pick_fields(header, "benchmark", "protocol", "judges", "rounds", "single_image"),
            data=Path(header.data),
            outputs=_paths(header.outputs),
            roots=_paths(header.roots),
            dimensions=tuple(name for name in header.dimensions if name not in round_ids),
            prompts=MappingProxyType(dict(header.prompts)),
            services=filter_custom((*header.identities, *header.not_served)),
        )
        spec._own = {each.id: each for each in (*make_imported_dimensions(header.identities), *own_dimensions)}
        return spec

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        own: dict[str, Dimension] = {}
        if isinstance(data, dict) and "dimensions" in data:
            requests = data["dimensions"]
            entries = () if requests is None else list_requests(requests)
            own = {each.id: each for each in entries if isinstance(each, Dimension)}
            data = data | {"dimensions": [getattr(each, "id", each) for each in entries]}
        try:
            spec = handler(data)
        except ValidationError as error:
            raise ConfigError(f"a run's spec: {first_problem(error, cls)}") from error
        spec._own |= own
        spec.rules()
        return spec

    def rules(self) -> Rules:
        """The benchmark's rules by this protocol and these switches.

        Raises:
            ConfigError: there are none such here.
        """
        benchmark = benchmark_of(self.benchmark)
        if "." in self.protocol:
            rules = benchmark.rules_from_name(self.protocol, self.on, self.off)
        else:
            rules = benchmark.rules(self.protocol or None, self.on, self.off)
        rules = add_specialists(rules.with_templates(load_custom_templates(self.prompts)), self.services)
        extra_dimensions = (*rules.extra_dimensions, *self.own_dimensions)
        return replace(rules, extra_dimensions=extra_dimensions)

    @property
    def own_dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions that were given as objects; JSON has their ids alone."""
        return tuple(self._own.values())

    @property
    def judge_rounds(self) -> JudgeRounds:
        """Which judges, and in how many rounds each judges."""
        return JudgeRounds(self.judges, self.rounds)

    def __reduce__(self) -> tuple[Any, ...]:
        dimensions = [self._own.get(name, name) for name in self.dimensions] or None
        return RunSpec.model_validate, (self.model_dump(mode="json") | {"dimensions": dimensions},)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


def ask_about_pairs(spec: RunSpec, file: Path, per_item: int | None = None) -> RunSpec:
    """Write the file of the pairs of a spec's models, and return the spec of a run about them.

    Args:
        file: `pairs.json` in some folder, which is made.
        per_item: How many pairs are drawn at random for each item, asked in both orders; all by default.

    Raises:
        ConfigError: there are fewer than two models.
    """
    if len(spec.outputs) < 2:
        raise ConfigError("--pairs compares models", "give --outputs MODEL=DIR twice or more")
    data, *folders = (path if find_url(path) else path.absolute() for path in (spec.data, *spec.outputs.values()))
    plan = PairsFile(data=data, outputs=dict(zip(spec.outputs, folders, strict=True)), per_item=per_item)
    write_output(file, plan.model_dump_json(indent=2).encode())
    dimensions = spec.dimensions or (PREFERENCE, *list_rubric_ids(spec.prompts))
    changes = {"data": file, "outputs": {FIRST: Path(FIRST)}, "dimensions": dimensions, "single_image": ()}
    return spec.model_copy(update=changes)


def check_known(names: Iterable[str], dimensions: Mapping[str, Dimension]) -> None:
    """Refuse a run that has dimensions which are neither registered nor given as objects.

    Args:
        names: The dimensions of the run.
        dimensions: All that are known here, by id.

    Raises:
        ConfigError: names them.
    """
    if unknown := [name for name in names if name not in dimensions]:
        raise ConfigError(
            f"the run has dimensions that are not known here: {', '.join(unknown)}",
            "give each as an object, RunSpec(dimensions=[…]) or RunView(folder, dimensions=[…]),"
            " or install the package that adds it",
        )


class ResolvedSpec(RunInputs):
    """The objects that a `RunSpec` names, which a `RunPlan` is made of; each is made at first use.

    Args:
        rules: Others than the spec's own; what these do without is left out.
        shard: Only every n-th item, from the i-th on, as (i, n) with i from 0.
        read_items: Reads the items in the place of the spec's data.
    """

    def __init__(
        self,
        spec: RunSpec,
        rules: Rules | None = None,
        shard: tuple[int, int] = (0, 1),
        read_items: Callable[[], Dataset] | None = None,
    ) -> None:
        self.spec = spec
        self._read_items = read_items
        self._other = rules
        # The other fields of the frozen class are properties here, made at first use.
        vars(self).update(
            outputs=spec.outputs, limit=spec.limit, tasks=spec.tasks, judge_rounds=spec.judge_rounds, shard=shard
        )

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark.

        Raises:
            ConfigError: there is none of this name.
        """
        return benchmark_of(self.spec.benchmark)

    @cached_property
    def rules(self) -> Rules:
        """The rules.

        Raises:
            ConfigError: the benchmark has no such protocol or switch.
        """
        return self._other or self.spec.rules()

    @cached_property
    def dimensions_by_id(self) -> dict[str, Dimension]:
        """The dimensions that may be chosen, by id; judged ones are means of their rounds.

        Raises:
            ConfigError: a dimension given as an object has the id of a registered one.
        """
        own = {dimension.id: dimension for dimension in self.spec.own_dimensions}
        names = (name for name in self.spec.dimensions if name not in own)
        others = all_dimensions([self.spec.benchmark, *names])
        if ids := [name for name in own if others.get(name, own[name]) != own[name]]:
            raise ConfigError(f"another dimension is called {ids[0]}", "give yours another id")
        return make_rounds(self.rules.dimensions_by_id(others), self.spec.judge_rounds)

    @cached_property
    def dataset(self) -> Dataset:
        """The data.

        Raises:
            ConfigError: a root maps official paths, and this data has none.
            InputError: there is nothing to read.
        """
        if self._read_items is not None:
            return self._read_items()
        roots = {old: str(new) for old, new in self.spec.roots.items()}
        if has_path_mapping(roots) and not self.benchmark.has_official_paths:
            raise ConfigError(
                f"the data of {self.benchmark.name} does not name the paths of the release",
                "give --root FOLDER, for pictures outside its own folder",
            )
        read = partial(self.benchmark.data, **({"roots": roots} if roots else {}))
        return Pairs(self.spec.data, read) if self.spec.data.name == PAIRS else read(self.spec.data)

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Those asked for, each after its rounds.

        Raises:
            ConfigError: a pattern matches nothing, official prompts that are asked are not
                imported, or none of one's own prompts is asked.
        """
        patterns = self._patterns()
        nothing = self.spec.dimensions and not patterns
        selected_dimensions = () if nothing else select_dimensions(patterns, self.rules)
        # Ends here where the official prompts are not imported.
        custom = self.rules.custom
        rubrics = {template.name: template.dimension for template in select_rubrics(custom)}
        ordered_dimensions = (
            d for d in sort_by_dependency(selected_dimensions, self.dimensions_by_id) if d.id not in rubrics.values()
        )
        words = {part for d in ordered_dimensions for part in (d.prompt_origins or "").split("+")}
        replacing = [template.name for template in custom if template.name not in rubrics]
        if replacing and self._other is None and CUSTOM not in words:
            raise ConfigError(
                f"{self.rules.protocol} asks none of these prompts here: {', '.join(replacing)}",
                "see: editjudge list prompts; by the protocol official the official ones are asked",
            )
        return with_rounds(selected_dimensions, self.dimensions_by_id)

    @cached_property
    def requested_ids(self) -> frozenset[str]:
        """Ids of the dimensions that were asked for.

        By other rules than the spec's own these have dimensions that it could not ask for: they are
        asked for where all of its own were.
        """
        ids = {dimension.id for dimension in self.dimensions}
        if self._other is None or not self.spec.dimensions:
            return frozenset(ids)
        own = {dimension.id for dimension in self.spec.rules().dimensions}
        if own <= set(self.spec.dimensions):
            ids |= {one.id for one in self._other.dimensions if one.id not in own}
        return frozenset(ids)

    def check_single_image(self, models: Collection[str]) -> None:
        """Refuse models that take one image only where that means nothing.

        Raises:
            ConfigError: one is no model of the run, or the rules say nothing of such models.
        """
        outputs = self.spec.outputs
        if other := [model for model in models if model not in outputs]:
            raise ConfigError(f"the run has no model {other[0]!r}", f"it has {', '.join(outputs)}")
        if models and self.rules.single_image is None:
            raise ConfigError(
                f"{self.rules.protocol} has no rule for models that take one image only", "leave --single-image out"
            )

    def header(self, settings: Settings) -> RunHeader:
        """What is stored of it: the spec, and what is known before the first call."""
        return RunHeader(
            benchmark=self.benchmark.name,
            protocol=self.rules.protocol,
            data=find_url(self.dataset.path) or str(self.dataset.path),
            data_digest=self.dataset.digest,
            outputs=self.output_folders,
            dimensions=tuple(d.id for d in self.dimensions),
            roots={old: str(new) for old, new in self.spec.roots.items()},
            **pick_fields(self.spec, "single_image", "judges", "rounds"),
            settings=service_settings(settings),
            prompts=dict(self.spec.prompts),
        )

    def _patterns(self) -> Sequence[str]:
        if self._other is None:
            return self.spec.dimensions
        own = {d.id for d in self.spec.rules().dimensions}
        ids = {d.id for d in self._other.dimensions}
        return [name for name in self.spec.dimensions if name in ids or name not in own]


def _paths(texts: Mapping[str, str]) -> Mapping[str, Path]:
    return MappingProxyType({name: Path(text) for name, text in texts.items()})
