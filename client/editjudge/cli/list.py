"""`editjudge list`: the declarations themselves."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from ..benchmarks.registry import benchmark as benchmark_of
from ..benchmarks.registry import benchmarks, select
from ..benchmarks.registry import dimensions as all_dimensions
from ..dimension import Dimension
from ..panel import SERVICES, model_name
from ..panel.contracts import Tensor
from ..report.result import dumps
from ..report.table import arrow
from ..run.judge import roles_of
from .options import json_option

if TYPE_CHECKING:
    from ..prompts import Template


@click.group("list")
def command() -> None:
    """Show the benchmarks, switches, dimensions, services or prompts there are."""


@command.command("dimensions")
@click.argument("patterns", nargs=-1, metavar="[ID]...")
@json_option
def list_dimensions(patterns: tuple[str, ...], as_json: bool) -> None:
    """Every dimension with its question, range, direction, inputs and source."""
    found = [_dimension(d) for d in select(patterns)]
    if as_json:
        click.echo(dumps(found))
        return
    for one in found:
        low, high = one["range"]
        unit = f" {one['unit']}" if one["unit"] else ""
        inputs = (name.replace("_", " ") for name in one["needs"])
        needs = ", ".join([*inputs, *one["services"]])
        click.echo(
            f"{one['id']:<34} {low:g}..{high:g}{unit} {arrow(one['higher_is_better'])}"
            f"   {'needs ' + needs if needs else ''}"
        )
        click.echo(f"    {one['asks']}\n    {one['variant']} ({one['source']})")


@command.command("benchmarks")
@json_option
def list_benchmarks(as_json: bool) -> None:
    """Every benchmark with its protocols."""
    found = [
        {
            "benchmark": one.name,
            "title": one.title,
            "protocols": ", ".join(filter(None, one.protocols)),
            "not_official_because": one.unreleased or None,
            "dimensions": len(one.dimensions),
        }
        for one in benchmarks().values()
    ]
    if as_json:
        click.echo(dumps(found))
        return
    for one in found:
        protocols = one["protocols"] or "one protocol"
        click.echo(f"{one['benchmark']:<10} {one['title']:<22} {protocols}")
        if one["not_official_because"]:
            click.echo(f"    no protocol official: {one['not_official_because']}")


@command.command("switches")
@click.argument("benchmark")
@json_option
def list_switches(benchmark: str, as_json: bool) -> None:
    """What the protocols of a benchmark differ in: --with and --without change it."""
    one = benchmark_of(benchmark)
    found = [
        {
            "switch": switch.name,
            "what": switch.what,
            "source": switch.source,
            "on_in": ", ".join(name for name, on in one.protocols.items() if switch.name in on),
        }
        for switch in one.switches
    ]
    if as_json:
        click.echo(dumps(found))
        return
    if not found:
        click.echo(f"{benchmark} has no switches")
    for entry in found:
        click.echo(f"{entry['switch']:<28} on in: {entry['on_in'] or 'none'}")
        click.echo(f"    {entry['what']} ({entry['source']})")


@command.command("services")
@json_option
def list_services(as_json: bool) -> None:
    """Every service with its model's name and tensors."""
    found = [
        {
            "service": name,
            "model": model_name(name),
            "inputs": [_tensor(t) for t in contract.inputs],
            "outputs": [_tensor(t) for t in contract.outputs],
        }
        for name, contract in SERVICES.items()
    ]
    if as_json:
        click.echo(dumps(found))
        return
    for one in found:
        inputs, outputs = ", ".join(one["inputs"]), ", ".join(one["outputs"])
        click.echo(f"{one['service']:<14} model {one['model']:<14} {inputs} -> {outputs}")


@command.command("prompts")
@click.option("--text", is_flag=True, help="Print their words too.")
@json_option
def list_prompts(text: bool, as_json: bool) -> None:
    """Every prompt of ours with its digest, and the authors' own that can be imported."""
    from ..prompts import templates
    from ..prompts.originals import originals

    ours = [_template(one) for one in templates().values()]
    theirs = [
        {
            "prompts": one.name,
            "origin": "original",
            "imported": one.imported,
            "source": one.source,
            "texts": dict(one.texts),
        }
        for one in originals().values()
    ]
    if as_json:
        click.echo(dumps({"own": ours, "originals": theirs}))
        return
    for template in ours:
        click.echo(f"{template['name']:<48} own  {template['digest'][:19]}")
        click.echo(f"    {template['asks']} ({template['source']})")
        if text:
            shown = "\n\n".join(template[part] for part in ("system", "user", "answer"))
            click.echo(indent(shown, "    | ", lambda _: True))
    for release in theirs:
        state = "imported" if release["imported"] else "not imported"
        click.echo(f"{release['prompts']:<48} original, {state}\n    {release['source']}")


def _template(one: Template) -> dict[str, Any]:
    return {
        "name": one.name,
        "origin": one.origin,
        "digest": one.digest,
        "asks": one.asks,
        "source": one.source,
        "system": one.system,
        "user": one.user,
        "answer": one.answer,
    }


def _dimension(dimension: Dimension) -> dict[str, Any]:
    return {
        "id": dimension.id,
        "asks": dimension.asks,
        "range": list(dimension.range),
        "unit": dimension.unit,
        "higher_is_better": dimension.higher_is_better,
        "needs": sorted(dimension.needs),
        "services": sorted(roles_of(dimension, all_dimensions())),
        "variant": dimension.variant,
        "tolerance": dimension.tolerance,
        "source": dimension.source,
    }


def _tensor(tensor: Tensor) -> str:
    shape = ",".join("n" if size < 0 else str(size) for size in tensor.shape)
    return f"{tensor.name} {tensor.dtype}[{shape}]"
