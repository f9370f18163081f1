"""What there is to choose from; official prompts imported, and one's own checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import indent
from typing import TypeAlias, TypeVar

from ..app import lists
from ..base.contracts import CONTRACTS, Tensor
from ..base.errors import ConfigError
from ..base.official import import_official_prompts, official_prompts
from ..base.screen import say
from ..benchmarks.benchmark import Benchmark, in_words, rubric_dimensions
from ..benchmarks.registry import benchmark, benchmarks, select
from ..panel import SERVICES, model_name
from ..panel.services import own_services
from ..prompts import templates
from ..prompts.custom import checked, custom_in, custom_templates
from ..prompts.folder import files_in
from ..prompts.rubrics import rubric_files, rubrics_among
from ..report.numbers import arrow
from .options import settings_of
from .output import print_json
from .scoring import show_prompt

N = TypeVar("N", bound=str)
Listed: TypeAlias = (
    Sequence[lists.Benchmark]
    | Sequence[lists.Switch]
    | Sequence[lists.ListedDimension]
    | Sequence[lists.Service]
    | lists.Prompts
)


def list_command(what: str, names: tuple[str, ...], prompts: Path | None, *, json: bool) -> None:
    """List what there is to choose from."""
    shown = _KINDS[what](names, prompts)
    if json:
        print_json(shown)
        return
    for line in _lines(shown, text=bool(names)):
        say(line)


def _benchmarks(names: tuple[str, ...], _: Path | None) -> list[lists.Benchmark]:
    return [
        lists.Benchmark(
            benchmark=one.name,
            title=one.title,
            protocols=", ".join(filter(None, one.protocols)),
            not_official_because=one.unreleased or None,
            dimensions=len(one.dimensions),
        )
        for one in _declared(names)
    ]


def _declared(names: tuple[str, ...]) -> Iterable[Benchmark]:
    return map(benchmark, names) if names else benchmarks().values()


def _switches(names: tuple[str, ...], _: Path | None) -> list[lists.Switch]:
    return [
        lists.Switch(
            benchmark=one.name,
            switch=switch.name,
            what=switch.what,
            source=switch.source,
            on_in=", ".join(n for n, rules in one.protocols.items() if switch.name in rules.on),
        )
        for one in _declared(names)
        for switch in one.switches.declared()
    ]


def _dimensions(patterns: tuple[str, ...], prompts: Path | None) -> list[lists.ListedDimension]:
    custom = custom_in(prompts) if prompts else ()
    rubrics = {d.id: d for d in rubric_dimensions(custom)}
    others = tuple(name for name in patterns if name not in rubrics)
    own = [d for name, d in rubrics.items() if name in patterns or not patterns]
    ours = select(others) if others or not patterns else ()
    return [lists.ListedDimension.of(d) for d in (*in_words(ours, custom), *own)]


def _services(names: tuple[str, ...], _: Path | None) -> list[lists.Service]:
    every = [*SERVICES, *own_services(settings_of())]
    return [
        lists.Service(
            service=name,
            model=model_name(name),
            inputs=tuple(map(_tensor, contract.inputs)),
            outputs=tuple(map(_tensor, contract.outputs)),
        )
        for name in _chosen(every, names, "service")
        for contract in (CONTRACTS[name.role],)
    ]


def _tensor(tensor: Tensor) -> str:
    shape = ",".join("n" if size < 0 else str(size) for size in tensor.shape)
    return f"{tensor.name} {tensor.dtype}[{shape}]"


def _prompts(patterns: tuple[str, ...], _: Path | None) -> lists.Prompts:
    own, originals = templates(), official_prompts()
    chosen = set(_chosen([*own, *originals], patterns, "prompt"))
    return lists.Prompts(
        own=tuple(
            lists.Template.model_validate(one, from_attributes=True)
            for name, one in own.items()
            if name in chosen
        ),
        originals=tuple(
            lists.Original(
                prompts=one.name,
                imported=one.imported,
                source=one.source,
                texts=dict(one.texts),
            )
            for name, one in originals.items()
            if name in chosen
        ),
    )


def _chosen(names: Sequence[N], patterns: tuple[str, ...], what: str) -> list[N]:
    """The names that patterns match, all without any.

    Raises:
        ConfigError: a pattern matches none.
    """

    def matches(pattern: str, name: str) -> bool:
        return fnmatchcase(name, pattern) or name.startswith(f"{pattern.rstrip('/')}/")

    for pattern in patterns:
        if not any(matches(pattern, name) for name in names):
            folders = dict.fromkeys(name.partition("/")[0] for name in names)
            raise ConfigError(f"no {what} is called {pattern}", f"there are {', '.join(folders)}")
    return [name for name in names if any(matches(one, name) for one in patterns or ("*",))]


_KINDS: Mapping[str, Callable[[tuple[str, ...], Path | None], Listed]] = {
    "benchmarks": _benchmarks,
    "switches": _switches,
    "dimensions": _dimensions,
    "services": _services,
    "prompts": _prompts,
}


def _lines(listed: Listed, *, text: bool) -> Iterator[str]:
    """What is listed, for people."""
    if isinstance(listed, lists.Prompts):
        yield from _prompt_lines(listed, text=text)
        return
    of = ""
    for entry in listed:
        if isinstance(entry, lists.Switch) and entry.benchmark != of:
            of = entry.benchmark
            yield f"{of}:"
        yield from _entry(entry)


def _entry(
    entry: lists.Benchmark | lists.Switch | lists.ListedDimension | lists.Service,
) -> Iterator[str]:
    match entry:
        case lists.Benchmark():
            yield f"{entry.benchmark:<10} {entry.title:<22} {entry.protocols or 'one protocol'}"
            if entry.not_official_because:
                yield f"    no protocol official: {entry.not_official_because}"
        case lists.Switch():
            yield f"{entry.switch:<28} on in: {entry.on_in or 'none'}"
            yield f"    {entry.what} ({entry.source})"
        case lists.ListedDimension():
            low, high = entry.range
            unit = f" {entry.unit}" if entry.unit else ""
            needs = ", ".join([*(need.replace("_", " ") for need in entry.needs), *entry.services])
            yield (
                f"{entry.id:<34} {low:g}..{high:g}{unit} {arrow(entry.higher_is_better)}"
                f"   {'needs ' + needs if needs else ''}"
            )
            yield f"    {entry.asks}\n    {entry.variant} ({entry.source})"
            if "custom" in (entry.prompts or ""):
                yield f"    prompts in {entry.prompts} words"
        case lists.Service():
            tensors = f"{', '.join(entry.inputs)} -> {', '.join(entry.outputs)}"
            yield f"{entry.service:<14} model {entry.model:<14} {tensors}"


def _prompt_lines(prompts: lists.Prompts, *, text: bool) -> Iterator[str]:
    for template in prompts.own:
        yield f"{template.name:<48} own  {template.digest[:19]}"
        yield f"    {template.asks} ({template.source})"
        if text:
            words = "\n\n".join((template.system, template.user, template.answer))
            yield indent(words, "    | ", lambda _: True)
    for release in prompts.originals:
        state = "imported" if release.imported else "not imported"
        yield f"{release.prompts:<48} official, {state}\n    {release.source}"


def import_command(name: str, path: Path, *, json: bool) -> None:
    """Find the official prompts of a benchmark and keep them."""
    files = import_official_prompts(name, path)
    folder = official_prompts()[name].folder
    if json:
        print_json(lists.Imported(prompts=name, folder=folder, found=files))
        return
    for file, source in files.items():
        say(f"{file} from {source}")
    say(f"kept in {folder}")


def check_command(path: Path, *, json: bool) -> int:
    """Check prompts of one's own; returns the exit code."""
    if path.is_file():
        (rubric,) = rubrics_among(custom_templates(rubric_files([path])))
        ends = dict.fromkeys(("sources", "edited", "target"), "\n")
        places = {name: f"[{name}]{ends.get(name, '')}" for name in rubric.fields}
        show_prompt(rubric, rubric.prompt(places))
        return 0
    texts, strays = files_in(path)
    read = (*checked(texts, str(path)), *strays)
    problems = tuple(str(one) for one in read if isinstance(one, ConfigError))
    templates = tuple(
        lists.Template.model_validate(one, from_attributes=True)
        for one in read
        if not isinstance(one, ConfigError)
    )
    if json:
        print_json(lists.Checked(templates=templates, problems=problems))
        return 2 if problems else 0
    for template in templates:
        say(f"{template.name:<48} {template.origin}  {template.digest[:19]}")
    for problem in problems:
        say(problem)
    say("something is wrong" if problems else "all is well")
    return 2 if problems else 0
