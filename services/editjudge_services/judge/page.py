"""The OpenAPI document as a page for people: whole in itself, without scripts, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_REFERENCE = "#/components/schemas/"


class Page(NamedTuple):
    """A page.

    Attributes:
        policy: Its Content-Security-Policy: its own style, and nothing else.
    """

    html: str
    policy: str


class Field(NamedTuple):
    """A field of a model, as the page has it."""

    name: str
    kind: Markup
    needed: bool
    words: str


def page_of(document: Mapping[str, Any]) -> Page:
    """Write an OpenAPI document of ours as HTML; every text is escaped."""
    environment = Environment(
        loader=PackageLoader("editjudge_services.judge"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(kind=_kind, fields=_fields, json=_json, prose=_prose)
    environment.globals.update(command=_command)
    style = environment.get_template("api.css").render()
    html = environment.get_template("api.html.j2").render(
        document=document,
        style=Markup(style),  # noqa: S704 - ours, without anything put in
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    )
    return Page(html, policy)


def _fields(schema: Mapping[str, Any]) -> list[Field]:
    needed = schema.get("required", ())
    return [
        Field(name, _kind(each), name in needed, _words(each))
        for name, each in schema.get("properties", {}).items()
    ]


def _words(schema: Mapping[str, Any]) -> str:
    words = [str(schema.get("description", ""))]
    if "maxItems" in schema and "prefixItems" not in schema:
        words.append(f"{schema.get('minItems', 0)} to {schema['maxItems']} of them.")
    if "default" in schema and schema["default"] not in (None, "", []):
        words.append(f"{_json(schema['default'])} where it is left out.")
    return " ".join(filter(None, words))


def _kind(schema: Mapping[str, Any]) -> Markup:
    """A type in words, models as links to where they are described."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return Markup('<a href="#{0}">{0}</a>').format(name)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return _joined([Markup("<code>{}</code>").format(_json(each)) for each in values], " | ")
    if "anyOf" in schema:
        return _joined([_kind(each) for each in schema["anyOf"]], " or ")
    if "prefixItems" in schema:
        return Markup("[{}]").format(_joined([_kind(e) for e in schema["prefixItems"]], ", "))
    if schema.get("type") == "array":
        return Markup("list of {}").format(_kind(schema["items"]))
    if isinstance(schema.get("additionalProperties"), Mapping):
        return Markup("object of {}").format(_kind(schema["additionalProperties"]))
    return Markup("{}").format(schema.get("type", "any JSON"))


def _prose(text: str) -> Markup:
    """A text in which `such` is code."""
    forms = (Markup("{}"), Markup("<code>{}</code>"))
    return _joined([forms[i % 2].format(part) for i, part in enumerate(text.split("`"))], "")


def _joined(parts: Sequence[Markup], between: str) -> Markup:
    return Markup(between).join(parts)  # noqa: S704 - a constant


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1 if isinstance(value, dict) else None)


def _command(path: str, operation: Mapping[str, Any]) -> str:
    """What to type in a shell: a GET, or a POST where there is a body; `$JUDGE` is the service."""
    words = ["curl", "-s"]
    for parameter in operation.get("parameters", ()):
        words += ["-G", "--data-urlencode", f"{parameter['name']}={parameter['example'][0]}"]
    body = operation.get("requestBody")
    if body is not None:
        example = json.dumps(body["content"]["application/json"]["example"])
        words += ["-H", "content-type: application/json", "-d", example]
    return f'{shlex.join(words)} "$JUDGE{path}"'
