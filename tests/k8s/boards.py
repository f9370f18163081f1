"""Dashboards against Grafana's own models; run by the Python of .venv-k8s.

Reads dashboards as lines of JSON and writes a line for each: the fields that Grafana does not know.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard


def find_losses(given: Any, kept: Any, at: str = "") -> Iterator[str]:
    """What of a value is another, or not there, once Grafana's models have read it."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            yield from find_losses(value, kept.get(key), f"{at}.{key}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, (value, other) in enumerate(zip(given, kept, strict=True)):
            yield from find_losses(value, other, f"{at}[{number}]")
    elif given != kept:
        yield at


if __name__ == "__main__":
    plugins.register_default_plugins()
    for line in sys.stdin:
        board = json.loads(line)
        read = json.loads(JSONEncoder().encode(dashboard.Dashboard.from_json(board)))
        sys.stdout.write(json.dumps(list(find_losses(board, read))) + "\n")
