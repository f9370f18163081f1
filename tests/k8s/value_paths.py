"""The chart's values by their paths; `python -m tests.k8s.value_paths` keeps those of a release."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .chart import CHART, HERE

FILE = HERE / "released.txt"
SCHEMA: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text())


def paths(schema: Mapping[str, Any] = SCHEMA) -> dict[str, str]:
    """What stands for each value now, "" where it is one; `*` is any name."""
    return dict(_below(schema, schema["definitions"], ()))


def _below(one: Any, definitions: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if "$ref" in one:
        one = definitions[one["$ref"].rpartition("/")[2]]
    if at:
        yield ".".join(at), one.get("const", "").removeprefix("nothing: it is ")
    further = one.get("additionalProperties")
    named = {"*": further} if isinstance(further, dict) and "type" not in further else {}
    for name, value in {**one.get("properties", {}), **named}.items():
        yield from _below(value, definitions, (*at, name))


if __name__ == "__main__":
    FILE.write_text("".join(f"{path}\n" for path, moved in paths().items() if not moved))
