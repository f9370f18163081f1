"""What a command does is loaded when it is called."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from importlib import import_module

import pytest

from editjudge.cli import root
from editjudge.cli.commands import fast_imports

HEAVY = "aiohttp asyncio cv2 grpc numpy PIL pydantic rapidfuzz rich sqlite3 tokenizers tritonclient"
"""What takes long to load, and is of no use to who asks which options there are."""


def loaded_by(*arguments: str, completing: str = "") -> tuple[list[str], str]:
    """Which heavy modules a command line loads, and what it prints before.

    Args:
        completing: The line that a shell would have completed, instead of a command.
    """
    code = (
        "import atexit, sys\n"
        f"heavy = '{HEAVY}'.split()\n"
        "told = lambda: print('loaded', *[name for name in heavy if name in sys.modules])\n"
        "atexit.register(told)\n"
        "from editjudge.cli import main\n"
        f"main({list(arguments)!r})"
    )
    words = {"COMP_WORDS": completing, "COMP_CWORD": str(completing.count(" "))}
    shell = {"_EDITJUDGE_COMPLETE": "bash_complete", **words} if completing else {}
    env = {**os.environ, **shell}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    assert ran.returncode == 0, ran.stderr
    printed, _, modules = ran.stdout.rpartition("loaded")
    return modules.split(), printed


def test_garbage_is_collected_again_after_an_import_failed() -> None:
    with pytest.raises(ModuleNotFoundError), fast_imports():
        import_module("editjudge.cli.no_such_module")
    assert gc.isenabled()


@pytest.mark.parametrize("chosen", [None, "3"])
def test_what_is_started_later_has_the_threads_that_were_chosen(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if chosen:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", chosen)
    with fast_imports():
        assert os.environ["OPENBLAS_NUM_THREADS"] == (chosen or "1")
        assert not gc.isenabled()
    assert os.environ.get("OPENBLAS_NUM_THREADS") == chosen
    assert gc.isenabled()


@pytest.mark.parametrize("verb", sorted(root.commands))
def test_help_on_a_verb_loads_nothing_that_only_calls_need(verb: str) -> None:
    heavy, printed = loaded_by(verb, "--help")
    assert "Usage: editjudge " + verb in printed
    assert heavy == []


def test_verbs_are_completed_without_loading_any() -> None:
    heavy, printed = loaded_by(completing="editjudge ")
    assert {*root.commands} <= {line.removeprefix("plain,") for line in printed.splitlines()}
    assert heavy == []


def test_options_of_a_run_are_completed_without_loading_what_it_does() -> None:
    heavy, printed = loaded_by(completing="editjudge run --dim")
    assert printed.splitlines() == ["plain,--dimension"]
    assert heavy == []
