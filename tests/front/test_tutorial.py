"""The tutorial on sharing, run with the real Triton and the real Envoy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from editjudge_services.runtime.process import reserve_ports

from ..tutorials import run_tutorial

pytestmark = pytest.mark.triton


def test_every_step_runs(tmp_path: Path) -> None:
    (port,) = reserve_ports([0])
    try:
        compared = run_tutorial("shared", tmp_path, {"127.0.0.1:8443": f"127.0.0.1:{port}"})
    finally:
        # A step that failed leaves the servers of its reader.
        subprocess.run(
            [sys.executable, "-m", "editjudge", "down"],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / ".local" / "state")},
            check=False,
        )
    assert "exact beats damaged by" in compared
