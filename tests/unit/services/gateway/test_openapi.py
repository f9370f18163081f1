"""The OpenAPI document of the Judge service: kept as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from editjudge_services.gateway import schemas
from editjudge_services.gateway.openapi import make_openapi
from editjudge_services.gateway.schemas import JsonModel

from ....golden.text import read_kept

KEPT = Path(__file__).with_name("openapi.json")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return make_openapi()


def test_the_document_is_the_one_that_is_kept(document: dict[str, Any]) -> None:
    described = {name: part for name, part in document.items() if name != "info"}
    text = json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert text == read_kept(KEPT, text), "docs/explanation/versions.md says what may change"


def test_no_body_is_forgotten(document: dict[str, Any]) -> None:
    declared = {
        name
        for name, kind in vars(schemas).items()
        if isinstance(kind, type) and issubclass(kind, JsonModel) and kind is not JsonModel
    }
    assert declared <= document["components"]["schemas"].keys()


def test_what_is_sent_is_described_field_by_field(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("ScoreRequest", "EncodedEdit", "EncodedImage", "ItemFlaw", "Protocol", "PanelReply"):
        fields = schemas[name]["properties"]
        assert all(field.get("description") for field in fields.values()), name
    served = schemas["ServedDimension"]["properties"]["served"]
    assert served["description"] == ("Whether every judge and specialist that the dimension needs is available.")
