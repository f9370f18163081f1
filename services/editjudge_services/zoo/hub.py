"""Access to the hub through huggingface_hub, whose errors become one line each."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import httpx2
from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RevisionNotFoundError,
    XetDownloadError,
)
from huggingface_hub.hf_api import RepoSibling

from .artefact import checkpoint_dir
from .checkpoint import ZooError, disk_full_error, is_disk_full
from .manifest import Entry

_TIMEOUT = 30.0
_AGAIN = "pull again: complete files are kept, and no partial file is used"


Files: TypeAlias = "Mapping[str, RepoSibling | None]"
"""Files by path; None instead of sizes and digests when offline."""


def list_files(entry: Entry) -> tuple[str, Files]:
    """Return the commit of an entry's revision and the files that match its patterns.

    Offline, they come from the hub's cache.

    Raises:
        ZooError: the hub refuses, cannot be reached, or has no such files.
    """
    with _one_line_errors(entry):
        if constants.is_offline_mode():
            folder = _find_snapshot(entry)
            names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
            return folder.name, {n: None for n in names if entry.has_file(n)}
        info = HfApi(endpoint=_endpoint()).model_info(
            entry.hub, revision=entry.revision, files_metadata=True, timeout=_TIMEOUT
        )
    files = {one.rfilename: one for one in info.siblings or () if entry.has_file(one.rfilename)}
    if not files or info.sha is None:
        raise ZooError(f"{entry.hub} has none of {', '.join(entry.files)} at {entry.revision}")
    return info.sha, files


def download(entry: Entry, commit: str, files: Iterable[str], folder: Path) -> None:
    """Download the listed files into a folder; existing files stay.

    Raises:
        ZooError: the hub refuses or breaks off, or the disk is full.
    """
    with _one_line_errors(entry):
        if constants.is_offline_mode():
            snapshot = _find_snapshot(entry)
            for name in files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(snapshot / name, folder / name)
            return
        snapshot_download(
            entry.hub, revision=commit, allow_patterns=list(files), local_dir=folder, endpoint=_endpoint()
        )


def _find_snapshot(entry: Entry) -> Path:
    """Return the snapshot in the hub's own cache."""
    return Path(snapshot_download(entry.hub, revision=entry.revision, allow_patterns=entry.files))


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")


@contextmanager
def _one_line_errors(entry: Entry) -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, OSError, XetDownloadError) as error:
        raise _explain_error(entry, _cause(error)) from error


def _cause(error: BaseException) -> BaseException:
    """Return the cause behind the hub's error "not found locally either"."""
    while isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _explain_error(entry: Entry, error: BaseException) -> ZooError:
    match error:
        case OfflineModeIsEnabled() | LocalEntryNotFoundError():
            return ZooError(
                f"{entry.hub} is incomplete in the hub's cache, and HF_HUB_OFFLINE is set",
                "pull where there is a network, or unset HF_HUB_OFFLINE",
            )
        case RevisionNotFoundError():
            return ZooError(f"{entry.hub} has no revision {entry.revision} at {_endpoint()}")
        case HfHubHTTPError():
            return _explain_status(entry, error)
        case _ if is_disk_full(error, checkpoint_dir(entry.name).parent):
            return disk_full_error(checkpoint_dir(entry.name))
        case httpx2.ConnectError() | httpx2.TimeoutException():
            return ZooError(
                f"{entry.name}: {_endpoint()} cannot be reached: {error}",
                "check the network and HF_ENDPOINT; offline, set HF_HUB_OFFLINE to use the cache, or give what you "
                f"have: editjudge models pull {entry.name} --from FOLDER",
            )
        case _:
            text = " ".join(str(error).split())
            return ZooError(f"{entry.name}: the download broke off: {text}", _AGAIN)


def _explain_status(entry: Entry, error: HfHubHTTPError) -> ZooError:
    code = error.response.status_code
    page = f"{_endpoint()}/{entry.hub}"
    if code in {401, 403} and entry.gated:
        return ZooError(
            f"{entry.name} is gated: the hub refuses it ({code})",
            f"accept its terms at {page}, and set HF_TOKEN to a token of that account",
        )
    if code in {401, 403}:
        return ZooError(f"{page}: refused, or not there ({code})", "check HF_TOKEN")
    if code == 404:
        return ZooError(f"{page}: there is no such repository (404)", "check HF_ENDPOINT")
    if code == 429:
        wait = error.response.headers.get("Retry-After")
        after = f"in {wait} s" if wait else "later"
        return ZooError(
            f"{entry.name}: the hub asks for fewer requests (429)",
            f"pull again {after}; with HF_TOKEN set more are allowed",
        )
    return ZooError(f"{page}: the hub answered {code}", _AGAIN)
