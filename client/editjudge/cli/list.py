"""`editjudge list`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from ..base.errors import ConfigError
from ..base.screen import say, say_json
from . import importing
from .options import config_option, json_option, prompts_option, settings_of

if TYPE_CHECKING:
    from ..app.wire import lists as wire
    from ..base.contracts import Tensor
    from ..benchmarks.benchmark import Benchmark


@click.group("list")
def command() -> None:
    """Show the benchmarks, switches, dimensions, services or prompts there are."""


@command.command("dimensions")
@click.argument("patterns", nargs=-1, metavar="[ID]...")
@prompts_option
@json_option
def list_dimensions(patterns: tuple[str, ...], prompts: Path | None, as_json: bool) -> None:
    """Every dimension with its question, range, direction, inputs and source."""
    with importing():
        from ..app.wire import lists as wire
        from ..app.wire.base import text_of
        from ..benchmarks.benchmark import in_words
        from ..benchmarks.own import rubric_dimensions
        from ..benchmarks.registry import select
        from ..prompts.custom import custom_in
        from ..report.numbers import arrow

    custom = custom_in(prompts) if prompts else ()
    rubrics = {d.id: d for d in rubric_dimensions(custom)}
    others = tuple(name for name in patterns if name not in rubrics)
    own = [d for name, d in rubrics.items() if name in patterns or not patterns]
    ours = select(others) if others or not patterns else ()
    declared = (*in_words(ours, custom), *own)
    listed = [wire.Dimension.of(d) for d in declared]
    if as_json:
        say_json(text_of(listed))
        return
    for dimension in listed:
        low, high = dimension.range
        unit = f" {dimension.unit}" if dimension.unit else ""
        inputs = (name.replace("_", " ") for name in dimension.needs)
        needs = ", ".join([*inputs, *dimension.services])
        say(
            f"{dimension.id:<34} {low:g}..{high:g}{unit} {arrow(dimension.higher_is_better)}"
            f"   {'needs ' + needs if needs else ''}"
        )
        say(f"    {dimension.asks}\n    {dimension.variant} ({dimension.source})")
        if "custom" in (dimension.prompts or ""):
            say(f"    prompts in {dimension.prompts} words")


@command.command("benchmarks")
@json_option
def list_benchmarks(as_json: bool) -> None:
    """Every benchmark with its protocols."""
    with importing():
        from ..app.wire import lists as wire
        from ..app.wire.base import text_of
        from ..benchmarks.registry import benchmarks

    listed = [
        wire.Benchmark(
            benchmark=b.name,
            title=b.title,
            protocols=", ".join(filter(None, b.protocols)),
            not_official_because=b.unreleased or None,
            dimensions=len(b.dimensions),
        )
        for b in benchmarks().values()
    ]
    if as_json:
        say_json(text_of(listed))
        return
    for declared in listed:
        protocols = declared.protocols or "one protocol"
        say(f"{declared.benchmark:<10} {declared.title:<22} {protocols}")
        if declared.not_official_because:
            say(f"    no protocol official: {declared.not_official_because}")


@command.command("switches")
@click.argument("benchmark", required=False)
@json_option
def list_switches(benchmark: str | None, as_json: bool) -> None:
    """What the protocols of a benchmark differ in: --with and --without change it.

    Without BENCHMARK, the switches of all.
    """
    with importing():
        from ..app.wire.base import text_of
        from ..benchmarks.registry import benchmark as benchmark_of
        from ..benchmarks.registry import benchmarks

    asked = [benchmark_of(benchmark)] if benchmark else [*benchmarks().values()]
    listed = [switch for declared in asked for switch in _switches(declared)]
    if as_json:
        say_json(text_of(listed))
        return
    if not listed:
        say(f"{benchmark} has no switches")
    above = benchmark
    for switch in listed:
        if switch.benchmark != above:
            say(f"{switch.benchmark}:")
        above = switch.benchmark
        say(f"{switch.switch:<28} on in: {switch.on_in or 'none'}")
        say(f"    {switch.what} ({switch.source})")


def _switches(declared: Benchmark) -> Iterator[wire.Switch]:
    with importing():
        from ..app.wire import lists as wire

    for switch in declared.switches.declared():
        usual = (name for name, rules in declared.protocols.items() if switch.name in rules.on)
        yield wire.Switch(
            benchmark=declared.name,
            switch=switch.name,
            what=switch.what,
            source=switch.source,
            on_in=", ".join(usual),
        )


@command.command("services")
@config_option
@json_option
def list_services(config: Path | None, as_json: bool) -> None:
    """Every service, those of your settings too, with its model's name and tensors."""
    with importing():
        from ..app.wire import lists as wire
        from ..app.wire.base import text_of
        from ..base.contracts import CONTRACTS
        from ..panel import SERVICES, model_name
        from ..panel.services import own_services

    every = (*SERVICES, *own_services(settings_of(config)))
    listed = [
        wire.Service(
            service=name,
            model=model_name(name),
            inputs=tuple(map(_tensor, contract.inputs)),
            outputs=tuple(map(_tensor, contract.outputs)),
        )
        for name in every
        for contract in (CONTRACTS[name.role],)
    ]
    if as_json:
        say_json(text_of(listed))
        return
    for service in listed:
        inputs, outputs = ", ".join(service.inputs), ", ".join(service.outputs)
        say(f"{service.service:<14} model {service.model:<14} {inputs} -> {outputs}")


@command.command("prompts")
@click.argument("patterns", nargs=-1, metavar="[NAME]...")
@click.option("--text", is_flag=True, help="Print their words too.")
@json_option
def list_prompts(patterns: tuple[str, ...], text: bool, as_json: bool) -> None:
    """Every prompt of ours with its digest, and the official ones that can be imported.

    NAME is a prompt, a glob of them (kris/*) or their folder (kris).
    """
    with importing():
        from ..app.wire.base import text_of

    prompts = _named(_all_prompts(), patterns)
    if as_json:
        say_json(text_of(prompts))
        return
    for template in prompts.own:
        say(f"{template.name:<48} own  {template.digest[:19]}")
        say(f"    {template.asks} ({template.source})")
        if text:
            shown = "\n\n".join((template.system, template.user, template.answer))
            say(indent(shown, "    | ", lambda _: True))
    for release in prompts.originals:
        state = "imported" if release.imported else "not imported"
        say(f"{release.prompts:<48} official, {state}\n    {release.source}")


def _all_prompts() -> wire.Prompts:
    with importing():
        from ..app.wire import lists as wire
        from ..base.official import official_prompts
        from ..prompts import templates

    return wire.Prompts(
        own=tuple(
            wire.Template.model_validate(t, from_attributes=True) for t in templates().values()
        ),
        originals=tuple(
            wire.Original(
                prompts=o.name,
                imported=o.imported,
                source=o.source,
                texts=dict(o.texts),
            )
            for o in official_prompts().values()
        ),
    )


def _named(prompts: wire.Prompts, patterns: tuple[str, ...]) -> wire.Prompts:
    """The prompts that patterns name, all without any.

    Raises:
        ConfigError: a pattern names none.
    """

    def names(pattern: str, name: str) -> bool:
        return fnmatchcase(name, pattern) or name.startswith(f"{pattern.rstrip('/')}/")

    known = [*(one.name for one in prompts.own), *(one.prompts for one in prompts.originals)]
    for pattern in patterns:
        if not any(names(pattern, name) for name in known):
            folders = dict.fromkeys(name.partition("/")[0] for name in known)
            raise ConfigError(f"no prompt is called {pattern}", f"there are {', '.join(folders)}")
    chosen = {name for name in known if any(names(one, name) for one in patterns or ("*",))}
    return prompts.model_copy(
        update={
            "own": tuple(one for one in prompts.own if one.name in chosen),
            "originals": tuple(one for one in prompts.originals if one.prompts in chosen),
        }
    )


def _tensor(tensor: Tensor) -> str:
    shape = ",".join("n" if size < 0 else str(size) for size in tensor.shape)
    return f"{tensor.name} {tensor.dtype}[{shape}]"
