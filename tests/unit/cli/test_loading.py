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


def loaded_by(*lines: str, completing: str = "") -> tuple[list[str], str]:
    """Which heavy modules command lines load, one after the other, and what they print.

    Args:
        completing: The line that a shell would have completed, instead of a command.
    """
    code = (
        "import sys\n"
        "from editjudge.cli import main\n"
        f"for line in {lines or ('',)!r}:\n"
        "    try: main(line.split())\n"
        "    except SystemExit as ended: assert not ended.code, line\n"
        f"    print('loaded', line, *[name for name in {HEAVY.split()} if name in sys.modules])"
    )
    words = {"COMP_WORDS": completing, "COMP_CWORD": str(completing.count(" "))}
    shell = {"_EDITJUDGE_COMPLETE": "bash_complete", **words} if completing else {}
    env, command = {**os.environ, **shell}, [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    loaded = [line for line in said if line.startswith("loaded")]
    return loaded, "\n".join(line for line in said if line not in loaded)


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


def test_help_on_a_verb_loads_nothing_that_only_calls_need() -> None:
    helps = [f"{verb} --help" for verb in sorted(root.commands)]
    loaded, printed = loaded_by(*helps)
    assert loaded == [f"loaded {line}" for line in helps]
    assert all(f"Usage: editjudge {verb}" in printed for verb in root.commands)


def test_verbs_are_completed_without_loading_any() -> None:
    loaded, printed = loaded_by(completing="editjudge ")
    assert {*root.commands} <= {line.removeprefix("plain,") for line in printed.splitlines()}
    assert loaded == ["loaded "]


def test_options_of_a_run_are_completed_without_loading_what_it_does() -> None:
    loaded, printed = loaded_by(completing="editjudge run --dim")
    assert (loaded, printed) == (["loaded "], "plain,--dimension")
