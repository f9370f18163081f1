"""Releases with every oddity that is known of them, read as they stand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.view import RunView
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.registry import load_benchmarks

from ..golden.cases import CASES, Case, CaseData, co_edit, draw_picture, i2i, kris, omni_iie
from ..golden.cases import core as core_items
from ..golden.run_lines import run_verb
from ..golden.services import serve_models
from ..unit.benchmarks.gie import release as gie_made

# By item: the field that the data spoilt, and a word of the reason.
Spoilt = dict[str, tuple[str, str]]


def gie_release(folder: Path) -> tuple[CaseData, Spoilt]:
    records: list[dict[str, Any]] = [
        gie_made.record(image=f"/p/{index}.jpg", edit_instruction=f"Do {index}.") for index in range(6)
    ]
    records[0]["edit_instruction"] = " "
    records[1]["evaluation_question"] = ""
    records[2]["object_mask"] = None
    records[3]["edit_type"] = "Scene"
    file = gie_made.write_release(folder / "data", records, indent=None)
    (file.parent / "p" / "4.jpg").unlink()
    return CaseData(file, {str(index): f"{index}.png" for index in range(6)}), {
        "0": ("instruction", "edit_instruction: is blank"),
        "1": ("questions", "evaluation_question: is blank"),
        "2": ("mask", "object_mask: is missing"),
        "3": ("edit_type", "edit_type: 'Scene' is none of"),
        "4": ("source", "no such file"),
    }


def omni_release(folder: Path) -> tuple[CaseData, Spoilt]:
    made = omni_iie(folder)
    single = json.loads((made.data / "final_dataset.json").read_text())
    pair = single[0]["qa_pairs"][0]
    single[0]["qa_pairs"] = [pair, {"question": " ", "correct_answer": "Yes"}]
    single[1]["qa_pairs"] = [{"question": "Is it?", "correct_answer": ""}]
    single[2]["modification_text"] = ""
    (made.data / "final_dataset.json").write_text(json.dumps(single))
    (made.data / "files/sampled_datasets/gqa/0001.jpg").unlink()
    (made.data / "files/masks/gqa/0003_1_target.png").unlink()
    return made, {
        "coco2017val/0001_high": ("questions", "no pair has a question and an answer"),
        "sharegpt4v/0001_low": ("instruction", "modification_text: is blank"),
        "gqa/0001_1": ("source", "no such file"),
        "gqa/0001_2": ("source", "no such file"),
        "gqa/0003_1": ("mask", "no such file"),
    }


def kris_release(folder: Path) -> tuple[CaseData, Spoilt]:
    made = kris(folder)
    file = made.data / "biology" / "annotation.json"
    records = json.loads(file.read_text())
    records["1"] |= {"ins_en": " ", "explain_fr": "x"}
    records["2"]["explain_en"] = None
    records["3"]["explain_en"] = ["not", "a", "text"]
    file.write_text(json.dumps(records))
    (made.data / "viewpoint_change" / "1_gt.jpg").unlink()
    (made.data / "count_change" / "2.jpg").unlink()
    return made, {
        "biology/1": ("instruction", "ins_en: is blank"),
        "biology/3": ("hint", "explain_en: "),
        "viewpoint_change/1": ("target", "no such file"),
        "count_change/2": ("source", "no such file"),
    }


def lines_of(made: CaseData, spoilt: dict[str, dict[str, Any]]) -> None:
    lines = [json.loads(line) for line in made.data.read_text().splitlines()]
    lines = [{**line, **spoilt.get(line["id"], {})} for line in lines]
    made.data.write_text("\n".join(map(json.dumps, lines)))


def core_own(folder: Path) -> tuple[CaseData, Spoilt]:
    made = core_items(folder)
    question = {"question": "?", "answer": "a", "options": 3}
    lines_of(
        made,
        {
            "full": {"questions": [question]},
            "plain": {"instruction": " "},
            "facts": {"source": "gone.png"},
            "photo": {"mask": "gone.png"},
            "grey": {"target_text": "\t"},
            "magenta": {"target": "gone.png"},
        },
    )
    return made, {
        "full": ("questions", "`options` of a question is a list of texts, not 3"),
        "plain": ("instruction", "instruction: is blank"),
        "facts": ("source", "no such file"),
        "photo": ("mask", "no such file"),
        "grey": ("target_text", "target_text: is blank"),
        "magenta": ("target", "no such file"),
    }


def i2i_own(folder: Path) -> tuple[CaseData, Spoilt]:
    made = i2i(folder)
    two = ["source.png", "gone.png"]
    lines_of(
        made,
        {
            "se-full": {"hint": " "},
            "se-grey": {"target_text": ""},
            "se-plain": {"instruction": "\n"},
            "me-full": {"sources": two},
        },
    )
    return made, {
        "se-full": ("hint", "hint: is blank"),
        "se-grey": ("target_text", "target_text: is blank"),
        "se-plain": ("instruction", "instruction: is blank"),
        "me-full": ("source", "no such file"),
    }


def co_edit_own(folder: Path) -> tuple[CaseData, Spoilt]:
    made = co_edit(folder)
    lines_of(made, {"custom": {"mask": "gone.png"}, "text": {"instruction": " "}, "style": {"source": "gone.png"}})
    return made, {
        "custom": ("mask", "no such file"),
        "text": ("instruction", "instruction: is blank"),
        "style": ("source", "no such file"),
    }


MAKE: dict[str, Callable[[Path], tuple[CaseData, Spoilt]]] = {
    "gie": gie_release,
    "omni_iie": omni_release,
    "kris": kris_release,
    "core": core_own,
    "i2i": i2i_own,
    "co_edit": co_edit_own,
}
CASE: dict[str, Case] = {case.benchmark: case for case in reversed(CASES)}


def rows(out: Path) -> dict[str, Row]:
    with RunView(out) as view:
        return {row.item.id: row for row in view.rows()}


def because(row: Row, why: str) -> set[str]:
    """The dimensions that the data spoilt."""
    return {name for name, outcome in row.outcomes.items() if outcome.status == "unscored" and why in outcome.reason}


@pytest.mark.parametrize("name", MAKE)
async def test_an_oddity_costs_the_dimensions_that_it_touches(tmp_path: Path, name: str) -> None:
    made, spoilt = MAKE[name](tmp_path)
    for seed, file in enumerate(made.outputs.values(), 700):
        if not (tmp_path / "ours" / file).exists():
            draw_picture(tmp_path / "ours" / file, seed, CASE[name].size)
    given = [name, "--data", made.data, "--outputs", f"ours={tmp_path / 'ours'}", *made.more]
    async with serve_models(tmp_path, CASE[name].models) as config:
        more = ["--config", config, "--json"]
        code, checked = await asyncio.to_thread(run_verb, "validate", *given, *more)
        assert checked["items"] == len(made.outputs)
        told = "\n".join(one["what"] for one in checked["problems"])
        for item, (_, why) in spoilt.items():
            assert any(line.startswith(f"{item}: ") and why in line for line in told.splitlines())
        assert code == 2, "a file is not there"
        out = tmp_path / "run"
        run = ["run", *given, "--out", out, *more]
        code, said = await asyncio.to_thread(run_verb, *run)
        assert code == 0, [one for one in said if one["event"] == "finished"]
        noted = " ".join(one["text"] for one in said if one["event"] == "note")
        assert f"data: {len(spoilt):,} items are judged in part only" in noted
        code, again = await asyncio.to_thread(run_verb, *run, "--dry-run")
        absent = {"lpips.alex", "ocr.got"}  # no model of the case is these
        assert set(again["calls"]) <= absent, "nothing is left to do"
    found = rows(out)
    assert sorted(found) == sorted(made.outputs), "no id shifts"
    for item, (field, why) in spoilt.items():
        row: Any = found[item]
        lost = because(row, why)
        scored = {n for n, o in row.outcomes.items() if o.status == "scored"}
        # Of an edit of the whole image all of Co-EditEval looks at the source.
        assert bool(scored) is (item != "style"), (item, lost)
        assert bool(lost) is (field in READ.get(name, FIELDS)), (item, field, lost)
    whole = [row for item, row in found.items() if item not in spoilt]
    assert not any(because(row, why) for row in whole for _, why in spoilt.values())
    code, table = run_verb("summary", out, "--json")
    assert code == 0
    assert table["items"] == len(made.outputs)
    # What nobody was asked about is told by export and show too.
    run_verb("export", out, "--format", "jsonl", "--out", tmp_path / "rows.jsonl")
    exported = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    for item, (_, why) in spoilt.items():
        due = because(found[item], why) & set(BENCHMARKS[name])
        named = {r["dimension"] for r in exported if r["item"] == item and why in str(r["reason"])}
        assert due <= named, item
        if item == "style":  # nothing of it was judged, so there is nothing to show
            continue
        shown = run_verb("show", out, item, "--json")[1]
        assert due <= shown["spoilt"].keys()


BENCHMARKS = {name: [d.id for d in benchmark.rules().dimensions] for name, benchmark in load_benchmarks().items()}
FIELDS = {"source", "mask", "target", "target_text", "hint", "instruction", "questions"}
# GIE-Bench shows its judge no instruction, Omni IIE Bench no source: there nothing is lost.
READ = {"gie": FIELDS - {"instruction", "edit_type"}, "omni_iie": {"mask", "target", "questions", "instruction"}}
