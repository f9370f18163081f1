"""Bringing weights here: pulled from the hub, or as a file that the user brings.

Through huggingface_hub, so `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and the rest mean
what they mean everywhere. A connection that breaks is resumed where it broke; a pull that
fails for good keeps the files that arrived whole for the next one. Nothing takes the name
of a checkpoint before every file agrees with the manifest and with the hub.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from editjudge.base.errors import ConfigError, InputError, MissingExtra

from .artefact import checkpoint_dir, file_digest
from .checkpoint import (
    Checkpoint,
    ZooError,
    fresh,
    install,
    inventory,
    load_checkpoint,
    locked,
    partial,
    telling_disk_full,
)
from .manifest import Entry, find

if TYPE_CHECKING:
    from .hub import Files


def pull(entry: Entry, *, accept_license: bool = False) -> Checkpoint:
    """Pull a model's checkpoint; nothing is done where the right one is here already.

    Raises:
        ConfigError: the licence is restricted and not accepted; the model is supplied as a file.
        ZooError: the hub refuses or breaks off, a file is not the right one, the disk is full.
        MissingExtra: huggingface_hub is not installed.
    """
    if entry.supply == "file":
        raise ConfigError(
            f"{entry.name} is not on the hub: {entry.instructions}",
            f"then run: editjudge models pull {entry.name} --from {entry.files[0]}",
        )
    here = load_checkpoint(entry.name)
    _check_licence(entry, accept_license or (here is not None and here.accepted))
    if entry.supply == "parts":
        return _assemble(entry, accept_license)
    with locked(entry.name):
        here = load_checkpoint(entry.name)
        if here and here.commit == entry.revision and here.intact():
            return here
        try:
            from . import hub
        except ModuleNotFoundError as error:
            raise MissingExtra("pulling models", "serve") from error
        commit, listed = hub.list_files(entry)
        if here and here.commit == commit and here.intact():
            return here
        staging = partial(checkpoint_dir(entry.name))
        _check_space(listed, staging)
        hub.download(entry, commit, listed, staging)
        files = _checked(entry, listed, staging)
        _drop_others(listed, staging)
        return _finish(entry, staging, files, commit)


def _assemble(entry: Entry, accept_license: bool) -> Checkpoint:
    """Pull the parts, and lay them side by side; they take no room twice."""
    parts = {
        folder: pull(find(name), accept_license=accept_license)
        for folder, name in entry.parts.items()
    }
    record = Checkpoint(
        entry=entry.name,
        parts={folder: part.source for folder, part in parts.items()},
        licence=entry.licence,
        accepted=entry.restricted,
        files={f"{f}/{name}": one for f, part in parts.items() for name, one in part.files.items()},
    )
    with locked(entry.name):
        here = load_checkpoint(entry.name)
        if here == record and here.intact():
            return here
        with fresh(checkpoint_dir(entry.name)) as staging:
            for folder, part in parts.items():
                for name in part.files:
                    _link(checkpoint_dir(part.entry) / name, staging / folder / name)
            if inventory(staging) != record.files:
                raise ZooError(f"{entry.name}: a part changed meanwhile", "pull again")
            record.save(staging)
    return record


def _link(file: Path, name: Path) -> None:
    """Give a file a second name, or copy it where the file system has no such thing."""
    name.parent.mkdir(parents=True, exist_ok=True)
    try:
        name.hardlink_to(file)
    except OSError:
        shutil.copyfile(file, name)


def import_file(entry: Entry, file: Path, *, accept_license: bool = False) -> Checkpoint:
    """Bring the file of a model that is not on the hub.

    Raises:
        InputError: it is no file, or not the right one.
        ConfigError: the model is pulled from the hub; the licence is not accepted.
        ZooError: the disk is full.
    """
    if entry.supply != "file":
        raise ConfigError(
            f"{entry.name} comes from the hub", f"run: editjudge models pull {entry.name}"
        )
    _check_licence(entry, accept_license)
    (name,) = entry.files
    if not file.is_file():
        raise InputError(str(file), "there is no such file")
    digest = file_digest(file)
    if digest != entry.sha256[name]:
        raise InputError(
            str(file), f"sha256 is {digest}, not {entry.sha256[name]}", entry.instructions
        )
    final = checkpoint_dir(entry.name)
    record = Checkpoint(
        entry=entry.name, licence=entry.licence, accepted=entry.restricted, files={name: digest}
    )
    with locked(entry.name), fresh(final) as staging:
        shutil.copyfile(file, staging / name)
        record.save(staging)
    return record


def _check_licence(entry: Entry, accepted: bool) -> None:
    if entry.restricted and not accepted:
        raise ConfigError(
            f"{entry.name} has a restricted licence ({entry.licence}): {entry.restricted_why}",
            "accept it with --accept-license",
        )


def _check_space(listed: Files, staging: Path) -> None:
    """Say at once that the disk is too small; what is in staging already needs no room."""
    sizes = {name: file.size or 0 for name, file in listed.items() if file}
    needed = sum(size for name, size in sizes.items() if not (staging / name).is_file())
    free = shutil.disk_usage(staging.parent).free
    if needed > free:
        short = f"{needed / 2**30:.1f} GiB are needed, {free / 2**30:.1f} GiB are free"
        raise ZooError(
            f"the disk is full: {staging.parent}: {short}",
            "free some space there, or set EDITJUDGE_MODELS_DIR to another disk, and try again",
        )


def _checked(entry: Entry, listed: Files, staging: Path) -> dict[str, str]:
    """The digests of what arrived, every one compared.

    A wrong file is removed, so that the next pull fetches it again.
    """
    digests = {name: file_digest(staging / name) for name in listed if (staging / name).is_file()}
    missing = sorted({*listed, *entry.sha256} - digests.keys())
    if missing:
        raise ZooError(
            f"{entry.name}: {', '.join(missing)} did not arrive",
            "pull again; nothing was installed",
        )
    for name, digest in digests.items():
        expected, said = _expected(entry, listed, staging, name)
        if expected not in {"", digest}:
            (staging / name).unlink()
            raise ZooError(
                f"{entry.name}: {name} has sha256 {digest}, not {expected} as {said} says",
                "pull again; nothing was installed",
            )
    return digests


def _expected(entry: Entry, listed: Files, staging: Path, name: str) -> tuple[str, str]:
    """The sha256 a file must have, "" where any will do, and who says so."""
    if name in entry.sha256:
        return entry.sha256[name], "the manifest"
    remote = listed[name]
    if remote and remote.lfs:
        return remote.lfs.sha256, "the hub"
    if remote and remote.blob_id:
        from huggingface_hub.utils.sha import git_hash

        if git_hash((staging / name).read_bytes()) != remote.blob_id:
            return f"that of git blob {remote.blob_id}", "the hub"
    return "", ""


def _drop_others(listed: Files, staging: Path) -> None:
    """Remove the hub's own notes, and what an earlier pull of another commit left behind."""
    for path in staging.rglob("*"):
        if path.is_file() and path.relative_to(staging).as_posix() not in listed:
            path.unlink()
    shutil.rmtree(staging / ".cache", ignore_errors=True)


def _finish(entry: Entry, staging: Path, files: dict[str, str], commit: str) -> Checkpoint:
    record = Checkpoint(
        entry=entry.name,
        hub=entry.hub,
        commit=commit,
        licence=entry.licence,
        accepted=entry.restricted,
        files=files,
    )
    final = checkpoint_dir(entry.name)
    with telling_disk_full(final):
        record.save(staging)
        install(staging, final)
    return record
