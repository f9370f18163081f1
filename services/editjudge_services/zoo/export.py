"""Exports checkpoints by recipes, compares the exports with their source, and verifies them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import ValidationError

from editjudge.base.errors import ConfigError, EditjudgeError, InputError, MissingExtra
from editjudge.base.images import RGB, load_image

from ..runtime.onnx import find_device
from .artefact import (
    RECORD,
    Artefact,
    Parity,
    Precision,
    checkpoint_dir,
    digest_weights,
    hash_file,
    load_artefact,
    models_dir,
)
from .checkpoint import Checkpoint, hash_files, is_disk_full, load_checkpoint, lock_entry, replace_folder
from .manifest import Entry, find_entry, load_recipe
from .recipe import Recipe

Fingerprint: TypeAlias = Literal["same", "not computed"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
FINGERPRINT_TOLERANCE = 1e-3


def make_untrained(entry: Entry) -> Checkpoint:
    """Make a tiny checkpoint of random weights, which only tests that the parts work together.

    Raises:
        ConfigError: a real checkpoint is installed, or the entry has no recipe.
        MissingExtra: the libraries of the export are not installed.
    """
    recipe = load_recipe(entry)
    final = checkpoint_dir(entry.name)
    with lock_entry(entry.name):
        here = load_checkpoint(entry.name)
        if final.exists() and (here is None or not here.untrained):
            raise ConfigError(f"{final} has weights that are not untrained", "remove it first to replace them")
        with replace_folder(final) as staging:
            recipe.make_untrained(staging)
            record = Checkpoint(entry=entry.name, untrained=True, files=hash_files(staging))
            record.save(staging)
    return record


def export(entry: Entry, precision: Precision, folder: Path | None = None) -> Artefact:
    """Export a model's checkpoint; an earlier export is replaced only by one within tolerance.

    Args:
        folder: The user's own pictures, to compare export and source on; by default fixed ones.

    Raises:
        ConfigError: the checkpoint is missing or changed, the recipe does not have the precision,
            or the export differs from its source by more than the tolerance.
        MissingExtra: the libraries of the export are not installed.
    """
    _require_checkpoint(entry)  # before torch is imported, which takes long
    recipe = load_recipe(entry)
    if precision not in recipe.precisions:
        choices = ", ".join(recipe.precisions)
        raise ConfigError(f"{entry.name} cannot be exported as {precision}", f"it can as {choices}")
    pictures, digest = _read_pictures(folder) if folder else (None, "made")
    with lock_entry(entry.name):
        checkpoint = _require_checkpoint(entry)
        checkpoint.verify()
        with replace_folder(models_dir() / entry.name / precision) as staging:
            parity = _run_recipe(entry, recipe, staging, precision, pictures)
            on_onnx = any(staging.glob("*.onnx"))
            device = find_device(precision) if on_onnx else "cpu"
            parity = parity.model_copy(update={"pictures": digest, "device": device})
            artefact = Artefact(
                entry=entry.name,
                precision=precision,
                source=checkpoint.source,
                untrained=checkpoint.untrained,
                files=hash_files(staging),
                parity=parity,
                fingerprint=recipe.fingerprint(staging, precision),
            )
            (staging / RECORD).write_text(artefact.model_dump_json(indent=2))
    return artefact


def _require_checkpoint(entry: Entry) -> Checkpoint:
    if (checkpoint := load_checkpoint(entry.name)) is None:
        raise ConfigError(f"{entry.name} has no checkpoint here", name_pull_command(entry))
    return checkpoint


def verify(entry: Entry) -> list[str]:
    """Verify the checkpoint and the exports of a model: digests and fingerprints.

    Without torch only digests are compared.

    Returns:
        A line for each checkpoint and export that is right; none where nothing is installed.

    Raises:
        ConfigError: a record cannot be read, a file is missing, was changed or is not what the
            manifest pins, or a fingerprint differs by more than `FINGERPRINT_TOLERANCE`.
    """
    lines = []
    checkpoint = load_checkpoint(entry.name)
    if checkpoint is not None:
        checkpoint.verify()
        _check_source(entry, checkpoint)
        is_open = entry.supply == "hub" and not entry.revision_pinned and not checkpoint.untrained
        remark = ", whose commit is not pinned" if is_open else ""
        lines.append(f"{entry.name} checkpoint is right ({checkpoint.source}){remark}")
    for artefact in find_exports(entry):
        artefact.verify()
        outcome = _compare_fingerprint(entry, artefact)
        what = f"{entry.name} {artefact.precision} is right, fingerprint {outcome}"
        lines.append(f"{what} ({artefact.source})")
    return lines


def _check_source(entry: Entry, checkpoint: Checkpoint) -> None:
    """Compare a checkpoint with the manifest: a copied one comes with a record of its own."""
    parts = {folder: find_entry(name) for folder, name in entry.parts.items()}
    digests = {f"{f}/{name}": one for f, part in parts.items() for name, one in part.sha256.items()}
    pinned_parts = {folder: part for folder, part in parts.items() if part.revision_pinned}
    others = [
        *(n for n, one in (entry.sha256 | digests).items() if checkpoint.files.get(n) != one),
        *(f for f, one in pinned_parts.items() if _is_other(one, checkpoint.parts.get(f, "@"))),
    ]
    if entry.revision_pinned and not checkpoint.is_imported and checkpoint.commit != entry.revision:
        others.append(f"commit {checkpoint.commit}")
    if others and not checkpoint.untrained:
        what = f"{entry.name}: {', '.join(others)}: the manifest pins another"
        raise ConfigError(what, name_pull_command(entry))


def _is_other(part: Entry, source: str) -> bool:
    """Whether a part comes from another commit; of one that the user brought no commit is known."""
    return "@" in source and source != f"{part.hub}@{part.revision}"


def find_exports(entry: Entry) -> list[Artefact]:
    """Return the installed exports of a model.

    Raises:
        ConfigError: a record cannot be read.
    """
    return [one for precision in PRECISIONS if (one := load_artefact(entry.name, precision)) is not None]


def _read_pictures(folder: Path) -> tuple[list[RGB], str]:
    """Read a folder's pictures, with one digest of their names and files.

    Raises:
        InputError: the folder has no picture.
        ImageError: a file cannot be read as a picture.
    """
    files = sorted(one for one in folder.iterdir() if one.is_file())
    if not files:
        raise InputError(str(folder), "there is no picture")
    digest = digest_weights({one.name: hash_file(one) for one in files})
    return [load_image(one).rgb for one in files], digest


def _run_recipe(
    entry: Entry, recipe: Recipe, folder: Path, precision: Precision, pictures: Sequence[RGB] | None
) -> Parity:
    try:
        parity = recipe.export(checkpoint_dir(entry.name), folder, precision, pictures)
    except ValidationError as error:
        # NaN and infinity are refused; they mostly come from an overflow in half precision.
        fix = "export another precision" if precision != "fp32" else "check the weights"
        what = f"{entry.name} as {precision}: the comparison with the source gave no number"
        raise ConfigError(what, fix) from error
    except EditjudgeError:
        raise
    except Exception as error:  # libraries raise anything for weights and configurations that they cannot read
        if is_disk_full(error, folder):
            raise
        reason = " ".join(str(error).split())[:300]
        what = f"{checkpoint_dir(entry.name)} cannot be exported: {type(error).__name__}: {reason}"
        raise ConfigError(what, f"check its files, then {name_pull_command(entry)}") from error
    if not parity.largest_difference <= parity.tolerance:
        raise ConfigError(
            f"{entry.name} as {precision} is {parity.largest_difference:.3g} from its source "
            f"({parity.measure}) on {parity.images} pictures, "
            f"more than its tolerance of {parity.tolerance:.3g}",
            "export another precision",
        )
    return parity


def _compare_fingerprint(entry: Entry, artefact: Artefact) -> Fingerprint:
    try:
        recipe = load_recipe(entry)
    except (ConfigError, MissingExtra):
        return "not computed"
    now, reference = recipe.fingerprint(artefact.folder, artefact.precision), artefact.fingerprint
    pairs = zip(now, reference, strict=False)
    if len(now) != len(reference) or any(not abs(a - b) <= FINGERPRINT_TOLERANCE for a, b in pairs):
        raise ConfigError(
            f"{entry.name} as {artefact.precision} says {_format_numbers(now)} of the fingerprint"
            f" image, not {_format_numbers(reference)}",
            f"run: editjudge models export {entry.name}",
        )
    return "same"


def _format_numbers(values: list[float]) -> str:
    return "[" + ", ".join(f"{value:.4f}" for value in values) + "]"


def name_pull_command(entry: Entry) -> str:
    """Say which command installs the checkpoint of a model, as the fix of an error."""
    if entry.supply == "file":
        return f"run: editjudge models pull {entry.name} --from {entry.files[0]}"
    return f"run: editjudge models pull {entry.name}"
