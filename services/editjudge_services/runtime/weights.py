"""The weights a specialist serves are those its configuration declares, or it does not start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

from editjudge.base.errors import ConfigError

from ..zoo.artefact import Artefact, Precision, load_artefact


def declared_artefact(entry: str, declared: Mapping[str, str]) -> Artefact:
    """The exported model that a `config.pbtxt` declares.

    Args:
        entry: Name in the manifest.
        declared: The parameters of the configuration: `precision` (fp32 where absent) and
            `weights`, the digest.

    Raises:
        RuntimeError: it is not installed, or its files are not the declared ones.
    """
    precision = declared.get("precision", "fp32")
    if precision not in get_args(Precision):
        raise RuntimeError(f"{entry}: no such precision as {precision!r}")
    try:
        artefact = load_artefact(entry, cast("Precision", precision))
        if artefact is None:
            raise RuntimeError(
                f"{entry} in {precision} is not installed; run: editjudge models export {entry}"
            )
        artefact.verify()
    except ConfigError as error:
        raise RuntimeError(str(error)) from error
    expected, actual = declared.get("weights", "none declared"), artefact.identity["weights"]
    if actual != expected:
        raise RuntimeError(
            f"{entry} in {precision} has weights {actual}, but its configuration declares"
            f" {expected}; stop the stack and start it again to serve what is installed"
        )
    return artefact
