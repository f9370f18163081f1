"""The command line: one file per verb, each loaded when it is called.

A package adds verbs by an entry point in the group `editjudge.commands` that names a table: for
each verb the module whose `command` does it, and its line for `--help`. The table loads for every
`--help`, so its module should import nothing.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from ..base.errors import ConfigError, EditjudgeError, InputError
from ..base.screen import say

VERBS = {
    "canary": "Check whether judges are what they were: edits of known order, asked again.",
    "compare": "Say whether one model is better than another, and how sure that is.",
    "demo": "Judge a built-in set of edits and write a report.",
    "doctor": "Check every service: reachable, ready, and answering correctly.",
    "export": "Write a run's verdicts to a file.",
    "list": "List benchmarks, switches, dimensions, services or prompts.",
    "merge": "Put several runs together in a new one.",
    "plot": "Draw a run as the figures of its benchmark's paper.",
    "prepare": "Write instructions, questions and masks for data of your own.",
    "prompts": "Import official prompts, and check prompts of your own.",
    "report": "Show runs as a page for the browser, or write it to a file.",
    "rescore": "Judge a run again from its stored replies.",
    "review": "Apply what was decided on the page of prepare.",
    "run": "Judge models on a data set, and go on where it ended.",
    "score": "Judge one edit.",
    "show": "Show one edit of a run.",
    "status": "Show the local stack.",
    "summary": "Show a run as the table of its benchmark's paper.",
    "validate": "Check data and outputs before a run.",
}
"""Our own verbs, each with its line for `--help`."""
GROUP = "editjudge.commands"
_GLOBAL = ("--config", "--set")
"""Options of every verb, which may stand anywhere."""
_BLAS = "OPENBLAS_NUM_THREADS"
_INTERRUPTED = 130
_SHOWN = 120
"""Characters of the name of a file."""


@cache
def plugged_in() -> Mapping[str, tuple[str, str]]:
    """The verbs that other packages add, each with its module and its line for `--help`.

    Raises:
        ConfigError: a package's table cannot be loaded, or a verb is there twice.
    """
    verbs: dict[str, tuple[str, str]] = {}
    for point in entry_points(group=GROUP):
        try:
            table: Mapping[str, tuple[str, str]] = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"the commands of {point.value} cannot be loaded: {error}",
                "install that package again, or remove it",
            ) from error
        if twice := table.keys() & (VERBS.keys() | verbs.keys()):
            raise ConfigError(f"two packages have a command {min(twice)}", "remove one of them")
        verbs.update(table)
    return verbs


class _Verbs(click.Group):
    """Loads a verb's module when the verb is called, or completed, or asked for its `--help`.

    `editjudge --help` takes 0.08 s of processor time with it. The verbs that are typed most, `run`
    and `score`, declare their options alone and import what they do when they do it, so that their
    `--help` takes no more. The others import at their top: 0.5 s.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _global_first(args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS.keys() | plugged_in().keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in VERBS:
            module = f"{__name__}.{cmd_name}"
        elif cmd_name in plugged_in():
            module, _ = plugged_in()[cmd_name]
        else:
            return None
        command: click.Command = _loaded(module).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs, of which none is loaded, and the options."""
        lines = VERBS | {verb: line for verb, (_, line) in plugged_in().items()}
        verbs = sorted(verb for verb in lines if verb.startswith(incomplete))
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(verb, help=lines[verb]) for verb in verbs), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = VERBS | {verb: line for verb, (_, line) in plugged_in().items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


def _global_first(arguments: list[str]) -> list[str]:
    """The same arguments with `--config` and `--set` before the verb, wherever they stood."""
    first: list[str] = []
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in _GLOBAL:
            first += [word, *islice(words, 1)]
        elif word.startswith(tuple(f"{flag}=" for flag in _GLOBAL)):
            first.append(word)
        else:
            others += [word, *(words if word == "--" else ())]
    return [*first, *others]


@contextmanager
def importing() -> Iterator[None]:
    """Within it modules are imported without collecting garbage: almost none of it is.

    What stays is not looked at by later collections either. And NumPy begins no threads for its
    products, which would spin for a tenth of a second when it is imported: our products are small.
    """
    chosen, collecting = _BLAS in os.environ, gc.isenabled()
    os.environ.setdefault(_BLAS, "1")
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        gc.freeze()
        if not chosen:  # not for what this process starts
            os.environ.pop(_BLAS, None)


def _loaded(module: str) -> ModuleType:
    if module in sys.modules:
        return sys.modules[module]
    with importing():
        return import_module(module)


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="editjudge")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Settings file instead of ./editjudge.toml. May stand anywhere.",
)
@click.option(
    "--set",
    "set_",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting, as concurrency=8 or generalists.judge.samples=5 (docs/configuration.md). May"
    " stand anywhere, and be given several times.",
)
def root(config: Path | None, set_: tuple[str, ...]) -> None:
    """Judges for image editing, served.

    Exit codes: 0 done; 1 something is wrong with the services; 2 bad input, setting or
    usage; 3 a service failed on some dimension; 4 --fail-if holds;
    130 interrupted.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command; errors of ours are one line, never a traceback.

    A file that cannot be used is met wherever a path is looked at first, so it is told here.
    """
    try:
        code = root.main(arguments, prog_name="editjudge", standalone_mode=False)
    except EditjudgeError as error:
        say(f"error: {error}", fg="red", err=True)
        code = error.exit_code
    except click.exceptions.Abort:
        code = _INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except OSError as error:
        if error.filename is None:  # about no file that was named: a defect, or the terminal
            raise
        name = str(error.filename)
        told = InputError(
            f"{name[:_SHOWN]}{'…' if len(name) > _SHOWN else ''}",
            error.strerror or "cannot be used",
            "give another path",
        )
        say(f"error: {told}", fg="red", err=True)
        code = told.exit_code
    if code == _INTERRUPTED and _hanging():
        # They would be waited for, and every further interruption would print a traceback.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPTED)
    # All modules would be looked at three times before the process ends: a tenth of a second.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)


def _hanging() -> bool:
    """Whether threads of a command that is over still run."""
    others = (each for each in threading.enumerate() if each is not threading.main_thread())
    return any(not each.daemon for each in others)
