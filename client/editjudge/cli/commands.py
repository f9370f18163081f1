"""Builds click commands from TOML files that declare them with their options.

`--help` and shell completion need these files only. The function of a command is imported when the
command is called.
"""

import builtins
import gc
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from keyword import iskeyword
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeAlias

import click

Table: TypeAlias = Mapping[str, Any]
"""A TOML table of a command or option; `commands.toml` and `options.toml` list its fields."""

_HERE = Path(__file__).parent
_SEVERAL_HINT = " May be given several times."
_PATHS = {
    "path": click.Path(path_type=Path),
    "file": click.Path(path_type=Path, dir_okay=False),
    "folder": click.Path(path_type=Path, file_okay=False),
}
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def load_commands(file: Path) -> dict[str, click.Command]:
    """Read the commands that a TOML file declares, by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not valid TOML.
        KeyError: a command lacks its help.
    """
    options = _load_table(_HERE / "options.toml")
    return {name: _build_command(name, table, options) for name, table in _load_table(file).items()}


def _load_table(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text("utf-8"))


def _build_command(name: str, table: Table, above: Table) -> click.Command:
    options = dict(above)
    for option, changes in table.get("option", {}).items():
        options[option] = {**above.get(option, {}), **changes}
    arguments: dict[str, Any] = {
        "callback": partial(_call_function, table["function"]) if "function" in table else None,
        "params": [
            *map(_build_argument, table.get("arguments", ())),
            *(_build_option(option, options[option]) for option in table.get("options", ())),
        ],
        "help": table["help"],
        "short_help": table.get("line"),
    }
    if subcommands := table.get("commands"):
        commands = {each: _build_command(each, of, options) for each, of in subcommands.items()}
        return click.Group(name, commands, invoke_without_command=arguments["callback"] is not None, **arguments)
    return click.Command(name, **arguments)


def _build_argument(table: Table) -> click.Argument:
    arguments = {key: table[key] for key in ("metavar", "nargs", "required") if key in table}
    return click.Argument([table["name"]], type=_build_type(table), **arguments)


def _build_option(name: str, table: Table) -> click.Option:
    parameter = name.replace("-", "_")
    if iskeyword(parameter) or hasattr(builtins, parameter):
        parameter += "_"
    spellings = (table[key] for key in ("short", "spelling") if key in table)
    several = table.get("several", False)
    arguments = {key: table[key] for key in ("metavar", "required", "default") if key in table}
    return click.Option(
        [f"--{name}", *spellings, parameter],
        type=None if "flag" in table else _build_type(table),
        is_flag=table.get("flag", False),
        multiple=several,
        show_default="default" in table,
        help=f"{table['help']}{_SEVERAL_HINT * several}",
        **arguments,
    )


def _build_type(table: Table) -> click.ParamType[Any] | None:
    if "choices" in table:
        return click.Choice(table["choices"])
    kind = table.get("type", "")
    if kind not in {"integer", "number"}:
        return _PATHS.get(kind)
    bounds = {"min": table.get("above", table.get("min")), "max": table.get("max"), "min_open": "above" in table}
    if kind == "integer":
        return click.IntRange(**bounds)
    return click.FLOAT if bounds["min"] is None else click.FloatRange(**bounds)


def _call_function(function: str, **values: Any) -> Any:
    """Import the function of a command and call it; a group with a subcommand does nothing."""
    if click.get_current_context().invoked_subcommand is None:
        with fast_imports():
            callback = resolve_name(function)
        return callback(**values)
    return None


@contextmanager
def fast_imports() -> Iterator[None]:
    """Disable garbage collection while modules are imported, since almost nothing is garbage then.

    Later collections skip the imported objects as well. NumPy's BLAS starts no threads, which
    would spin for a tenth of a second at import: the matrix products here are small.
    """
    was_set, was_enabled = _BLAS_THREADS in os.environ, gc.isenabled()
    os.environ.setdefault(_BLAS_THREADS, "1")
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.freeze()
        if not was_set:  # processes that are started from here shall not inherit it
            os.environ.pop(_BLAS_THREADS, None)
