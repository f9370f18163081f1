"""Installs weights: pulled from the hub, or imported from what the user has.

huggingface_hub downloads, so `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and its other variables
have their usual meaning. A broken connection is resumed; a failed pull keeps its complete files
for the next one. A checkpoint gets its name only after every file agrees with the manifest and
with the hub.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from editjudge.base.errors import ConfigError, InputError, MissingExtra

from .artefact import checkpoint_dir, hash_file
from .checkpoint import (
    PULLED_RECORD,
    UNTRAINED_RECORD,
    Checkpoint,
    ZooError,
    disk_full_error,
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
        is_here = here and here.is_intact()
        if here and is_here and (here.commit == entry.revision or here.is_imported):
            return here
        try:
            from . import hub
        except ModuleNotFoundError as error:
            raise MissingExtra("pulling models", "serve") from error
        commit, remote_files = hub.list_files(entry)
        if here and is_here and here.commit == commit:
            return here
        staging = partial_folder(checkpoint_dir(entry.name))
        _check_space(remote_files, staging)
        hub.download(entry, commit, remote_files, staging)
        files = _check_files(entry, remote_files, staging)
        _drop_other_files(remote_files, staging)
        return _install(entry, staging, files, commit)


def _assemble_parts(entry: Entry, accept_license: bool) -> Checkpoint:
    """Pull the parts and link them into one folder, without a second copy."""
    parts = {folder: pull(find_entry(name), accept_license=accept_license) for folder, name in entry.parts.items()}
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


def import_weights(entry: Entry, path: Path, *, accept_license: bool = False) -> Checkpoint:
    """Import a checkpoint that the user has: a folder in the hub's layout, or a single file.

    Files are compared with the manifest's digests, and with the digests that `hf download
    --local-dir` leaves in the folder, which also tell the commit.

    Raises:
        InputError: a file is missing, or is not the right one.
        ConfigError: the model consists of others, or its licence is not accepted.
        ZooError: the disk is full.
    """
    if entry.supply == "parts":
        parts = ", ".join(entry.parts.values())
        fix = f"pull {parts} --from their folders, then run: editjudge models pull {entry.name}"
        raise ConfigError(f"{entry.name} consists of other models", fix)
    _check_licence(entry, accept_license)
    files = _find_files(entry, path)
    digests = {name: hash_file(file) for name, file in files.items()}
    notes = {name: _read_note(path, name) for name in files}
    for name, digest in digests.items():
        wrong = entry.sha256.get(name, digest) != digest
        if wrong or not _agrees(files[name], digest, notes[name][1]):
            other = entry.sha256.get(name, notes[name][1])
            what = f"its digest is not {other}; its sha256 is {digest}"
            raise InputError(str(files[name]), what, entry.instructions or "download it again")
    commits = {commit for commit, _ in notes.values()}
    commit = commits.pop() if len(commits) == 1 else ""
    if commit and entry.revision_pinned and commit != entry.revision:
        raise InputError(str(path), f"commit {commit}, not {entry.revision}", "download that one")
    record = Checkpoint(
        entry=entry.name,
        hub=entry.hub if commit else "",
        commit=commit,
        licence=entry.licence,
        accepted=entry.restricted,
        unchecked_files=sorted(n for n in files if n not in entry.sha256 and not notes[n][1]),
        files=digests,
    )
    with lock_entry(entry.name), replace_folder(checkpoint_dir(entry.name)) as staging:
        for name, file in files.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, staging / name)
        record.save(staging)
    return record


def _find_files(entry: Entry, path: Path) -> dict[str, Path]:
    """Find the files of a checkpoint by name.

    Raises:
        InputError: a file that the manifest or an index of shards names is not there.
    """
    if path.is_file() and entry.supply == "file":
        return {entry.files[0]: path}
    if not path.is_dir():
        raise InputError(str(path), "it is no folder", f"give a folder with {', '.join(entry.files)}")
    if (path / UNTRAINED_RECORD).is_file():
        raise InputError(str(path), "its weights are random", f"run: editjudge models pull {entry.name} --untrained")
    # Broken links are listed too, so that the copy says which it is. Our own record is made anew.
    names = {one.relative_to(path).as_posix(): one for one in path.rglob("*") if one.is_file() or one.is_symlink()}
    files = {name: one for name, one in names.items() if entry.has_file(name) and name != PULLED_RECORD}
    required_names = {*entry.sha256, *(one for one in entry.files if not set("*?[") & set(one))}
    for name, file in files.items():
        if name.endswith(".index.json"):
            try:
                shards = json.loads(file.read_bytes())["weight_map"].values()
                required_names |= {(PurePosixPath(name).parent / shard).as_posix() for shard in shards}
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InputError(str(file), "it is no index of shards", "download it again") from error
    missing = sorted(required_names - files.keys())
    if missing or not files:
        what = f"{', '.join(missing) or 'every file'} of {entry.name} is missing"
        raise InputError(str(path), what, f"it needs {', '.join(entry.files)}")
    return files


def _read_note(folder: Path, name: str) -> tuple[str, str]:
    """Read the commit and the digest of a file that `hf download --local-dir` noted, or ""."""
    note = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
    if not note.is_file():
        return "", ""
    commit, digest, *_ = [*note.read_text(encoding="utf-8", errors="replace").splitlines(), "", ""]
    return commit, digest


def _agrees(file: Path, sha256: str, digest: str) -> bool:
    """Whether a file has a digest of the hub: a sha256, or of small files that of a git blob."""
    if len(digest) != 40:
        return digest in {"", sha256}
    from huggingface_hub.utils.sha import git_hash

    return digest == git_hash(file.read_bytes())


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
        short = f": {bytes_needed / 2**30:.1f} GiB are needed, {free / 2**30:.1f} GiB are free"
        raise disk_full_error(staging, short)


def _check_files(entry: Entry, files: Files, staging: Path) -> dict[str, str]:
    """Check the digest of every file that arrived, and return the digests.

    A wrong file is removed, so that the next pull fetches it again.
    """
    digests = {name: hash_file(staging / name) for name in files if (staging / name).is_file()}
    missing = sorted({*files, *entry.sha256} - digests.keys())
    if missing:
        raise ZooError(f"{entry.name}: {', '.join(missing)} did not arrive", "pull again; nothing was installed")
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
        entry=entry.name, hub=entry.hub, commit=commit, licence=entry.licence, accepted=entry.restricted, files=files
    )
    final = checkpoint_dir(entry.name)
    with report_disk_full(final):
        record.save(staging)
        install_folder(staging, final)
    return record
