"""The commands and their options as data: files of TOML, read into click's objects.

`--help` and the completion of a shell read these files alone. What a command does is imported when
it is called.
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
"""A table of the file; `commands.toml` and `options.toml` say what it may hold."""

_HERE = Path(__file__).parent
_EACH = " May be given several times."
_PATHS = {
    "path": click.Path(path_type=Path),
    "file": click.Path(path_type=Path, dir_okay=False),
    "folder": click.Path(path_type=Path, file_okay=False),
}
_BLAS = "OPENBLAS_NUM_THREADS"


def load_commands(file: Path) -> dict[str, click.Command]:
    """Read the commands that a file declares, by their names.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no TOML.
        KeyError: a command lacks its help.
    """
    shared = _table(_HERE / "options.toml")
    return {name: _command(name, declared, shared) for name, declared in _table(file).items()}


def _table(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text("utf-8"))


def _command(name: str, declared: Declaration, above: Declaration) -> click.Command:
    options = dict(above)
    for option, changes in declared.get("option", {}).items():
        options[option] = {**above.get(option, {}), **changes}
    how: dict[str, Any] = {
        "callback": partial(_call, declared["function"]) if "function" in declared else None,
        "params": [
            *map(_argument, declared.get("arguments", ())),
            *(_option(option, options[option]) for option in declared.get("options", ())),
        ],
        "help": declared["help"],
        "short_help": declared.get("line"),
    }
    if below := declared.get("commands"):
        commands = {each: _command(each, of, options) for each, of in below.items()}
        return click.Group(
            name, commands, invoke_without_command=how["callback"] is not None, **how
        )
    return click.Command(name, **how)


def _argument(declared: Declaration) -> click.Argument:
    how = {key: declared[key] for key in ("metavar", "nargs", "required") if key in declared}
    return click.Argument([declared["name"]], type=_type(declared), **how)


def _option(name: str, declared: Declaration) -> click.Option:
    parameter = name.replace("-", "_")
    if iskeyword(parameter) or hasattr(builtins, parameter):
        parameter += "_"
    several = declared.get("several", False)
    how = {key: declared[key] for key in ("metavar", "required", "default") if key in declared}
    return click.Option(
        [f"--{name}", *filter(None, [declared.get("short")]), parameter],
        type=None if "flag" in declared else _type(declared),
        is_flag=declared.get("flag", False),
        multiple=several,
        show_default="default" in declared,
        help=f"{declared['help']}{_EACH * several}",
        **how,
    )


def _type(declared: Declaration) -> click.ParamType[Any] | None:
    if "choices" in declared:
        return click.Choice(declared["choices"])
    kind = declared.get("type", "")
    if kind not in {"integer", "number"}:
        return _PATHS.get(kind)
    bounds = {
        "min": declared.get("above", declared.get("min")),
        "max": declared.get("max"),
        "min_open": "above" in declared,
    }
    if kind == "integer":
        return click.IntRange(**bounds)
    return click.FLOAT if bounds["min"] is None else click.FloatRange(**bounds)


def _call(function: str, **values: Any) -> Any:
    """Import the function of a command and call it; a group leaves this to its command."""
    if click.get_current_context().invoked_subcommand is None:
        with fast_imports():
            called = resolve_name(function)
        return called(**values)
    return None


@contextmanager
def fast_imports() -> Iterator[None]:
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
