"""The HTTP routes as an OpenAPI document."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from editjudge.base.contracts import TOKENS_HEADER
from editjudge.base.signature import package_version
from editjudge.service import ScoreReport

from .schemas import BatchReply, BatchRequest, ErrorReply, PanelReply, Refusal, ScoreRequest, ServedDimension

_REFERENCE = "#/components/schemas/"
_SCORE = json.loads(Path(__file__).with_name("templates").joinpath("example.json").read_text())
EXAMPLES: Mapping[str, Any] = {"/v1/score": _SCORE, "/v1/score:batch": {"requests": [_SCORE]}}
"""An example body for each route that takes one: a grey square of 32 pixels, edited to be red."""
_REFUSAL = Refusal(code="INVALID_ARGUMENT", message="edit.mask: …", field="edit.mask", fix="…")
_PATHS: tuple[tuple[str, str, str, type[BaseModel] | None, type[BaseModel]], ...] = (
    ("/v1/score", "post", "Judge one edit.", ScoreRequest, ScoreReport),
    ("/v1/score:batch", "post", "Judge several edits.", BatchRequest, BatchReply),
    ("/v1/dimensions", "get", "List the dimensions.", None, ServedDimension),
    ("/v1/panel", "get", "List the judges and specialists.", None, PanelReply),
)
_PATTERN: dict[str, Any] = {
    "name": "pattern",
    "in": "query",
    "description": "An id or glob; repeat it for several. Without it all dimensions are listed.",
    "schema": {"type": "array", "items": {"type": "string"}},
    "example": ["core.psnr.*"],
}


def make_openapi() -> dict[str, Any]:
    """Describe the routes as an OpenAPI 3.1 document."""
    models = {m for *_, body, result in _PATHS for m in (body, result) if m is not None}
    models.add(ErrorReply)
    keys, definitions = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda m: m.__name__)],
        ref_template=f"{_REFERENCE}{{model}}",
    )
    schemas = {model: keys[model, "validation"] for model in models}
    error = _content(schemas[ErrorReply], ErrorReply(error=_REFUSAL).model_dump())
    paths: dict[str, Any] = {}
    for path, method, summary, body_model, result in _PATHS:
        schema = schemas[result]
        if result is ServedDimension:
            schema = {"type": "array", "items": schema}
        responses: dict[str, Any] = {
            "200": {"description": "the answer", **_content(schema)},
            "4XX": {"description": "the field that is wrong, and how to fix it", **error},
        }
        operation: dict[str, Any] = {"summary": summary, "responses": responses}
        if body_model is not None:
            body = _content(schemas[body_model], EXAMPLES[path])
            operation["requestBody"] = {"required": True, **body}
            description = "tokens that judges used for the request"
            tokens = {"description": description, "schema": {"type": "integer"}}
            responses["200"]["headers"] = {TOKENS_HEADER: tokens}
        if result is ServedDimension:
            operation["parameters"] = [_PATTERN]
        paths[path] = {method: operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "editjudge", "version": package_version("editjudge")},
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }


def _content(schema: Mapping[str, Any], example: Any = None) -> dict[str, Any]:
    examples = {} if example is None else {"example": example}
    return {"content": {"application/json": {"schema": schema, **examples}}}


@cache
def render_openapi() -> str:
    """The document as JSON."""
    return json.dumps(make_openapi())
