"""`editjudge list`: benchmarks, switches, dimensions, services and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..base.errors import ConfigError
from ..base.terminal import print_text
from ..benchmarks.registry import load_benchmark, load_benchmarks, select_dimensions

if TYPE_CHECKING:  # each kind loads what it lists
    from ..app.catalogue import DimensionEntry
    from ..base.contracts import Tensor
    from ..benchmarks.benchmark import Benchmark

N = TypeVar("N", bound=str)
Entry: TypeAlias = dict[str, Any]


def list_command(what: str, names: tuple[str, ...], prompts: Path | None, *, json: bool) -> None:
    """List the entries of one kind."""
    entries, lines = _LISTINGS[what]
    if what == "prompts" and not json:
        lines = partial(lines, in_full=bool(names))
    listing = entries(names, prompts)
    if json:
        from .output import print_json

        if what == "benchmarks":  # to count them loads them
            listing = [{**each, "dimensions": len(load_benchmark(each["benchmark"]).dimensions)} for each in listing]
        print_json(listing)
        return
    print_text(*lines(listing))


def _benchmarks(names: tuple[str, ...], _: Path | None) -> list[Entry]:
    return [
        {
            "benchmark": one.name,
            "title": one.title,
            "protocols": ", ".join(filter(None, one.protocols)),
            "not_official_because": one.no_official_reason or None,
        }
        for one in _find_benchmarks(names)
    ]


def _benchmark_lines(benchmarks: Iterable[Entry]) -> Iterator[str]:
    for entry in benchmarks:
        protocols = entry["protocols"] or "one protocol"
        yield f"{entry['benchmark']:<10} {entry['title']:<22} {protocols}"
        if entry["not_official_because"]:
            yield f"    no protocol official: {entry['not_official_because']}"


def _find_benchmarks(names: tuple[str, ...]) -> Iterable[Benchmark]:
    return map(load_benchmark, names) if names else load_benchmarks().values()


def _switches(names: tuple[str, ...], _: Path | None) -> list[Entry]:
    return [
        {
            "benchmark": one.name,
            "switch": switch.name,
            "what": switch.what,
            "source": switch.source,
            "on_in": ", ".join(n for n, rules in one.protocols.items() if switch.name in rules.on),
        }
        for one in _find_benchmarks(names)
        for switch in one.switches.list_switches()
    ]


def _switch_lines(switches: Iterable[Entry]) -> Iterator[str]:
    for name, of in groupby(switches, lambda entry: entry["benchmark"]):
        yield f"{name}:"
        for entry in of:
            yield f"{entry['switch']:<28} on in: {entry['on_in'] or 'none'}"
            yield f"    {entry['what']} ({entry['source']})"


def _dimensions(patterns: tuple[str, ...], prompts: Path | None) -> list[DimensionEntry]:
    from ..app.catalogue import DimensionEntry
    from ..benchmarks.benchmark import use_templates
    from ..benchmarks.rubric_dimensions import make_rubric_dimensions
    from ..prompts.custom_templates import load_custom_folder

    custom = load_custom_folder(prompts) if prompts else ()
    rubrics = {d.id: d for d in make_rubric_dimensions(custom)}
    others = tuple(name for name in patterns if name not in rubrics)
    own = [d for name, d in rubrics.items() if name in patterns or not patterns]
    ours = select_dimensions(others) if others or not patterns else ()
    return [DimensionEntry.of(d) for d in (*use_templates(ours, custom), *own)]


def _dimension_lines(dimensions: Iterable[DimensionEntry]) -> Iterator[str]:
    from ..report.numbers import direction_arrow

    for entry in dimensions:
        low, high = entry.range
        unit = f" {entry.unit}" if entry.unit else ""
        needs = ", ".join([*(need.replace("_", " ") for need in entry.needs), *entry.services])
        needs_text = f"needs {needs}" if needs else ""
        arrow = direction_arrow(entry.higher_is_better)
        yield f"{entry.id:<34} {low:g}..{high:g}{unit} {arrow}   {needs_text}"
        yield f"    {entry.asks}\n    {entry.variant} ({entry.source})"
        if "custom" in (entry.prompts or ""):
            yield f"    prompts in {entry.prompts} words"


def _services(names: tuple[str, ...], _: Path | None) -> list[Entry]:
    from ..base.contracts import CONTRACTS
    from ..panel import SPECIALISTS, model_name
    from ..panel.specialists import list_custom_services
    from .options import settings_from

    every = [*SPECIALISTS, *list_custom_services(settings_from())]
    return [
        {
            "service": name,
            "model": model_name(name),
            "inputs": [*map(_tensor, contract.inputs)],
            "outputs": [*map(_tensor, contract.outputs)],
        }
        for name in _select_names(every, names, "service")
        for contract in (CONTRACTS[name.role],)
    ]


def _service_lines(services: Iterable[Entry]) -> Iterator[str]:
    for entry in services:
        tensors = f"{', '.join(entry['inputs'])} -> {', '.join(entry['outputs'])}"
        yield f"{entry['service']:<14} model {entry['model']:<14} {tensors}"


def _tensor(tensor: Tensor) -> str:
    shape = ",".join("n" if size < 0 else str(size) for size in tensor.shape)
    return f"{tensor.name} {tensor.dtype}[{shape}]"


def _prompts(patterns: tuple[str, ...], _: Path | None) -> Entry:
    from ..app.catalogue import TemplateEntry
    from ..base.prompt_releases import prompt_releases
    from ..prompts import load_templates

    own, originals = load_templates(), prompt_releases()
    selection = set(_select_names([*own, *originals], patterns, "prompt"))
    return {
        "own": [TemplateEntry.of(one) for name, one in own.items() if name in selection],
        "originals": [
            {
                "prompts": one.name,
                "origin": "original",
                "imported": one.is_imported,
                "source": one.source,
                "texts": dict(one.texts),
            }
            for name, one in originals.items()
            if name in selection
        ],
    }


def _prompt_lines(prompts: Entry, *, in_full: bool) -> Iterator[str]:
    for template in prompts["own"]:
        yield f"{template.name:<48} own  {template.digest[:19]}"
        yield f"    {template.asks} ({template.source})"
        if in_full:
            words = "\n\n".join((template.system, template.user, template.answer))
            yield indent(words, "    | ", lambda _: True)
    for release in prompts["originals"]:
        state = "imported" if release["imported"] else "not imported"
        yield f"{release['prompts']:<48} official, {state}\n    {release['source']}"


def _select_names(names: Sequence[N], patterns: tuple[str, ...], what: str) -> list[N]:
    """Select the names that match any of the patterns; without patterns all names.

    Raises:
        ConfigError: a pattern matches no name.
    """

    def matches(pattern: str, name: str) -> bool:
        return fnmatchcase(name, pattern) or name.startswith(f"{pattern.rstrip('/')}/")

    for pattern in patterns:
        if not any(matches(pattern, name) for name in names):
            folders = dict.fromkeys(name.partition("/")[0] for name in names)
            raise ConfigError(f"no {what} matches {pattern}", f"choose from {', '.join(folders)}")
    return [name for name in names if any(matches(one, name) for one in patterns or ("*",))]


_LISTINGS: Mapping[str, tuple[Callable[..., Any], Callable[..., Iterator[str]]]] = {
    "benchmarks": (_benchmarks, _benchmark_lines),
    "switches": (_switches, _switch_lines),
    "dimensions": (_dimensions, _dimension_lines),
    "services": (_services, _service_lines),
    "prompts": (_prompts, _prompt_lines),
}
"""The functions that list the entries of each kind and format them as text."""
