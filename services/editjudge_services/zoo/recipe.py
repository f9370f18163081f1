"""How one model is made: a tiny untrained checkpoint, and the export of any checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from .artefact import Parity, Precision


class Recipe(Protocol):
    """Both need torch; nothing else of the runtime does.

    Attributes:
        precisions: Those it can export.
    """

    precisions: tuple[Precision, ...]

    def make_untrained(self, folder: Path) -> None:
        """Save a tiny checkpoint of the same architecture, in the hub's layout.

        Weights are random with a fixed seed, spread so that outputs are not degenerate.
        """

    def export(self, checkpoint: Path, folder: Path, precision: Precision) -> Parity:
        """Write the exported form of a checkpoint into a folder and compare it with its source.

        Args:
            precision: One of `precisions`.

        Returns:
            How far it is from its source, on the fixed set of images.

        Raises:
            ConfigError: the checkpoint is not of this architecture, or this machine cannot compute
                in the precision.
            MissingExtra: a library of the export is not installed.
        """

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """What an export says to the probe of its role.

        Returns:
            At most 8 numbers, rounded to 4 decimals.
        """
