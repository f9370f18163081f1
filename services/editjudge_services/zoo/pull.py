"""Installs weights: pulled from the hub, or imported from a file of the user.

huggingface_hub downloads, so `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and its other variables
have their usual meaning. A broken connection is resumed; a failed pull keeps its complete files
for the next one. A checkpoint gets its name only after every file agrees with the manifest and
with the hub.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from editjudge.base.errors import ConfigError, InputError, MissingExtra

from .artefact import checkpoint_dir, hash_file
from .checkpoint import (
    Checkpoint,
    ZooError,
    hash_files,
    install_folder,
    load_checkpoint,
    lock_entry,
    partial_folder,
    replace_folder,
    report_disk_full,
)
from .manifest import Entry, find_entry

if TYPE_CHECKING:
    from .hub import Files


def pull(entry: Entry, *, accept_license: bool = False) -> Checkpoint:
    """Pull a model's checkpoint, unless the right one is already installed.

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
        return _assemble_parts(entry, accept_license)
    with lock_entry(entry.name):
        here = load_checkpoint(entry.name)
        if here and here.commit == entry.revision and here.is_intact():
            return here
        try:
            from . import hub
        except ModuleNotFoundError as error:
            raise MissingExtra("pulling models", "serve") from error
        commit, remote_files = hub.list_files(entry)
        if here and here.commit == commit and here.is_intact():
            return here
        staging = partial_folder(checkpoint_dir(entry.name))
        _check_space(remote_files, staging)
        hub.download(entry, commit, remote_files, staging)
        files = _check_files(entry, remote_files, staging)
        _drop_other_files(remote_files, staging)
        return _install(entry, staging, files, commit)


def _assemble_parts(entry: Entry, accept_license: bool) -> Checkpoint:
    """Pull the parts and link them into one folder, without a second copy."""
    parts = {
        folder: pull(find_entry(name), accept_license=accept_license)
        for folder, name in entry.parts.items()
    }
    record = Checkpoint(
        entry=entry.name,
        parts={folder: part.source for folder, part in parts.items()},
        licence=entry.licence,
        accepted=entry.restricted,
        files={f"{f}/{name}": one for f, part in parts.items() for name, one in part.files.items()},
    )
    with lock_entry(entry.name):
        here = load_checkpoint(entry.name)
        if here == record and here.is_intact():
            return here
        with replace_folder(checkpoint_dir(entry.name)) as staging:
            for folder, part in parts.items():
                for name in part.files:
                    _link(checkpoint_dir(part.entry) / name, staging / folder / name)
            if hash_files(staging) != record.files:
                raise ZooError(f"{entry.name}: a part changed meanwhile", "pull again")
            record.save(staging)
    return record


def _link(file: Path, name: Path) -> None:
    """Link a file under a second name, or copy it where links are not supported."""
    name.parent.mkdir(parents=True, exist_ok=True)
    try:
        name.hardlink_to(file)
    except OSError:
        shutil.copyfile(file, name)


def import_file(entry: Entry, file: Path, *, accept_license: bool = False) -> Checkpoint:
    """Import the file of a model that is not on the hub.

    Raises:
        InputError: the file does not exist, or is not the right one.
        ConfigError: the model comes from the hub, or its licence is not accepted.
        ZooError: the disk is full.
    """
    if entry.supply != "file":
        fix = f"run: editjudge models pull {entry.name}"
        raise ConfigError(f"{entry.name} comes from the hub", fix)
    _check_licence(entry, accept_license)
    (name,) = entry.files
    if not file.is_file():
        raise InputError(str(file), "there is no such file")
    digest = hash_file(file)
    if digest != entry.sha256[name]:
        what = f"sha256 is {digest}, not {entry.sha256[name]}"
        raise InputError(str(file), what, entry.instructions)
    final = checkpoint_dir(entry.name)
    record = Checkpoint(
        entry=entry.name, licence=entry.licence, accepted=entry.restricted, files={name: digest}
    )
    with lock_entry(entry.name), replace_folder(final) as staging:
        shutil.copyfile(file, staging / name)
        record.save(staging)
    return record


def _check_licence(entry: Entry, is_accepted: bool) -> None:
    if entry.restricted and not is_accepted:
        raise ConfigError(
            f"{entry.name} has a restricted licence ({entry.licence}): {entry.restricted_why}",
            "accept it with --accept-license",
        )


def _check_space(remote_files: Files, staging: Path) -> None:
    """Refuse a download for which the disk is too small; files in staging need no more space."""
    sizes = {name: file.size or 0 for name, file in remote_files.items() if file}
    bytes_needed = sum(size for name, size in sizes.items() if not (staging / name).is_file())
    free = shutil.disk_usage(staging.parent).free
    if bytes_needed > free:
        short = f"{bytes_needed / 2**30:.1f} GiB are needed, {free / 2**30:.1f} GiB are free"
        raise ZooError(
            f"the disk is full: {staging.parent}: {short}",
            "free some space there, or set EDITJUDGE_MODELS_DIR to another disk, and try again",
        )


def _check_files(entry: Entry, files: Files, staging: Path) -> dict[str, str]:
    """Check the digest of every file that arrived, and return the digests.

    A wrong file is removed, so that the next pull fetches it again.
    """
    digests = {name: hash_file(staging / name) for name in files if (staging / name).is_file()}
    missing = sorted({*files, *entry.sha256} - digests.keys())
    if missing:
        raise ZooError(
            f"{entry.name}: {', '.join(missing)} did not arrive",
            "pull again; nothing was installed",
        )
    for name, digest in digests.items():
        expected_digest, origin = _expected_digest(entry, files, staging, name)
        if expected_digest not in {"", digest}:
            (staging / name).unlink()
            raise ZooError(
                f"{entry.name}: {name} has sha256 {digest}, not {expected_digest} as {origin} says",
                "pull again; nothing was installed",
            )
    return digests


def _expected_digest(entry: Entry, files: Files, staging: Path, name: str) -> tuple[str, str]:
    """Return the expected sha256 of a file, "" if there is none, and its origin."""
    if name in entry.sha256:
        return entry.sha256[name], "the manifest"
    remote = files[name]
    if remote and remote.lfs:
        return remote.lfs.sha256, "the hub"
    if remote and remote.blob_id:
        from huggingface_hub.utils.sha import git_hash

        if git_hash((staging / name).read_bytes()) != remote.blob_id:
            return f"that of git blob {remote.blob_id}", "the hub"
    return "", ""


def _drop_other_files(remote_files: Files, staging: Path) -> None:
    """Remove the hub's own notes and the files of an earlier pull of another commit."""
    for path in staging.rglob("*"):
        if path.is_file() and path.relative_to(staging).as_posix() not in remote_files:
            path.unlink()
    shutil.rmtree(staging / ".cache", ignore_errors=True)


def _install(entry: Entry, staging: Path, files: dict[str, str], commit: str) -> Checkpoint:
    record = Checkpoint(
        entry=entry.name,
        hub=entry.hub,
        commit=commit,
        licence=entry.licence,
        accepted=entry.restricted,
        files=files,
    )
    final = checkpoint_dir(entry.name)
    with report_disk_full(final):
        record.save(staging)
        install_folder(staging, final)
    return record
