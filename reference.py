"""The pages of `docs/reference` that repeat what the code declares."""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

import editjudge
from editjudge.app import catalogue
from editjudge.app.agreement import Agreement
from editjudge.app.canary import CanaryResult
from editjudge.app.comparison import ModelComparison, Rankings
from editjudge.app.doctor import Finding
from editjudge.app.estimate import Estimate
from editjudge.app.gate import Gate, PlanRow
from editjudge.app.judgement_import import ImportSummary
from editjudge.app.rating_sample import Stratum
from editjudge.app.rescoring import RescoreEntry
from editjudge.app.results import Results
from editjudge.app.run import RunOptions
from editjudge.app.run_difference import RunDifference
from editjudge.app.validation import Validation
from editjudge.app.verdicts import ShownItem
from editjudge.base import config
from editjudge.base.item import Item
from editjudge.benchmarks.benchmark import Benchmark
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.dimension import Formula
from editjudge.benchmarks.registry import load_benchmarks
from editjudge.cli import plugin_commands, root
from editjudge.engine import events
from editjudge.engine.score_report import ScoreReport
from editjudge.prepare.gie import ConversionResult
from editjudge.prepare.preparation import PreparationResult
from editjudge.prepare.review import ReviewResult
from editjudge.rewards.audit import Movement
from editjudge.rewards.schema import RewardReply
from editjudge_services.cli.status import Stack

ROOT = Path(__file__).parent
FOLDER = ROOT / "docs" / "reference"
PROTO = ROOT / "protos" / "editjudge" / "v1" / "judge.proto"
SCHEMA = ROOT / "k8s" / "chart" / "values.schema.json"
NOTE = "<!-- Written by `python generate.py`. -->"
USUAL = {
    "dimension": "Id of the dimension.",
    "item": "Id of the item.",
    "model": "The model under test.",
    "higher_is_better": "Whether a higher value is better.",
    "status": "The outcome: [statuses](../howto/results.md#statuses-and-kinds).",
    "reason": "Why there is no number.",
    "instruction": "What the editing model was told.",
}
"""Meanings of fields that many forms have, where a form does not say its own."""
ELLIPSIS = type("Optional", (), {"__repr__": lambda _: "…"})()
"""Stands for a default, which the text says where it matters."""
CHART_HEAD = ("value", "type or form", "bounds")
SECTIONS: Mapping[str, type[BaseModel]] = {
    "Settings": config.Settings,
    "Triton servers: `[endpoints.NAME]`": config.Endpoint,
    "The Judge service: `[gateway]`": config.GatewayEndpoint,
    "Judges: `[judges.NAME]`": config.JudgeEndpoint,
    "Prices: `[judges.NAME.price]`": config.Price,
    "The local stack: `[stack]`": config.StackSettings,
}
"""The headings of the page of settings, and the models below them."""


FORMS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "run": (events.StartEvent, events.ProgressEvent, events.NoteEvent, events.FinishEvent),
    "run --dry-run": (Estimate,),
    "validate": (Validation,),
    "score": (ScoreReport,),
    "summary": (Results,),
    "show": (ShownItem,),
    "compare RUN A B": (ModelComparison,),
    "compare RUN": (Rankings,),
    "gate": (Gate,),
    "gate --plan": (PlanRow,),
    "agreement": (Agreement,),
    "import": (ImportSummary,),
    "diff": (RunDifference,),
    "ratings draw": (Stratum,),
    "rescore": (RescoreEntry,),
    "canary": (CanaryResult,),
    "doctor": (Finding,),
    "status": (Stack,),
    "list dimensions": (catalogue.DimensionEntry,),
    "list prompts": (catalogue.TemplateEntry,),
    "prepare questions": (PreparationResult,),
    "prepare gie": (ConversionResult,),
    "review": (ReviewResult,),
    "reward preview": (RewardReply, Movement),
}
"""What commands print with `--json`; a line each where a command prints several."""


def reference() -> dict[Path, str]:
    """The generated pages, by file."""
    return {
        FOLDER / "settings.md": settings(),
        FOLDER / "switches.md": switches(),
        FOLDER / "dimensions.md": dimensions(),
        FOLDER / "commands.md": commands(),
        FOLDER / "api.md": python(),
        FOLDER / "json.md": json_forms(),
        FOLDER / "chart.md": chart(),
        FOLDER / "grpc.md": grpc(),
    }


def settings() -> str:
    """The page of settings: each with its default and meaning."""
    parts = ["# Settings", "", NOTE, "", "[Configuration](../howto/configuration.md) explains their use."]
    for heading, model in SECTIONS.items():
        meanings = attributes(model)
        rows = [(f"`{name}`", default(field), meanings[name]) for name, field in model.model_fields.items()]
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
    parts += ["[Dimensions](../explanation/dimensions.md) explains the generic ones."]
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


def commands() -> str:
    """The page of the command line: the help of each command."""
    parts = ["# Commands", "", NOTE]
    entries = {**root.commands, **plugin_commands()}
    for name in sorted(entries):
        parts += describe_command(entries[name], click.Context(root, info_name="editjudge"), name)
    return "\n".join(parts) + "\n"


def describe_command(command: click.Command, parent: click.Context, name: str) -> list[str]:
    """The help of a command and of those below it, 80 columns wide."""
    context = click.Context(command, parent, info_name=name, terminal_width=80)
    text = command.get_help(context)
    parts = ["", f"## {context.command_path}", "", "```text", text, "```"]
    if isinstance(command, click.Group):
        for each in sorted(command.commands):
            parts += describe_command(command.commands[each], context, each)
    return parts


def json_forms() -> str:
    """The page of what commands print with `--json`: each form with its fields."""
    models = {model: command for command, models in FORMS.items() for model in models}
    _, schema = models_json_schema([(model, "serialization") for model in models])
    commands = {model.__name__: command for model, command in models.items()}
    classes = documented_classes()
    parts = ["# JSON", "", NOTE, "", "`editjudge COMMAND --json` prints these forms. A field has"]
    parts += ["another form where its type links to one. No number is NaN or infinite. None stands for null.", ""]
    parts += table(("command", "form"), [(f"`{of}`", link(name)) for name, of in commands.items()])
    for name, form in schema["$defs"].items():
        if "properties" in form:
            text = form.get("description", "")
            about = re.sub(r"```.*?```", "", text, flags=re.DOTALL).partition("Attributes:\n")[0]
            parts += ["", f"## {name}", "", " ".join(about.split()), ""]
            meanings = attributes(classes[text])
            rows = [
                (f"`{field}`", form_of(of), meanings.get(field) or line_of(of) or USUAL.get(field, ""))
                for field, of in form["properties"].items()
            ]
            parts += table(("field", "type", "meaning"), rows)
    return "\n".join(parts) + "\n"


def line_of(schema: Mapping[str, Any]) -> str:
    """The first paragraph of a field's own description."""
    return " ".join(schema.get("description", "").split("\n\n")[0].split())


def documented_classes() -> dict[str, type]:
    """The classes of the package by docstring: a schema names its forms, and has no classes."""
    modules = [module for name, module in sys.modules.items() if name.startswith("editjudge")]
    classes = (one for module in modules for one in vars(module).values() if inspect.isclass(one))
    return {inspect.cleandoc(one.__doc__): one for one in classes if one.__doc__}


def link(form: str) -> str:
    """A link to a form of the page."""
    return f"[{form}](#{form.lower()})"


def form_of(schema: Mapping[str, Any]) -> str:
    """The type of a field in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "any JSON" if name == "JsonValue" else link(name)
    if kinds := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(dict.fromkeys(map(form_of, kinds)))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        inner = schema.get("items") or {}
        parts = schema.get("prefixItems")
        return f"list of {form_of(inner)}" if not parts else f"({', '.join(map(form_of, parts))})"
    if isinstance(below := schema.get("additionalProperties"), dict):
        return f"object of {form_of(below)}"
    return str(schema.get("type", "any"))


def meanings_of(attributes: str) -> dict[str, str]:
    """The meanings of fields from the lines of a docstring."""
    lines = inspect.cleandoc(f"\n{attributes}")
    entries = re.findall(r"^(\w+): (.*(?:\n .*)*)", lines, re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def python() -> str:
    """The page of the public names of the package: signatures and docstrings."""
    parts = ["# Python names", "", NOTE, "", "[Python](../howto/python.md) shows their use."]
    for name in sorted(dir(editjudge)):
        value = getattr(editjudge, name)
        parts += ["", f"## {name}", "", *document(name, value)]
        for method, below in sorted(vars(value).items()) if inspect.isclass(value) else ():
            function = getattr(below, "__func__", below)
            is_own = not method.startswith("_") and not hasattr(BaseSettings, method)
            if is_own and isinstance(function, property | functools.cached_property) and function.__doc__:
                parts += ["", f"### {name}.{method}", "", *document("", function)]
            if is_own and inspect.isfunction(function) and function.__doc__:
                parts += ["", f"### {name}.{method}", "", *document(f"{name}.{method}", function)]
    parts += ["", "## Forms that these use", "", "They are no names of `editjudge`."]
    for value in (Cell, Formula, Item, RunOptions):
        parts += ["", f"### {value.__name__}", "", *document(value.__name__, value)]
    return "\n".join(parts) + "\n"


def document(name: str, value: object) -> list[str]:
    """How a function is called, and a docstring as it is written, indented as code."""
    if forms := get_args(value):
        return [f"One of {', '.join(f'`{form.__name__}`' for form in get_args(forms[0]))}."]
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    parts: list[str] = []
    if inspect.isfunction(value):
        whole = inspect.signature(value)
        bare = [
            one.replace(annotation=one.empty, default=one.empty if one.default is one.empty else ELLIPSIS)
            for one in whole.parameters.values()
            if one.name not in {"self", "cls"}
        ]
        parts = [f"`{name}{whole.replace(parameters=bare, return_annotation=whole.empty)}`", ""]
    return [*parts, *(f"    {line}".rstrip() for line in text.splitlines())]


def chart() -> str:
    """The page of the chart's values: the type and the bounds of each."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    rows = [row for name, below in schema["properties"].items() for row in values(name, below)]
    parts = ["# Values of the chart", "", NOTE, "", "[Deploying](../howto/deploying.md) explains their use."]
    definitions = [
        part
        for name, below in schema["definitions"].items()
        for part in ["", f"## Form: {name}", "", *table(CHART_HEAD, values("", below))]
    ]
    return "\n".join([*parts, "", *table(CHART_HEAD, rows), *definitions]) + "\n"


def values(name: str, schema: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The rows of a value and of those below it; what a definition has stands there once."""
    kind = str(schema.get("$ref", schema.get("type", ""))).rpartition("/")[2]
    bounds = [
        f"{key} `{json.dumps(schema[key])}`"
        for key in ("const", "enum", "minimum", "maximum", "pattern")
        if key in schema
    ]
    rows = [(f"`{name or '.'}`", kind, "; ".join(bounds))]
    for each, inner in schema.get("properties", {}).items():
        if isinstance(inner, dict) and not str(inner.get("const", "")).startswith("nothing"):
            rows += values(f"{name}.{each}".strip("."), inner)
    return rows


def grpc() -> str:
    """The page of the Judge service's messages: the file that defines them."""
    text = PROTO.read_text(encoding="utf-8").rstrip()
    about = "[The Judge service](../howto/serving.md) explains their use."
    return "\n".join(["# gRPC", "", NOTE, "", about, "", "```proto", text, "```"]) + "\n"


def protocols(benchmark: Benchmark, switch: str) -> str:
    """The protocols of a benchmark in which a switch is on."""
    return ", ".join(name for name, each in benchmark.protocols.items() if getattr(each, switch, False))


def attributes(model: type[BaseModel]) -> Mapping[str, str]:
    """The meanings of a model's fields, from the docstrings of its class and of its bases."""
    entries: dict[str, str] = {}
    for each in reversed(model.__mro__):
        text = inspect.cleandoc(vars(each).get("__doc__") or "")
        entries |= meanings_of(text.partition("Attributes:\n")[2])
    return entries


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
