"""Builds click commands from TOML files that declare them with their options.

`--help` and shell completion need these files only. The function of a command is imported when the
command is called.
"""

from __future__ import annotations

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

Declaration: TypeAlias = Mapping[str, Any]
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
    return {name: _build_command(name, declaration, options) for name, declaration in _load_table(file).items()}


def _load_table(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text("utf-8"))


def _build_command(name: str, declaration: Declaration, above: Declaration) -> click.Command:
    options = dict(above)
    for option, changes in declaration.get("option", {}).items():
        options[option] = {**above.get(option, {}), **changes}
    arguments: dict[str, Any] = {
        "callback": partial(_call_function, declaration["function"]) if "function" in declaration else None,
        "params": [
            *map(_build_argument, declaration.get("arguments", ())),
            *(_build_option(option, options[option]) for option in declaration.get("options", ())),
        ],
        "help": declaration["help"],
        "short_help": declaration.get("line"),
    }
    if subcommands := declaration.get("commands"):
        commands = {each: _build_command(each, of, options) for each, of in subcommands.items()}
        return click.Group(
            name, commands, invoke_without_command=arguments["callback"] is not None, **arguments
        )
    return click.Command(name, **arguments)


def _build_argument(declaration: Declaration) -> click.Argument:
    arguments = {key: declaration[key] for key in ("metavar", "nargs", "required") if key in declaration}
    return click.Argument([declaration["name"]], type=_build_type(declaration), **arguments)


def _build_option(name: str, declaration: Declaration) -> click.Option:
    parameter = name.replace("-", "_")
    if iskeyword(parameter) or hasattr(builtins, parameter):
        parameter += "_"
    is_multiple = declaration.get("several", False)
    arguments = {key: declaration[key] for key in ("metavar", "required", "default") if key in declaration}
    return click.Option(
        [f"--{name}", *filter(None, [declaration.get("short")]), parameter],
        type=None if "flag" in declaration else _build_type(declaration),
        is_flag=declaration.get("flag", False),
        multiple=is_multiple,
        show_default="default" in declaration,
        help=f"{declaration['help']}{_SEVERAL_HINT * is_multiple}",
        **arguments,
    )


def _build_type(declaration: Declaration) -> click.ParamType[Any] | None:
    if "choices" in declaration:
        return click.Choice(declaration["choices"])
    kind = declaration.get("type", "")
    if kind not in {"integer", "number"}:
        return _PATHS.get(kind)
    bounds = {
        "min": declaration.get("above", declaration.get("min")),
        "max": declaration.get("max"),
        "min_open": "above" in declaration,
    }
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
