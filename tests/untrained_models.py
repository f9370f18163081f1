"""Specialists with random weights behind a real Triton: the code is real, the numbers are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from editjudge.base.config import StackSettings
from editjudge.cli import root
from editjudge_services.runtime.repository import find_specialists
from editjudge_services.runtime.specialist import Specialist
from editjudge_services.runtime.triton_server import TritonServer, temporary_stack

from .patience import patience

KINDS: dict[str, type[Specialist]] = {kind.name.replace("_", ".", 1): kind for kind in find_specialists() if kind.entry}
"""Services whose weights the user brings."""
# The huge variant is the same code and, untrained, the same tiny network.
SERVED = [name for name in KINDS if name != "segmenter.grounded_sam_huge"]


@dataclass(frozen=True)
class UntrainedModels:
    """Networks in a models folder, and a server that has loaded them."""

    folder: Path
    server: TritonServer

    @contextmanager
    def in_use(self) -> Iterator[TritonServer]:
        """The folder is that of this process too."""
        with _models_in(self.folder):
            yield self.server


@contextmanager
def serve_untrained(folder: Path, entries: Iterable[str]) -> Iterator[UntrainedModels]:
    """Networks that are made, exported, verified and served."""
    with ExitStack() as ending:
        with _models_in(folder):
            for verb in (("pull", "--untrained"), ("export",), ("verify",)):
                assert root.main(["models", *verb, *entries], standalone_mode=False) in {0, None}
            server = ending.enter_context(temporary_stack(StackSettings(startup_timeout=patience(120))))
        yield UntrainedModels(folder, server)


@contextmanager
def _models_in(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDITJUDGE_MODELS_DIR", str(folder))
        patch.setenv("EDITJUDGE_STATE_DIR", str(folder / "state"))
        yield
