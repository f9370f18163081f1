"""What is kept of a run: all that commands say of it, as lines, without what differs by machine.

Versions, times, ports and folders are replaced here and nowhere else. What each dimension and
column is stands in the texts of rules, see `tests/unit/benchmarks/test_rules.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from editjudge.base.signature import Signature
from editjudge.cli import main
from editjudge.panel.calls import to_canonical_json
from editjudge.storage.database import Database
from editjudge.storage.schema import CALLS

from .cases import Case
from .services import serve_models
from .text import Section, brief, flat, unpack

REPEATS = 2
_VERSION = re.compile(r"((?:^|\|)[\w-]+:)\d+\.\d+[\w.+-]*(?=\||$)")
_DIGEST = re.compile(r"sha256:([0-9a-f]{12})[0-9a-f]{52}")
_PORT = re.compile(r"(127\.0\.0\.1):\d+")
Plain = dict[str, Any]


async def make_lines(case: Case, folder: Path) -> dict[str, Section]:
    """Make the run of a case below a folder; its lines by section."""
    before = await judge_case(case, folder)
    after = await asyncio.to_thread(read_run, case, folder / "run")
    return normalise({**after, **before}, folder)


async def judge_case(case: Case, folder: Path, *flags: Any) -> dict[str, Section]:
    """What is said before, while and after the run of a case is made."""
    arguments = case.arguments(folder)
    found: dict[str, Section] = {}

    async def keep(name: str, verb: str, *of: Any) -> None:
        code, said = await asyncio.to_thread(run_verb, verb, *of)
        if verb == "run" and name == "run":
            said = _events(said)
        found[name] = {"exit code": str(code), **flat(said)}

    judges = ["--judge", "judge", "--judge", "second", "--rounds", REPEATS]
    async with serve_models(folder, case.models) as config:
        more = [*judges, "--config", config, "--json"]
        run = ["run", *arguments, "--out", folder / "run", *flags, *more]
        await keep("validate", "validate", *arguments, "--json")
        await keep("dry run", *run, "--dry-run")
        await keep("run", *run)
        await keep("dry run again", *run, "--dry-run")
    return found


def _events(said: list[Plain]) -> Plain:
    """What a run said, without what is another each time."""
    notes = [one["text"] for one in said if one["event"] == "note"]
    (end,) = (one for one in said if one["event"] == "finished")
    for name in ("event", "time", "seconds", "seconds_left", "edits_per_second", "first_failure"):
        end.pop(name, None)
    # Of equal calls the second is shared where the first is still made, and else known.
    end["usage"].pop("known", None)
    for kind in end["unscored"].values():
        del kind["first"]
    verdicts = end.pop("verdicts").items()
    end["verdicts"] = {n: brief(counts) for n, counts in verdicts if "@" not in n}
    for model, cells in end["columns"].items():
        end["columns"][model] = {n: _cell(one) for n, one in cells.items() if "@" not in n}
    return {"note": {str(number): text for number, text in enumerate(notes, 1)}, **end}


def read_run(case: Case, out: Path) -> dict[str, Section]:
    """What commands say of a run that is there; nobody is called."""
    file = out.parent / "export.jsonl"
    run_verb("export", out, "--format", "jsonl", "--out", file)
    rows = sorted(map(json.loads, file.read_text().splitlines()), key=_name)
    assert len({*map(_name, rows)}) == len(rows), "two rows of one name"
    shown = {item: run_verb("show", out, item, "--json")[1] for item in case.shown}
    made_with = {row["versions"] for row in rows} - {None, ""}
    code, usual = run_verb("summary", out, "--json")
    del usual["start_time"]
    columns = _cells(usual)
    found = {
        "summary": {
            "exit code": str(code),
            "made with": " and ".join(sorted(made_with)),
            **flat({n: one for n, one in usual.items() if not isinstance(one, dict | list)}),
            **flat(usual["services"], "service"),
        },
        "services of dimensions": _services(rows, usual["services"]),
        "calls": ledger(out / "run.sqlite"),
        "verdicts": _verdicts(rows),
        "evidence": _evidence(rows, case.shown),
        "shown": {name: text for item, said in shown.items() for name, text in _show_lines(item, said)},
        "columns": columns,
        "agreement": dict(_agreement(out)) if any("@" in str(r["dimension"]) for r in rows) else {},
    }
    for name, flags in dict(case.summaries).items():
        code, said = run_verb("summary", out, *flags, "--json")
        # Only what the flags move.
        moved = {n: one for n, one in _cells(said).items() if columns.get(n) != one}
        found[f"columns, {name}"] = {"exit code": str(code), "protocol": said["protocol"], **moved}
    code, said = run_verb("rescore", out, "--json")
    found["rescore"] = {"exit code": str(code), **dict(_rescore_lines(said))}
    return found


def _name(row: Plain) -> str:
    return " ".join(str(row[name] or "-") for name in ("model", "item", "dimension"))


def _verdicts(rows: list[Plain]) -> Section:
    """By model, item and dimension: the value, or what there is instead; by judges in brackets."""
    lines: dict[str, str] = {}
    rounds: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        whole, _, member = _name(row).partition("@")
        if member:
            rounds[whole].append(f"{member} {_outcome(row)}")
        else:
            reason = f": {row['reason']}" if row["reason"] else ""
            lines[whole] = f"{_outcome(row)}{reason}"
    for name, members in rounds.items():
        lines[name] = f"{lines.get(name, '')} ({', '.join(members)})".strip()
    return lines


def _outcome(row: Plain) -> str:
    if row["status"] == "scored":
        return f"{brief(row['value'])}{' imputed' * row['imputed']}"
    return f"{row['status']} {row['kind'] or ''}".strip()


def _evidence(rows: list[Plain], shown: tuple[str, ...]) -> Section:
    """Of `ours`, and of `judge` in its first round; more of the items that are shown."""
    lines = {}
    for row in rows:
        evidence, is_shown = dict(row["evidence"] or {}), row["item"] in shown
        _, _, member = _name(row).partition("@")
        if not is_shown:
            evidence.pop("parts", None)
        judges = {"", "judge.1", *(["second.1"] if is_shown else [])}
        if row["model"] == "ours" and evidence and member in judges:
            lines |= flat(evidence, _name(row))
    return lines


def _show_lines(item: str, said: Plain) -> Iterator[tuple[str, str]]:
    """What `show` says of an item and of the edit by `ours`, and the calls of each verdict."""
    del said["questions"]  # `test_prompts` keeps them
    (edit,) = (one for one in said.pop("edits") if one["model"] == "ours")
    verdicts = edit.pop("verdicts")
    yield from flat({**said, "edit": edit}, item).items()
    for verdict in verdicts:
        if verdict["dimension"].endswith(".2"):
            continue
        for number, call in enumerate(verdict["calls"], 1):
            reply = {n: one for n, one in call.items() if one not in (None, 0)}
            for name in ("call", "prompt"):
                reply.pop(name, None)
            reply["judge"] = reply["judge"].partition("(")[0]
            yield f"{item} {verdict['dimension']} call {number}", brief(reply)


def _services(rows: list[Plain], usual: Mapping[str, str]) -> Section:
    """By dimension the services of its signatures, and how they are not as the run names them."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in (row for row in rows if row["signature"]):
        fields = Signature.parse(row["signature"]).fields
        found[row["dimension"]] |= {_service(*one, usual): None for one in fields}
    return {name: ", ".join(filter(None, sorted(texts))) for name, texts in sorted(found.items())}


def _service(name: str, text: str, usual: Mapping[str, str]) -> str:
    if name.partition(".")[0] in ("reads", "part"):
        asked = unpack("", text)
        repeat = asked.get(".repeat", "0")
        return f"round {int(repeat) + 1}" if ".repeat" in asked else ""
    if name not in usual:
        return ""
    own, named = unpack("", text).items(), unpack("", usual[name]).items()
    less, more = (sorted(f"{n[1:]}={one}" for n, one in each) for each in (named - own, own - named))
    return " ".join([name, *(["without", *less] if less else []), *(["with", *more] if more else [])])


def _cells(said: Plain) -> dict[str, str]:
    """By model and column the number, with the numbers by each judge in brackets."""
    lines = {}
    for model, cells in said["models"].items():
        for column, cell in cells.items():
            by = {judge: one[column] for judge, one in said["judges"].get(model, {}).items()
                  if column in one}  # fmt: skip
            told = {judge: one for judge, one in by.items() if one["scored"]}
            judges = "; ".join(f"{n} {_number(one)}, {one['scored']}" for n, one in told.items())
            lines[f"{model} {column}"] = f"{_cell(cell)}{f' ({judges})' if judges else ''}"
    return lines


def _number(cell: Plain) -> str:
    rounds = cell["rounds"] if cell["value"] is not None else []
    return brief(cell["value"]) + (f" by rounds {brief(rounds)}" if rounds else "")


def _cell(cell: Plain) -> str:
    """A number of a table, with all that travels with it."""
    parts = [_number(cell), f"{cell['scored']} of {cell['asked']}"]
    parts += [f"{count} {n}" for n, count in sorted(cell["counts"].items()) if n != "scored"]
    parts += [f"{cell[name]} {name}" for name in ("imputed", "capped") if cell[name]]
    parts += [f"sd {brief(cell['sd'])}"] if cell["sd"] is not None else []
    parts += ["other items"] * cell["other_items"]
    if interval := cell["interval"]:
        low, high, error, method = (interval[n] for n in ("low", "high", "error", "method"))
        ends = f"{brief(low)} to {brief(high)}, error {brief(error)}"
        why = interval["reason"] or ends
        parts.append(f"{method} over {interval['clusters']}: {why}")
    return ", ".join([*parts, *filter(None, [cell["reason"]])])


def _agreement(out: Path) -> Iterator[tuple[str, str]]:
    """What two judges, and the rounds of one, say of the same edits."""
    _, said = run_verb("agreement", out, "--json")
    for table in said["tables"]:
        for row in table["rows"]:
            if row["records"]:
                figures = {
                    n: one["reason"] if one["value"] is None else one["value"] for n, one in row["figures"].items()
                }
                name = f"{table['dimension']} by {row['who']}"
                yield name, f"of {row['records']} edits {brief(figures)}"


def _rescore_lines(said: list[Plain]) -> Iterator[tuple[str, str]]:
    for entry in said:
        assert entry["changed"] == 0, "rescore changes something"
        assert entry["before"] == entry["after"]
        if "@" not in entry["dimension"]:
            kept = f", {entry['kept']} kept: {entry['why_kept']}" if entry["kept"] else ""
            yield f"{entry['model']} {entry['dimension']}", f"{brief(entry['after'])}{kept}"


def ledger(file: Path) -> Section:
    """Whom calls name; by service and form how many, of which round, and a digest of their keys."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    services: dict[str, str] = {}
    with contextlib.closing(Database(file, read_only=True)) as database:
        for row in database.rows(CALLS, "WHERE dropped = 0 ORDER BY key", long=True):
            document = database.compressor.decompress(row[7])
            name = document["service"].partition("(")[0]
            assert services.setdefault(name, document["service"]) == document["service"]
            form = to_canonical_json(document["form"])
            abstained = ", abstained" * (row[4] is None and row[8] is None)
            repeat = document.get("repeat", 0) + 1
            keys[f"{name} {form} round {repeat}{abstained}"].append(row[2].hex())
    digests = {name: hashlib.sha256("".join(one).encode()).hexdigest() for name, one in keys.items()}
    return dict(sorted(services.items())) | {
        name: f"{len(keys[name])} calls, keys {digests[name][:8]}" for name in sorted(keys)
    }


def run_verb(verb: str, *arguments: Any) -> tuple[int, Any]:
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
        return code, [_parse(one) for one in text.splitlines()]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def normalise(document: Mapping[str, Section], folder: Path) -> dict[str, Section]:
    """Without what is another on each machine or at each time."""
    return {
        title: {_text(name, folder): _text(one, folder) for name, one in section.items()}
        for title, section in document.items()
    }


def _text(text: str, folder: Path) -> str:
    text = _DIGEST.sub(r"sha256:\1", text.replace(str(folder), "<folder>"))
    return _VERSION.sub(r"\1<version>", _PORT.sub(r"\1:<port>", text))
