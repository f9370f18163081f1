"""Verbs are loaded when they are called."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from editjudge.cli import _loaded


def test_garbage_is_collected_again_after_a_verb_was_loaded() -> None:
    with pytest.raises(ModuleNotFoundError):
        _loaded("editjudge.cli.no_such_verb")
    assert gc.isenabled()


def test_help_on_a_verb_loads_nothing_that_only_calls_need() -> None:
    code = (
        "import sys\n"
        "from editjudge.cli import root\n"
        "root.get_command(None, 'run')\n"
        "heavy = 'cv2 rapidfuzz aiohttp grpc tritonclient http.client tokenizers'.split()\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "[]\n", ran.stderr
