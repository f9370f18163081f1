"""The protocol of recipes, which make tiny untrained checkpoints and export checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from editjudge.base.images import RGB

from .artefact import Parity, Precision


class Recipe(Protocol):
    """Makes and exports one model; only recipes need torch.

    Attributes:
        precisions: Precisions that it can export.
    """

    precisions: tuple[Precision, ...]

    def make_untrained(self, folder: Path) -> None:
        """Save a tiny checkpoint of the same architecture, in the hub's layout.

        Weights are random with a fixed seed, spread so that outputs are not degenerate.
        """

    def export(self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None) -> Parity:
        """Write the exported form of a checkpoint into a folder and compare it with its source.

        Args:
            precision: One of `precisions`.
            pictures: Pictures to compare on, uint8 (H, W, 3); by default a fixed set.

        Returns:
            The difference from the source on the pictures.

        Raises:
            ConfigError: the checkpoint is not of this architecture, or this machine cannot compute
                in the precision.
            MissingExtra: a library of the export is not installed.
        """

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        """Compute an export's outputs for the probe of its role.

        Returns:
            At most 8 numbers, rounded to 4 decimals.
        """
