"""The command line: one file per verb, each loaded when it is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

VERBS = {
    "demo": "Judge a built-in set of edits and write a report.",
    "doctor": "Check every service: reachable, ready, and answering correctly.",
    "down": "End the local stack.",
    "export": "Write a run's verdicts to a file.",
    "list": "Show the benchmarks, switches, dimensions, services or prompts there are.",
    "merge": "Put several runs together in a new one.",
    "models": "Pull, export and verify model weights.",
    "prepare": "Write questions and masks for data of your own, and review them.",
    "prompts": "Import the authors' own prompts.",
    "rescore": "Judge a run again from its stored replies.",
    "run": "Judge models on a data set, and go on where it ended.",
    "score": "Judge one edit.",
    "show": "Show one edit of a run.",
    "status": "Show the local stack.",
    "summary": "Show a run as the table of its benchmark's paper.",
    "up": "Start the local stack in the background.",
    "validate": "Check data and outputs before a run.",
}


class _Verbs(click.Group):
    """Loads a verb's module only when it runs, so `--help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f".{cmd_name}", __name__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name]) for name in self.list_commands(ctx)])


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="editjudge")
def root() -> None:
    """Judges for image editing, served.

    Exit codes: 0 done; 1 something is wrong with the services; 2 bad input, setting or
    usage; 3 a service failed on some dimension; 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: errors of ours are one line, never a traceback."""
    from ..errors import EditjudgeError

    try:
        code = root.main(arguments, prog_name="editjudge", standalone_mode=False)
    except EditjudgeError as error:
        click.secho(f"error: {error}", fg="red", err=True)
        code = error.exit_code
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else 0)
