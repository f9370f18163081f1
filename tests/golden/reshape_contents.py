"""Take what runs no longer tell of changes out of kept documents; nothing else differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.golden.compare import FOLDER, text_of

GONE = {
    "dry_run": ("data", "outdated"),
    "dry_run_again": ("data", "outdated"),
    "summary": ("data",),
    "show": ("became", "earlier"),
    "export": ("became",),
}
_SAME: tuple[Any, ...] = ("same", [], {"outputs": {}})


def without(value: Any, names: tuple[str, ...]) -> Any:
    """A document without these fields, each of which said that nothing changed."""
    if isinstance(value, list):
        return [without(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    for name in names:
        told = value.get(name, "same")
        if isinstance(told, dict):
            counts = {told[key]["count"] for key in ("changed", "new", "gone")}
            assert counts == {0}, told
            told = {"outputs": told["outputs"]}
        assert told in _SAME, (name, told)
    return {key: without(one, names) for key, one in value.items() if key not in names}


def main() -> None:
    """Write the documents anew."""
    for file in sorted(Path(FOLDER).glob("*/*.json")):
        if names := GONE.get(file.stem.partition(".")[0]):
            document = json.loads(file.read_text(encoding="utf-8"))
            told = text_of(without(document, names)) + "\n"
            file.write_text(told, encoding="utf-8")


main()
