"""Pages of ours as HTML: whole in themselves, and strict about what they may load and run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ..base.signature import package_version

Mode: TypeAlias = Literal["file", "folder", "view"]
"""How a page comes to what it shows: it is all in it, in files beside it, or at a server."""
_WEB = "web"
_JSON = "application/json"
# What would end the element, begin another or be no line of JavaScript.
_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
_MORE_PICTURES = {"file": "", "folder": " 'self' file:", "view": " 'self'"}
_MORE_SCRIPTS = {"file": "", "folder": " 'self' file:", "view": ""}
_CONNECTS = {"file": "'none'", "folder": "'none'", "view": "'self'"}


def page_template(package: str, name: str, folder: str = "templates") -> Template:
    """Load a page's template from a folder of a package; texts are escaped."""
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def page_html(
    report: Mapping[str, Any],
    edits: Mapping[str, Any] | None = None,
    details: Mapping[str, Mapping[str, Any] | str] | None = None,
    pictures: Mapping[str, str] | None = None,
    mode: Mode = "file",
) -> str:
    """Write a page of results as HTML; every text from data stays text.

    Args:
        report: See `contents.report_of`.
        edits: See `Gathered.index`; None where the page asks for both.
        details: By name of the chunk, where the page holds all of them; as text that `script_json`
            has made where they are many.
        pictures: Data URIs by name of the picture, in the same case.
    """
    return page_template("editjudge.report", "page.html.j2", _WEB).render(
        title=report["title"],
        mode=mode,
        report=report,
        style=Markup(_joined(".css")),  # noqa: S704 - ours
        script=Markup(_joined(".js")),  # noqa: S704 - ours
        policy="" if mode == "view" else policy(mode),
        blocks=list(_blocks(report, edits, details or {}, pictures or {})),
        version=package_version("editjudge"),
    )


def _blocks(
    report: Mapping[str, Any],
    edits: Mapping[str, Any] | None,
    details: Mapping[str, Any],
    pictures: Mapping[str, str],
) -> Iterator[tuple[str, str, Markup]]:
    """What the page holds beside its own words, as `(id, type, text)`."""
    if edits is not None:
        details = {"report": report, "edits": edits, **details}
    for name, chunk in details.items():
        text = chunk if isinstance(chunk, str) else script_json(chunk)
        yield f"data-{name}", _JSON, Markup(text)  # noqa: S704 - escaped for this place
    for name, uri in pictures.items():
        yield f"picture-{name}", "text/plain", Markup(uri)  # noqa: S704 - base64


def policy(mode: Mode) -> str:
    """What a page may do: its own style and script, its pictures, and nothing else.

    It is a header where a server sends the page, which none may frame then.
    """
    script, style = _digest(_joined(".js")), _digest(_joined(".css"))
    rules = [
        "default-src 'none'",
        f"script-src {script}{_MORE_SCRIPTS[mode]}",
        f"style-src {style}",
        f"img-src data: blob:{_MORE_PICTURES[mode]}",
        f"connect-src {_CONNECTS[mode]}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if mode == "view":
        rules.append("frame-ancestors 'none'")
    return "; ".join(rules)


def script_json(value: object) -> str:
    """JSON that stays JSON within a script element, and as an expression of a script.

    Lone surrogates of a judge's reply, which no file can hold, are escaped.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # what a service returned may be no number
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text.encode("utf-8", "backslashreplace").decode()


def _finite(value: Any) -> Any:
    """The same with words for what is no number in JSON."""
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value


@cache
def _joined(suffix: str) -> str:
    """All files of the page of one kind, in the order of their names."""
    folder = files(__package__) / _WEB
    texts = {one.name: one for one in folder.iterdir() if one.name.endswith(suffix)}
    return "".join(texts[name].read_text("utf-8") for name in sorted(texts))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
