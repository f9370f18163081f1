"""What is kept of a run: all that commands say of it as JSON, without what differs by machine.

Versions, times, ports and folders are replaced here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from editjudge.cli import main
from editjudge.panel.calls import to_canonical_json
from editjudge.storage.database import Database
from editjudge.storage.schema import CALLS

from .cases import Case
from .services import served

REPEATS = 2
_PLACE = {"model", "item", "dimension"}
# Fields that are another each time, or tell what came first.
_VARYING = {"time", "edits_per_second", "seconds_left", "seconds", "first_failure", "first"}
_VERSION = re.compile(r"((?:^|\|)[\w-]+:)\d+\.\d+[\w.+-]*(?=\||$)")
_DIGEST = re.compile(r"sha256:([0-9a-f]{12})[0-9a-f]{52}")
_PORT = re.compile(r"(127\.0\.0\.1):\d+")


async def taken(case: Case, folder: Path) -> dict[str, Any]:
    """Make the run of a case below a folder; documents by name."""
    found = await judged(case, folder)
    found |= await asyncio.to_thread(told, case, folder / "run")
    return normalised(found, folder)


async def judged(case: Case, folder: Path, *flags: Any) -> dict[str, Any]:
    """What is said before, while and after the run of a case is made."""
    arguments = case.arguments(folder)
    found: dict[str, Any] = {}

    async def keep(name: str, verb: str, *of: Any) -> None:
        code, said = await asyncio.to_thread(spoken, verb, *of)
        found[name] = {"exit_code": code, "said": said}

    judges = ["--judge", "judge", "--judge", "second", "--rounds", REPEATS]
    async with served(folder, case.models) as config:
        more = [*judges, "--config", config, "--json"]
        run = ["run", *arguments, "--out", folder / "run", *flags, *more]
        await keep("validate", "validate", *arguments, *more)
        await keep("dry_run", *run, "--dry-run")
        await keep("run", *run)
        await keep("dry_run_again", *run, "--dry-run")
    events = found["run"]["said"]
    found["run"]["said"] = [one for one in events if one["event"] not in {"started", "progress"}]
    for one in found["run"]["said"]:
        # Of equal calls the second is shared where the first is still made, and else known.
        one.get("usage", {}).pop("known", None)
    return found


def told(case: Case, out: Path) -> dict[str, Any]:
    """What commands say of a run that is there; nobody is called."""
    found: dict[str, Any] = {}
    for name, flags in {"": (), **dict(case.summaries)}.items():
        code, said = spoken("summary", out, *flags, "--json")
        if name:
            said = {"protocol": said["protocol"], "models": said["models"]}
        found["_".join(filter(None, ("summary", name)))] = {"exit_code": code, "said": said}
    code, said = spoken("rescore", out, "--json")
    assert {one["changed"] for one in said} == {0}, "rescore changes something"
    found["rescore"] = {"exit_code": code, "said": said}
    return found | lasting(case, out)


def lasting(case: Case, out: Path) -> dict[str, Any]:
    """What is told of a run whose benchmark has another version today, too."""
    found: dict[str, Any] = {}
    found["show"] = {item: spoken("show", out, item, "--json")[1] for item in case.shown}
    file = out.parent / "export.jsonl"
    spoken("export", out, "--format", "jsonl", "--out", file)
    rows = [json.loads(text) for text in file.read_text().splitlines()]
    found["ledger"] = ledger(out / "run.sqlite")
    for said in found["show"].values():
        said["edits"] = [edit for edit in said["edits"] if edit["model"] == "ours"]
    shown = [v for said in found["show"].values() for e in said["edits"] for v in e["verdicts"]]
    made_with = {row.pop("versions") or "" for row in [*rows, *shown]} - {""}
    # In an order that is no version's: several releases have made a run that is stored.
    found["versions"] = sorted(made_with, key=lambda text: (_VERSION.sub(r"\1", text), text))
    found["signatures"] = _signatures([*rows, *shown])
    found["export"] = {_row_name(row): _told_briefly(row) for row in rows}
    assert len(found["export"]) == len(rows), "two rows of one name"
    for said in found["show"].values():
        for edit in said["edits"]:
            edit["verdicts"] = {
                verdict["dimension"]: {n: one for n, one in verdict.items() if n not in _PLACE}
                for verdict in edit["verdicts"]
            }
    return found


def _signatures(rows: list[dict[str, Any]]) -> dict[str, list[list[str]]]:
    """By dimension the signatures of its rows, field by field; rows keep which of them it is."""
    found: dict[str, list[list[str]]] = {}
    texts = {(row["dimension"], row["signature"]) for row in rows if row["signature"]}
    for dimension, text in sorted(texts):
        found.setdefault(dimension, []).append(text.split("|"))
    for row in rows:
        if row["signature"]:
            row["signature"] = found[row["dimension"]].index(row["signature"].split("|"))
    return found


def _told_briefly(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what its name says, what is nothing, and evidence of the second model."""
    left_out = _PLACE | ({"evidence", "calls"} if row["model"] == "theirs" else set())
    return {n: one for n, one in row.items() if one not in (None, []) and n not in left_out}


def _row_name(row: Mapping[str, Any]) -> str:
    return " ".join(str(row[name] or "-") for name in ("model", "item", "dimension"))


def ledger(file: Path) -> dict[str, Any]:
    """Calls by key: the service's identity, the form and whether it abstained."""
    calls = []
    with contextlib.closing(Database(file, read_only=True)) as database:
        for row in database.rows(CALLS, "WHERE dropped = 0 ORDER BY key", long=True):
            document = database.compressor.decompress(row[7])
            abstained = row[4] is None and row[8] is None
            told = (
                document["service"],
                to_canonical_json(document["form"]),
                document.get("repeat", 0),
            )
            calls.append((row[2].hex(), *told, abstained))
    services = sorted({service for _, service, *_ in calls})
    forms = sorted({form for _, _, form, *_ in calls})
    return {
        "services": services,
        "forms": [json.loads(form) for form in forms],
        "calls": {
            key: f"service {services.index(service)}, form {forms.index(form)},"
            f" repeat {repeat}{', abstained' * abstained}"
            for key, service, form, repeat, abstained in calls
        },
    }


def spoken(verb: str, *arguments: Any) -> tuple[int, Any]:
    """A command in this process: its exit code and its JSON, or JSON lines, or its text."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([verb, *map(str, arguments)])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    text = out.getvalue()
    assert text or verb == "export", err.getvalue()
    try:
        return code, json.loads(text)
    except ValueError:
        return code, [_parsed(one) for one in text.splitlines()]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def normalised(value: Any, folder: Path) -> Any:
    """Without what is another on each machine or at each time."""
    if isinstance(value, dict):
        return {
            _text(key, folder): "<varies>" if key in _VARYING else normalised(one, folder)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [normalised(one, folder) for one in value]
    return _text(value, folder) if isinstance(value, str) else value


def _text(text: str, folder: Path) -> str:
    text = _DIGEST.sub(r"sha256:\1", text)
    return _VERSION.sub(
        r"\1<version>", _PORT.sub(r"\1:<port>", text.replace(str(folder), "<folder>"))
    )
