"""`editjudge models`: bring weights here, export them, and check that they are the right ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import ConfigError, EditjudgeError
from ..report.result import dumps
from .options import json_option

if TYPE_CHECKING:
    from editjudge_services.zoo.manifest import Entry

F = TypeVar("F", bound=Callable[..., Any])


@click.group("models")
def command() -> None:
    """Pull, export and verify model weights.

    They lie under EDITJUDGE_MODELS_DIR, or in the user's data folder.
    """
    if not sys.stderr.isatty():
        # transformers draws its bars in log files too, unless told before it is imported.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def _names(function: F) -> F:
    """`NAME...` or `--profile`."""
    profile = click.option(
        "--profile",
        type=click.Choice(["lite", "paper"]),
        help="All models that run on a CPU (lite), or that the papers use.",
    )
    return click.argument("names", nargs=-1, metavar="[NAME]...")(profile(function))


_accept_license = click.option(
    "--accept-license", is_flag=True, help="Accept the restricted licences of the models named."
)


@command.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """Every model: what is installed of it, its licence, size and profiles."""
    from editjudge_services.zoo.manifest import manifest

    found = [_described(entry) for entry in manifest().values()]
    if as_json:
        click.echo(dumps(found))
        return
    from rich.table import Table

    from ..report.table import console

    table = Table("model", "service", "here", "GiB", "licence", "profiles", box=None)
    for one in found:
        table.add_row(
            one["name"],
            one["service"],
            _here(one),
            f"{one['gib']['fp32']:.2f}",
            ", ".join([one["licence"], *(k for k in ("restricted", "gated") if one[k])]),
            ", ".join(one["profiles"]),
        )
    console().print(table)


@command.command("pull")
@_names
@_accept_license
def pull_models(names: tuple[str, ...], profile: str | None, accept_license: bool) -> int:
    """Pull checkpoints from the hub; HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE apply."""
    from editjudge_services.zoo.checkpoint import load_checkpoint
    from editjudge_services.zoo.pull import pull

    def one(entry: Entry) -> str:
        here = load_checkpoint(entry.name)
        if entry.supply == "file" and here and not here.untrained:
            return f"{entry.name} is here: {here.source}"
        return f"{entry.name} is here: {pull(entry, accept_license=accept_license).source}"

    return _each(_chosen(names, profile), one)


@command.command("import")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@_accept_license
def import_model(name: str, file: Path, accept_license: bool) -> int:
    """Bring the FILE of a model that is not on the hub."""
    from editjudge_services.zoo.manifest import find
    from editjudge_services.zoo.pull import import_file

    record = import_file(find(name), file, accept_license=accept_license)
    click.echo(f"{name} is here: {record.source}")
    return 0


@command.command("untrained")
@_names
def make_untrained(names: tuple[str, ...], profile: str | None) -> int:
    """Make tiny checkpoints of random weights: to try the services, never for results."""
    from editjudge_services.zoo import export

    def one(entry: Entry) -> str:
        return f"{entry.name} is here: {export.make_untrained(entry).source}"

    return _each(_chosen(names, profile, made_here=True), one)


@command.command("export")
@_names
@click.option(
    "--precision", type=click.Choice(["fp32", "fp16", "bf16"]), default="fp32", show_default=True
)
def export_models(names: tuple[str, ...], profile: str | None, precision: str) -> int:
    """Export checkpoints to what the services load, and compare the two."""
    from editjudge_services.zoo import export

    def one(entry: Entry) -> str:
        artefact = export.export(entry, precision)  # type: ignore[arg-type]
        parity = artefact.parity
        near = f", within {parity.largest_difference:.2g} of its source" if parity else ""
        return f"{entry.name} {precision} is ready{near} ({artefact.source})"

    return _each(_chosen(names, profile, made_here=True), one)


@command.command("verify")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def verify_models(names: tuple[str, ...]) -> int:
    """Check files and fingerprints of what is installed; of everything for no NAME."""
    from editjudge_services.zoo import export
    from editjudge_services.zoo.checkpoint import load_checkpoint
    from editjudge_services.zoo.manifest import manifest

    def one(entry: Entry) -> str:
        lines = []
        for found in export.verify(entry):
            ran = "" if found.what == "checkpoint" else f", fingerprint {found.fingerprint}"
            lines.append(f"{entry.name} {found.what} is right{ran} ({found.source})")
        return "\n".join(lines)

    if names:
        return _each(_chosen(names, None), one)
    here = [e for e in manifest().values() if load_checkpoint(e.name) or export.installed(e)]
    if not here:
        click.echo("no model is installed")
    return _each(here, one)


def _chosen(names: tuple[str, ...], profile: str | None, *, made_here: bool = False) -> list[Entry]:
    """The models named, or those of the profile; `made_here` leaves out vLLM's of the latter."""
    from editjudge_services.zoo.manifest import find, members

    if bool(names) == bool(profile):
        raise ConfigError("name models, or give a --profile", "see: editjudge models list")
    if names:
        return [find(name) for name in names]
    return [e for e in members(profile) if e.recipe or not made_here]  # type: ignore[arg-type]


def _each(entries: Iterable[Entry], act: Callable[[Entry], str]) -> int:
    """Go through all of them; what fails is told in a line, and does not stop the others.

    Returns:
        The exit code of the first that failed, or 0.
    """
    code = 0
    for entry in entries:
        try:
            click.echo(act(entry))
        except EditjudgeError as error:
            click.secho(f"error: {error}", fg="red", err=True)
            code = code or error.exit_code
    return code


def _described(entry: Entry) -> dict[str, Any]:
    from editjudge_services.zoo.checkpoint import load_checkpoint
    from editjudge_services.zoo.export import PRECISIONS, installed

    checkpoint = load_checkpoint(entry.name)
    return {
        **entry.model_dump(mode="json"),
        "gib": {precision: round(entry.gib(precision), 3) for precision in PRECISIONS},
        "checkpoint": checkpoint
        and {"source": checkpoint.source, "untrained": checkpoint.untrained},
        "installed": {
            one.precision: {"source": one.source, "untrained": one.untrained}
            for one in installed(entry)
        },
    }


def _here(one: dict[str, Any]) -> str:
    """Say `checkpoint`, or the precisions; random weights are marked."""
    found = one["installed"] or ({"checkpoint": one["checkpoint"]} if one["checkpoint"] else {})
    return ", ".join(
        f"{what} (untrained)" if state["untrained"] else what for what, state in found.items()
    )
