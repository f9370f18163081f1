"""What a results page shows, made up: as many edits as wanted, and texts that attack."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image as Pil
from PIL import ImageDraw

from editjudge.report.page import dump_script_json, render_page

MODELS = ("aurora-edit", "brushwork-2", "chisel")
TASKS = ("object removal", "style transfer", "text change")
CHUNK = 50
DIMENSIONS: tuple[dict[str, Any], ...] = (
    {"id": "core.ssim.source.outside", "title": "ssim.source.outside", "range": [0, 1]},
    {"id": "core.follows", "title": "follows", "range": [1, 5]},
    {"id": "core.psnr.source.outside", "title": "psnr.source.outside", "range": [0, None],
     "unit": "dB"},
    {"id": "core.text_content_accuracy", "title": "text_content_accuracy", "range": [0, 1]},
    {"id": "core.lpips", "title": "lpips", "range": [0, 1], "higher_is_better": False},
)  # fmt: skip
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "</script><script>window.hacked = 1</script> \u202eright to left\u202c "
    "javascript:alert(1) {{ 7 * 7 }} \u0007\u200b\u2028end"
)


@dataclass
class Example:
    """A page's contents, as plain data."""

    report: dict[str, Any]
    edits: dict[str, Any]
    details: dict[str, dict[str, Any]]
    pictures: dict[str, str] = field(default_factory=dict)


def example(
    items: int = 12,
    models: tuple[str, ...] = MODELS,
    instruction: Callable[[int], str] = lambda i: f"Make the circle number {i} blue, please",
    reply: Callable[[int], str] = lambda e: f'{{"reason": "edit {e} is good", "score": 4}}',
    seed: int = 7,
) -> Example:
    """Items times models edits on five dimensions."""
    chance = random.Random(seed)
    count = items * len(models)
    item = [edit // len(models) for edit in range(count)]
    model = [edit % len(models) for edit in range(count)]
    made = Example(_report(models, count), {}, {})
    made.pictures = {f"{n:016x}": _picture(n) for n in range(16)} | {"f" * 16: _mask()}
    values, status, kind = _judged(count, model, chance)
    made.edits = {
        "items": {
            "id": [f"set/{i:04d}" for i in range(items)],
            "run": [0] * items,
            "task": [TASKS[i % 3] for i in range(items)],
            "instruction": [instruction(i) for i in range(items)],
            "target_text": ["SUNNY DAY" if i % 3 == 2 else None for i in range(items)],
            "sources": [[f"{i % 4:016x}"] for i in range(items)],
            "mask": ["f" * 16 if i % 2 == 0 else None for i in range(items)],
            "target": [f"{4 + i % 4:016x}" if i % 4 == 1 else None for i in range(items)],
        },
        "item": item,
        "model": model,
        "picture": [None if e % 11 == 10 else f"{4 + e % 12:016x}" for e in range(count)],
        "missing": ["no file of this name" if e % 11 == 10 else None for e in range(count)],
        "values": values,
        "status": status,
        "kind": kind,
    }
    _fill_table(made, models)
    for block in range(-(-count // CHUNK)):
        made.details[f"detail-{block}"] = _block(made, block, reply)
    made.report["chunks"] = len(made.details)
    return made


def _report(models: tuple[str, ...], count: int) -> dict[str, Any]:
    plain = {"asks": "how much stays as it was", "higher_is_better": True, "unit": "",
             "source": "a paper", "prompts": None}  # fmt: skip
    return {
        "format": 1, "version": "1", "title": "Results of an example", "mode": "file",
        "made": "2026-11-22T17:00:00+00:00", "editjudge": "0.0", "introduction": [],
        "warnings": ["2 items have changed since they were judged"],
        "runs": [{"name": "out/run", "benchmark": "core", "title": "Core", "protocol": "core.1",
                  "switches": [], "items": count, "prompts": "own", "created": "2026-11-20",
                  "editjudge": "0.0", "judges": ["judge"], "rounds": 1,
                  "services": {"generalist.judge": "Qwen3-VL@abc"}, "data": "items.jsonl",
                  "notes": []}],
        "models": [{"name": name, "run": 0, "about": ""} for name in models],
        "dimensions": [{**plain, **each} for each in DIMENSIONS],
        "tables": [], "figures": [{"title": "radar", "note": "", "svg": _SVG}],
        "chunk": CHUNK, "chunks": 0, "data": "data", "pictures": {"size": 512},
    }  # fmt: skip


_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 120"><polygon fill="none" '
    'stroke="#0072B2" points="100,10 180,70 60,110"/><text x="80" y="70">SSIM</text></svg>'
)


def _judged(count: int, model: list[int], chance: random.Random) -> tuple[Any, Any, Any]:
    values: list[Any] = []
    letters, kinds = [], []
    for number, dimension in enumerate(DIMENSIONS):
        row: list[float | None] = []
        status, kind = "", ""
        for edit in range(count):
            better = 0.12 * (2 - model[edit])
            share = min(1.0, max(0.0, chance.gauss(0.55 + better, 0.15)))
            value = {1: float(round(1 + 4 * share)), 2: 10 + 30 * share}.get(number, share)
            letter, why = "S", " "
            if edit % 11 == 10:
                letter = "M"
            elif number == 1 and edit % 7 == 3:
                letter, why = "U", "aurd"[(edit // 7) % 4]
            elif number == 3 and (edit // 3) % 3 != 2:
                letter = "N"
            elif number == 4 and edit % 13 == 5:
                letter = "F"
            row.append(round(value, 5) if letter == "S" else None)
            status += letter
            kind += why
        values.append(row)
        letters.append(status)
        kinds.append(kind if dimension["id"] == "core.follows" else None)
    return values, letters, kinds


def _fill_table(made: Example, models: tuple[str, ...]) -> None:
    columns = [
        {"id": each["id"], "group": "Kept" if n != 1 else "Asked", "title": each["title"],
         "higher_is_better": each.get("higher_is_better", True), "source": "a paper", "decimals": 3,
         "dimensions": [each["id"]]}
        for n, each in enumerate(DIMENSIONS)
    ]  # fmt: skip
    rows = [
        {"model": m, "cells": [_cell(made, m, d) for d in range(len(DIMENSIONS))]}
        for m in range(len(models))
    ]
    for number, dimension in enumerate(DIMENSIONS):
        best_first = dimension.get("higher_is_better", True)
        cells = [row["cells"][number] for row in rows]  # type: ignore[index]
        there = [cell for cell in cells if cell["value"] is not None]
        order = sorted(there, key=lambda cell: cell["value"], reverse=best_first)
        if order:
            order[0]["lead"] = "best" if number else "sure"
    made.report["tables"] = [
        {"title": "Core, core.1", "about": ["judged by Qwen3-VL (judge); run of 2026-11-20"],
         "runs": [0], "columns": columns, "rows": rows,
         "published": [{"source": "Table 2", "judge": "GPT-4o", "note": "", "models": {
             "Older-Edit": {each["id"]: value for each, value in zip(
                 DIMENSIONS, [0.7, 3.1, None, 0.5, 0.2], strict=True) if value is not None}}}],
         "notes": ["not served: 27 dimensions"]}
    ]  # fmt: skip


def _cell(made: Example, model: int, dimension: int) -> dict[str, Any]:
    edits = [e for e, m in enumerate(made.edits["model"]) if m == model]
    letters = [made.edits["status"][dimension][e] for e in edits]
    values = [v for e in edits if (v := made.edits["values"][dimension][e]) is not None]
    asked = sum(letter != "N" for letter in letters)
    mean = sum(values) / len(values) if values else None
    half = 0.06 * abs(mean or 0)
    return {
        "value": mean, "text": "-" if mean is None else f"{mean:.3f}", "lead": "",
        "interval": mean and {"low": mean - half, "high": mean + half, "clusters": 4},
        "ends": "" if mean is None else f"{mean - half:.3f} – {mean + half:.3f}",
        "sd": None, "scored": len(values), "asked": asked, "imputed": 0,
        "capped": 0, "counts": {"scored": len(values), "missing_output": asked - len(values)},
        "reason": "", "signature": "sha256:00",
    }  # fmt: skip


def _block(made: Example, block: int, reply: Callable[[int], str]) -> dict[str, Any]:
    texts = ["You compare an edit with its source. The instruction was: ",
             "\nAnswer as JSON: reason, then score from 1 to 5.",
             "dimension=core.follows\nprotocol=core.1\nmodel=Qwen3-VL@abc",
             "Does the result follow the instruction?"]  # fmt: skip
    numbers: dict[str, int] = {text: number for number, text in enumerate(texts)}

    def known(text: str) -> int:
        if text not in numbers:
            numbers[text] = len(texts)
            texts.append(text)
        return numbers[text]

    edits: dict[str, Any] = {}
    items: dict[str, Any] = {}
    prompts: dict[str, Any] = {}
    calls: dict[str, Any] = {}
    count = len(made.edits["item"])
    for edit in range(block * CHUNK, min(count, (block + 1) * CHUNK)):
        item = made.edits["item"][edit]
        target = made.edits["items"]["target_text"][item]
        files = {"sources": [f"pictures/{item}.png"], "mask": None, "target": None}
        items[str(item)] = {"files": files, "hint": None, "extra": {"level": item}}
        prompts[f"sha256:{item}"] = {"system": None, "parts": [
            {"image": "sha256:1", "size": [256, 256], "name": "source"},
            {"image": "sha256:2", "size": [256, 256], "name": "result"},
            {"text": 0, "data": False},
            {"text": known(made.edits["items"]["instruction"][item]), "data": True},
            {"text": 1, "data": False}]}  # fmt: skip
        edits[str(edit)] = {"file": f"outputs/{edit}.png", "digest": "sha256:ab", "verdicts": [
            _verdict(made, edit, dimension, calls, reply, target)
            for dimension in range(len(DIMENSIONS))
            if made.edits["status"][dimension][edit] in "SUF"]}  # fmt: skip
    return {"texts": texts, "prompts": prompts, "calls": calls, "items": items, "edits": edits}


_CHANCES = {"1": 0.02, "2": 0.05, "3": 0.13, "4": 0.62, "5": 0.17}


def _verdict(
    made: Example, edit: int, dimension: int, calls: dict[str, Any],
    reply: Callable[[int], str], target: str | None,
) -> dict[str, Any]:  # fmt: skip
    letter = made.edits["status"][dimension][edit]
    judged = dimension == 1 and letter != "F"
    kinds = {"a": "abstained", "u": "unparsable", "r": "refused", "d": "degenerate"}
    kind = (made.edits["kind"][dimension] or " " * (edit + 1))[edit]
    key = f"sha256:{edit}-{dimension}"
    if judged:
        calls[key] = {
            "call": key, "judge": "generalist.judge", "model": "Qwen3-VL",
            "reply": {"text": reply(edit), "probabilities": dict(_CHANCES), "outside": 0.01},
            "prompt": f"sha256:{made.edits['item'][edit]}", "prompt_tokens": 812,
            "cached_tokens": 640, "completion_tokens": 24, "cost": None}  # fmt: skip
    return {
        "dimension": dimension,
        "status": {"S": "scored", "U": "unscored", "F": "failed"}[letter],
        "kind": kinds.get(kind),
        "value": made.edits["values"][dimension][edit],
        "reason": "the service was gone after 3 attempts" if letter == "F" else
                  "the reply holds no score" if letter == "U" else None,
        "imputed": False,
        "evidence": {
            "resized": "512x512 to 256x256",
            "capped": False,
            **({"question": "Does the result follow the instruction?"} if judged else {}),
            **({"read": "SUNY DAYS"} if dimension == 3 and target else {}),
        },
        "calls": [key] if judged else [],
        "signature": 2,
        "versions": 2,
    }  # fmt: skip


def _picture(number: int) -> str:
    """A scene of 96 by 72 pixels: number mod 4 is the source, the rest is how it was edited."""
    hues = ((196, 215, 232), (232, 214, 190), (206, 226, 204), (222, 206, 230))
    scene = Pil.new("RGB", (96, 72), hues[number % 4])
    pen = ImageDraw.Draw(scene)
    pen.rectangle((0, 48, 96, 72), fill=(120, 132, 110))
    colour = ((180, 60, 50), (50, 90, 190), (60, 60, 60), (230, 190, 60))[number // 4]
    pen.ellipse((30 + number, 18, 62 + number, 50), fill=colour)
    return _uri(scene, "WEBP")


def _mask() -> str:
    mask = Pil.new("L", (96, 72))
    ImageDraw.Draw(mask).ellipse((26, 14, 80, 54), fill=255)
    return _uri(mask, "PNG")


def _uri(picture: Pil.Image, kind: str) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def written(made: Example, folder: Path) -> Path:
    """The page as one file."""
    file = folder / "page.html"
    html = render_page(made.report, made.edits, made.details, made.pictures)
    file.write_text(html, encoding="utf-8")
    return file


def written_beside(made: Example, folder: Path) -> Path:
    """The page with its details and pictures in files beside it."""
    made.report["mode"] = "folder"
    (folder / "data").mkdir(parents=True)
    (folder / "pictures").mkdir()
    for name, chunk in made.details.items():
        text = f"editjudge.put({json.dumps(name)},{dump_script_json(chunk)});"
        (folder / "data" / f"{name}.js").write_text(text, encoding="utf-8")
    for name, uri in made.pictures.items():
        data = base64.b64decode(uri.partition(",")[2])
        (folder / "pictures" / f"{name}.webp").write_bytes(data)
    page = folder / "index.html"
    html = render_page(made.report, made.edits, mode="folder")
    page.write_text(html, encoding="utf-8")
    return page
