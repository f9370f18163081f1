"""`editjudge models`: download weights, export them, and verify them."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from editjudge.base.errors import ConfigError, EditjudgeError
from editjudge.base.output_files import wrap_disk_errors
from editjudge.base.terminal import print_text
from editjudge.cli.output import print_json, print_tables
from editjudge.report.table import Head, Row, Table

from ..zoo import export
from ..zoo.artefact import Artefact, Precision
from ..zoo.checkpoint import Checkpoint, load_checkpoint
from ..zoo.manifest import Entry, Profile, find_entry, load_manifest, profile_entries
from ..zoo.pull import import_weights, pull


def list_command(*, json: bool) -> None:
    """List all models: what is installed, licence, size and profiles."""
    entries = load_manifest().values()
    if json:
        print_json([_describe(entry) for entry in entries])
        return
    heads = ("model", "service", "here", "GiB", "licence", "profiles")
    rows = [
        Row(
            (
                entry.name,
                entry.service,
                _describe_installed(entry),
                f"{entry.gib('fp32'):.2f}",
                [entry.licence, *(t for t in ("restricted", "gated") if getattr(entry, t))],
                entry.profiles,
            )
        )
        for entry in entries
    ]
    print_tables([Table([Head(name) for name in heads], rows)])


def pull_command(
    names: tuple[str, ...], profile: Profile | None, from_: Path | None, *, untrained: bool, accept_license: bool
) -> int:
    """Download checkpoints, by default from the hub; returns the exit code."""
    if from_ is not None and (untrained or len(names) != 1):
        raise ConfigError("--from takes one model", "name one model, without --untrained")

    def pull_one(entry: Entry) -> str:
        here = load_checkpoint(entry.name)
        if untrained:
            here = export.make_untrained(entry)
        elif from_ is not None:
            here = import_weights(entry, from_, accept_license=accept_license)
        elif entry.supply != "file" or here is None or here.untrained:
            here = pull(entry, accept_license=accept_license)
        doubt = ""
        if here.unchecked_files:
            doubt = f"; no digest is known of {', '.join(here.unchecked_files)}"
        return f"{entry.name} is here: {here.source}{doubt}"

    return _run_for_each(_select_entries(names, profile, made_here=untrained), pull_one)


def export_command(names: tuple[str, ...], profile: Profile | None, precision: Precision, pictures: Path | None) -> int:
    """Export checkpoints and compare them with their source; returns the exit code."""

    def export_one(entry: Entry) -> str:
        artefact = export.export(entry, precision, pictures)
        parity = artefact.parity
        near = ""
        if parity:
            where = f"{parity.images} pictures on {parity.device}"
            near = f", within {parity.largest_difference:.2g} of its source on {where}"
        return f"{entry.name} {precision} is ready{near} ({artefact.source})"

    return _run_for_each(_select_entries(names, profile, made_here=True), export_one)


def verify_command(names: tuple[str, ...]) -> int:
    """Check the files and fingerprints of installed models; returns the exit code."""
    right: list[str] = []

    def verify_one(entry: Entry) -> str:
        lines = export.verify(entry)
        if names and not lines:
            raise ConfigError(f"{entry.name} is not installed", export.name_pull_command(entry))
        right.extend(lines)
        return "\n".join(lines)

    code = _run_for_each(_select_entries(names, None) if names else load_manifest().values(), verify_one)
    if not right and not code:
        print_text("no model is installed")
    return code


def repository_command(table: Path, out: Path) -> None:
    """Write the model repository that a Triton server loads, with the models in a table."""
    from ..runtime.repository import build_repository
    from ..runtime.serving import read_table

    servings = read_table(table)
    with wrap_disk_errors(out):
        missing = build_repository(out, models=servings)
    if missing:
        reasons = "; ".join(f"{name}: {why}" for name, why in sorted(missing.items()))
        raise ConfigError(f"{out} is not complete: {reasons}")
    print_text(f"wrote {out}, the model repository for Triton: {', '.join(sorted(servings))}")


def _select_entries(names: tuple[str, ...], profile: Profile | None, *, made_here: bool = False) -> list[Entry]:
    """Select models by name or by profile.

    Args:
        made_here: Whether to leave out the profile's models without a recipe, which vLLM serves.
    """
    if bool(names) == bool(profile):
        raise ConfigError("name models, or give a --profile", "see: editjudge models list")
    if profile:
        return [entry for entry in profile_entries(profile) if entry.recipe or not made_here]
    return [find_entry(name) for name in names]


def _run_for_each(entries: Iterable[Entry], act: Callable[[Entry], str]) -> int:
    """Act on each model and print what it says; a failure is one line and does not stop the others.

    Returns:
        The exit code of the first that failed, or 0.
    """
    if not sys.stderr.isatty():
        # transformers draws its bars in log files too, unless told before it is imported.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    code = 0
    for entry in entries:
        try:
            if text := act(entry):
                print_text(text)
        except EditjudgeError as error:
            print_text(f"error: {error}", fg="red", err=True)
            code = code or error.exit_code
    return code


def _describe(entry: Entry) -> dict[str, Any]:
    """Describe a model as JSON: its entry in the manifest, and what is installed or why that is not known."""
    checkpoint, exports, problem = _find_installed(entry)
    return {
        **dict(entry),
        "problem": problem,
        "gib": {precision: round(entry.gib(precision), 3) for precision in export.PRECISIONS},
        "checkpoint": _weights(checkpoint) if checkpoint else None,
        "installed": {artefact.precision: _weights(artefact) for artefact in exports},
    }


def _weights(weights: Checkpoint | Artefact) -> dict[str, Any]:
    return {"source": weights.source, "untrained": weights.untrained}


def _describe_installed(entry: Entry) -> str:
    """Describe in a few words what is installed: the checkpoint, or the exports' precisions."""
    checkpoint, exports, problem = _find_installed(entry)
    if problem:
        return "damaged: editjudge models verify"
    states = {artefact.precision: artefact.untrained for artefact in exports}
    if not states and checkpoint:
        return _mark_untrained("checkpoint", checkpoint.untrained)
    return ", ".join(_mark_untrained(precision, is_untrained) for precision, is_untrained in states.items())


def _mark_untrained(what: str, is_untrained: bool) -> str:
    return f"{what} (untrained)" if is_untrained else what


def _find_installed(entry: Entry) -> tuple[Checkpoint | None, list[Artefact], str]:
    """Find the checkpoint and the exports of a model, or why they are not known."""
    try:
        return load_checkpoint(entry.name), export.find_exports(entry), ""
    except ConfigError as error:
        return None, [], str(error)
