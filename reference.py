"""The pages of `docs/reference` that repeat what the code declares."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from editjudge.base import config
from editjudge.benchmarks.benchmark import Benchmark
from editjudge.benchmarks.registry import load_benchmarks

FOLDER = Path(__file__).parent / "docs" / "reference"
NOTE = "<!-- Written by `python generate.py`. -->"
SECTIONS: Mapping[str, type[BaseModel]] = {
    "Settings": config.Settings,
    "Triton servers: `[endpoints.NAME]`": config.Endpoint,
    "The Judge service: `[gateway]`": config.GatewayEndpoint,
    "Judges: `[judges.NAME]`": config.JudgeEndpoint,
    "Prices: `[judges.NAME.price]`": config.Price,
    "The local stack: `[stack]`": config.StackSettings,
}
"""The headings of the page of settings, and the models below them."""


def reference() -> dict[Path, str]:
    """The generated pages, by file."""
    return {
        FOLDER / "settings.md": settings(),
        FOLDER / "switches.md": switches(),
        FOLDER / "dimensions.md": dimensions(),
    }


def settings() -> str:
    """The page of settings: each with its default and meaning."""
    parts = ["# Settings", "", NOTE, "", "[Configuration](../configuration.md) explains their use."]
    for heading, model in SECTIONS.items():
        meanings = attributes(model)
        rows = [
            (f"`{name}`", default(field), meanings[name])
            for name, field in model.model_fields.items()
        ]
        parts += ["", f"## {heading}", "", *table(("setting", "default", "meaning"), rows)]
    return "\n".join(parts) + "\n"


def switches() -> str:
    """The page of switches: each with its effect, its source and the protocols that have it on."""
    parts = ["# Switches of the benchmarks", "", NOTE, ""]
    parts += ["`--with SWITCH` turns a switch on, `--without SWITCH` off."]
    for benchmark in load_benchmarks().values():
        rows = [
            (f"`{each.name}`", protocols(benchmark, each.name), each.what, each.source)
            for each in benchmark.switches.list_switches()
        ]
        if rows:
            head = ("switch", "on in", "effect if on", "source")
            parts += ["", f"## {benchmark.title}", "", *table(head, rows)]
    return "\n".join(parts) + "\n"


def dimensions() -> str:
    """The page of dimensions: each with its question, range, direction and inputs."""
    parts = ["# List of dimensions", "", NOTE, ""]
    parts += ["[Dimensions](../dimensions.md) explains the generic ones."]
    for benchmark in load_benchmarks().values():
        rows = [
            (
                f"`{each.id}`",
                each.asks,
                f"{each.range[0]:g} to {each.range[1]:g} {each.unit}".strip(),
                "higher" if each.higher_is_better else "lower",
                ", ".join(sorted(each.needs)),
            )
            for each in benchmark.dimensions
        ]
        head = ("dimension", "question", "range", "better", "needs")
        parts += ["", f"## {benchmark.title}", "", *table(head, rows)]
    return "\n".join(parts) + "\n"


def protocols(benchmark: Benchmark, switch: str) -> str:
    """The protocols of a benchmark in which a switch is on."""
    return ", ".join(
        name for name, each in benchmark.protocols.items() if getattr(each, switch, False)
    )


def attributes(model: type[BaseModel]) -> Mapping[str, str]:
    """The meanings of a model's fields, from the docstrings of its class and of its bases."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        text = inspect.cleandoc(vars(each).get("__doc__") or "").partition("Attributes:\n")[2]
        for name, meaning in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", text, re.MULTILINE):
            found[name] = " ".join(meaning.split())
    return found


def default(field: FieldInfo) -> str:
    """The default of a field as a cell: empty where it is required, or none."""
    value = field.default
    if field.is_required():
        return "required"
    if isinstance(value, BaseModel) or value is PydanticUndefined or value in (None, (), ""):
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table; bars in cells are escaped."""
    cells = [tuple(head), *(tuple(each.replace("|", "\\|") for each in row) for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return [lines[0], "|---" * len(cells[0]) + "|", *lines[1:]]
