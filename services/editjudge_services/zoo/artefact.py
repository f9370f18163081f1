"""Models on disk: checkpoints in the hub's layout, and what was exported from them.

```
<models>/<entry>/checkpoint/            pulled from the hub, or made by `models pull --untrained`
<models>/<entry>/<precision>/           the export: its files, and artefact.json
```
"""

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from platformdirs import user_data_path
from pydantic import Field, ValidationError

from editjudge.base.errors import ConfigError
from editjudge.base.parse import first_problem
from editjudge.base.strict import Strict

Precision: TypeAlias = Literal["fp32", "tf32", "fp16", "bf16"]
"""`tf32` is the graph of `fp32`, with TF32 allowed in products; in `fp16` products and convolutions
are in half precision, and all else in fp32."""
R = TypeVar("R", bound=Strict)
RECORD = "artefact.json"


class Parity(Strict):
    """The difference between an exported model and its source, on a fixed set of images.

    Attributes:
        largest_difference: Largest difference of any output, in `measure`.
        tolerance: The model's stated tolerance; an export beyond it is refused.
        images: Number of images compared.
        measure: What is compared.
        pictures: `made` for the fixed images, or the digest of the user's own.
        device: Where the export ran: `cpu` or `cuda`.
    """

    largest_difference: float
    tolerance: float
    images: int
    measure: str = "difference"
    pictures: str = "made"
    device: str = "cpu"

    @property
    def statement(self) -> str:
        """What the export has passed, the same for all that passed it."""
        limit = f"{self.measure} within {self.tolerance:g}"
        return f"{limit} on {self.images} pictures ({self.pictures}) on {self.device}"


class Artefact(Strict):
    """One exported model.

    Attributes:
        entry: Its name in the manifest.
        source: Hub id and revision, or how untrained weights were made.
        untrained: The weights are random, so that no score made with them is a result.
        files: sha256 by path relative to the artefact's folder.
        fingerprint: Rounded outputs of the model for the probe of its role.
    """

    entry: str
    precision: Precision
    source: str
    untrained: bool
    files: dict[str, str]
    parity: Parity | None = None
    fingerprint: list[float] = Field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return models_dir() / self.entry / self.precision

    @property
    def is_rounded(self) -> bool:
        """Whether it computes more coarsely than its source, so that the comparison counts."""
        return self.precision != "fp32"

    @property
    def identity(self) -> dict[str, str]:
        """What a served model states about its weights; signatures leave the fingerprint out."""
        fingerprint = ",".join(f"{value:.4f}" for value in self.fingerprint)
        return {
            "entry": self.entry,
            "precision": self.precision,
            "weights": digest_weights(self.files),
            **({"fingerprint": fingerprint} if fingerprint else {}),
            **({"parity": self.parity.statement} if self.parity and self.is_rounded else {}),
            **({"untrained": "yes"} if self.untrained else {}),
        }

    def verify(self) -> None:
        """Check every file against its digest.

        Raises:
            ConfigError: a file is missing or has other content.
        """
        check_files(self.folder, self.files, f"run: editjudge models export {self.entry}")


def check_files(folder: Path, files: Mapping[str, str], fix: str) -> None:
    """Check files against their digests.

    Args:
        files: sha256 by path relative to the folder.

    Raises:
        ConfigError: a file is missing or has other content.
    """
    for name, digest in files.items():
        path = folder / name
        try:
            is_same = hash_file(path) == digest
        except (FileNotFoundError, NotADirectoryError):
            raise ConfigError(f"{path} is missing", fix) from None
        if not is_same:
            raise ConfigError(f"{path} was changed", fix)


def digest_weights(weights: Mapping[str, str]) -> str:
    """Compute one digest of several weight files.

    Args:
        weights: File name to sha256.

    Returns:
        `sha256:` and 16 hex digits, independent of the order of the files.
    """
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(weights.items()))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16]


def models_dir() -> Path:
    """Return the folder of models: `EDITJUDGE_MODELS_DIR`, or the user's data folder."""
    folder = os.environ.get("EDITJUDGE_MODELS_DIR")
    return Path(folder) if folder else user_data_path("editjudge") / "models"


def checkpoint_dir(entry: str) -> Path:
    """Return the folder of an entry's checkpoint, in the hub's layout."""
    return models_dir() / entry / "checkpoint"


def replaced_folder(final: Path) -> Path:
    """Return the name under which an earlier folder waits for its removal while another takes its name."""
    return final.with_name(f"{final.name}.old")


def load_artefact(entry: str, precision: Precision) -> Artefact | None:
    """Load the record of an exported model; None if it is not installed.

    Raises:
        ConfigError: its record cannot be read.
    """
    return read_record(Artefact, models_dir() / entry / precision / RECORD, "export the model again")


def read_record(kind: type[R], record: Path, fix: str) -> R | None:
    """Read the record of a folder; None if there is none.

    A folder that takes the name of an earlier one just now is waited for.

    Raises:
        ConfigError: the record cannot be read.
    """
    for pause in (0.2, 0.0):
        try:
            return kind.model_validate_json(record.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            if replaced_folder(record.parent).is_dir():
                time.sleep(pause)
        except ValidationError as error:
            raise ConfigError(f"{record}: {first_problem(error)}", fix) from error
    return None


def hash_file(path: Path) -> str:
    """Compute the sha256 of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
