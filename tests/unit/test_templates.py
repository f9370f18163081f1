"""Templates escape what is put in; those that make no page say so here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from editjudge.app.label_studio import build_configuration
from editjudge.benchmarks.registry import load_dimensions

ROOT = Path(__file__).parents[2]
# Tables escape for each form, Envoy's file is of JSON, and chats are for models.
UNESCAPED = {"report/table.py", "front/render.py", "vllm/tokenizer.py"}


def environments() -> Iterator[tuple[str, bool]]:
    """Where Jinja is set up, and whether all texts are escaped there."""
    for file in (*ROOT.glob("client/**/*.py"), *ROOT.glob("services/**/*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "jinja2" in text or "make_templates" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Environment", ".overlay")):
                said = {each.arg: ast.unparse(each.value) for each in node.keywords}
                yield "/".join(file.parts[-2:]), said.get("autoescape") == "True"


def test_all_that_makes_a_page_escapes() -> None:
    found = dict(environments())
    assert {name for name, escaped in found.items() if not escaped} == UNESCAPED
    assert found.keys() - UNESCAPED == {"base/templates.py"}


def test_a_question_is_no_tag_of_the_labelling_configuration() -> None:
    dimension = replace(load_dimensions()["core.psnr.source.whole"], asks='<b> & "c"')
    text = build_configuration(["edited"], [dimension])
    assert "<b>" not in text
    assert "&lt;b&gt; &amp; &#34;c&#34;" in text
