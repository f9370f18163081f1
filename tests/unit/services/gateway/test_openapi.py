"""The OpenAPI document of the Judge service: kept as a file, and a page for people."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from copy import deepcopy
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from editjudge_services.gateway import schemas
from editjudge_services.gateway.openapi import EXAMPLES, make_openapi, render_page
from editjudge_services.gateway.schemas import JsonModel

from ....golden.text import read_kept

KEPT = Path(__file__).with_name("openapi.json")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return make_openapi()


@pytest.fixture(scope="module")
def page(document: dict[str, Any]) -> str:
    return render_page(document)[0]


def test_the_document_is_the_one_that_is_kept(document: dict[str, Any]) -> None:
    described = {name: part for name, part in document.items() if name != "info"}
    text = json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert text == read_kept(KEPT, text), "docs/versions.md says what may change"


def test_no_body_is_forgotten(document: dict[str, Any]) -> None:
    declared = {
        name
        for name, kind in vars(schemas).items()
        if isinstance(kind, type) and issubclass(kind, JsonModel) and kind is not JsonModel
    }
    assert declared <= document["components"]["schemas"].keys()


def test_what_is_sent_is_described_field_by_field(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in (
        "ScoreRequest",
        "EncodedEdit",
        "EncodedImage",
        "ItemFlaw",
        "Protocol",
        "PanelReply",
    ):
        fields = schemas[name]["properties"]
        assert all(field.get("description") for field in fields.values()), name
    served = schemas["ServedDimension"]["properties"]["served"]
    assert served["description"] == (
        "Whether every judge and specialist that the dimension needs is available."
    )


def test_the_page_has_every_route_model_and_field(page: str, document: dict[str, Any]) -> None:
    for path in document["paths"]:
        assert f"<code>{path}</code>" in page
    for name, schema in document["components"]["schemas"].items():
        assert f'<h3 id="{name}">' in page
        for field in schema.get("properties", {}):
            assert f"<code>{field}</code>" in page
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))


def test_the_page_is_whole_and_its_policy_lets_in_its_style_alone(
    document: dict[str, Any],
) -> None:
    page, policy = render_page(document)
    assert not re.search(r"<script|<img|<link|@import|url\(|\bon\w+=|style=", page)
    assert set(re.findall(r'(?:href|src)="([^#"][^"]*)"', page)) == {"/v1/openapi.json"}
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "unsafe" not in policy


def test_the_commands_can_be_typed(page: str) -> None:
    typed = [unescape(found) for found in re.findall(r"<pre>(curl.*?)</pre>", page)]
    bodies = {}
    for command in typed:
        words = shlex.split(command)
        if "-d" in words:
            bodies[words[-1].removeprefix("$JUDGE")] = json.loads(words[words.index("-d") + 1])
    assert bodies == EXAMPLES
    assert len(typed) == 4


def test_texts_are_escaped(document: dict[str, Any]) -> None:
    hostile = deepcopy(document)
    evil = "<script>alert(1)</script>`<b>`"
    hostile["info"]["version"] = evil
    hostile["paths"]["/v1/score"]["post"]["summary"] = evil
    schema = hostile["components"]["schemas"]["ScoreRequest"]
    schema["properties"][evil] = {"enum": [evil], "description": evil, "default": evil}
    html = render_page(hostile)[0]
    assert "<script" not in html
    assert "<b>" not in html
