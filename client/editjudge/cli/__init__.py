"""The command line.

`commands.toml` declares the commands. Other packages add commands by an entry point in the group
`editjudge.commands`, whose value is the path of such a file.
"""

import gc
import os
import sys
import threading
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path
from typing import NoReturn

import click

from ..base.errors import ConfigError, EditjudgeError, InputError
from ..base.terminal import allow_any_text, print_text
from .commands import load_commands

GROUP = "editjudge.commands"
_GLOBAL = ("--config", "--set")
"""Options of every command; they are accepted before and after the command's name."""
_INTERRUPT_CODE = 130
_MAX_NAME = 120
"""Characters of a file name that an error message shows."""


@cache
def plugin_commands() -> Mapping[str, click.Command]:
    """Load the commands that other packages add.

    Raises:
        ConfigError: a package's file cannot be read, or two packages add the same command.
    """
    commands: dict[str, click.Command] = {}
    for point in entry_points(group=GROUP):
        try:
            new_commands = load_commands(point.load())
        except (ImportError, AttributeError, OSError, ValueError, LookupError) as error:
            raise ConfigError(
                f"the commands of {point.value} cannot be loaded: {error}", "install that package again, or remove it"
            ) from error
        if twice := new_commands.keys() & (root.commands.keys() | commands.keys()):
            raise ConfigError(f"two packages have a command {min(twice)}", "remove one of them")
        commands.update(new_commands)
    return commands


class _Commands(click.Group):
    """The built-in commands and those of other packages."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _move_global_first(args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.commands.keys() | plugin_commands().keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.commands.get(cmd_name) or plugin_commands().get(cmd_name)


def _move_global_first(arguments: list[str]) -> list[str]:
    """Move `--config` and `--set` with their values before the name of the command."""
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


@click.group(
    cls=_Commands,
    commands=load_commands(Path(__file__).with_name("commands.toml")),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="editjudge")
@click.option("--config", type=click.Path(path_type=Path), help="Settings file. The default is ./editjudge.toml.")
@click.option(
    "--set",
    "set_",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting, such as concurrency=8 or judges.judge.samples=5 (docs/howto/configuration.md). May"
    " stand anywhere, and be given several times.",
)
def root(config: Path | None, set_: tuple[str, ...]) -> None:
    """Judge image-editing models.

    Exit codes: 0 success; 1 a problem with the services; 2 wrong input, setting or usage;
    3 verdicts failed, a service is missing, or a run ended early; 4 a gate fails; 5 a gate cannot
    tell; 130 interrupted.
    docs/howto/results.md lists them by command.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit; an expected error is printed as one line, without a traceback.

    Files that cannot be used raise OSError in many places, so it is handled here.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would print what our errors say
    os.environ["MPLBACKEND"] = "agg"  # figures go to files: that of a notebook's kernel may not be installed here
    allow_any_text()
    try:
        code = root.main(arguments, prog_name="editjudge", standalone_mode=False)
    except EditjudgeError as error:
        print_text(f"error: {error}", fg="red", err=True)
        code = error.exit_code
    except click.exceptions.Abort:
        code = _INTERRUPT_CODE
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except OSError as error:
        if error.filename is None:  # a defect, or the terminal: no file of the user is at fault
            raise
        name = str(error.filename)
        unusable = InputError(
            f"{name[:_MAX_NAME]}{'…' if len(name) > _MAX_NAME else ''}",
            error.strerror or "cannot be used",
            "give another path",
        )
        print_text(f"error: {unusable}", fg="red", err=True)
        code = unusable.exit_code
    if code == _INTERRUPT_CODE and _has_running_threads():
        # Python would wait for these threads, and print a traceback at each further interruption.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPT_CODE)
    # Without this the collector walks all modules three times at exit: a tenth of a second.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)


def _has_running_threads() -> bool:
    """Whether threads of the finished command still run."""
    others = (each for each in threading.enumerate() if each is not threading.main_thread())
    return any(not each.daemon for each in others)
