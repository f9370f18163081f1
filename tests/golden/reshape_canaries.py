"""Take the fields of canaries out of the kept documents: `python -m tests.golden.reshape_canaries`.

Each of them is empty or zero in all documents: nothing else may be lost.
"""

from __future__ import annotations

import json
from typing import Any

from .compare import FOLDER, text_of

GONE = ("summary", "run", "dry_run", "dry_run_again")
FIELDS = ("watched", "drift", "canaries")


def without(value: Any) -> Any:
    """The same without these fields, which say nothing."""
    if isinstance(value, list):
        return [without(one) for one in value]
    if not isinstance(value, dict):
        return value
    gone = [value[name] for name in FIELDS if name in value]
    assert all(not said or not any(said.values()) for said in gone), gone
    return {name: without(one) for name, one in value.items() if name not in FIELDS}


for name in GONE:
    for file in sorted(FOLDER.rglob(f"{name}.json")):
        text = file.read_text(encoding="utf-8")
        document = json.loads(text)
        assert text == text_of(document) + "\n", file
        file.write_text(text_of(without(document)) + "\n", encoding="utf-8")
