"""Each benchmark from its data to its report: the verbs that a user types, in their order.

What numbers come of it is in `tests/golden/runs`, and what they rest on in `tests/unit`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editjudge.benchmarks.registry import load_benchmark

from ..fakes.openai import ScriptedOpenAi
from ..golden.cases import CASES, Case, CaseData, co_edit, gie, i2i, kris, omni_iie
from ..golden.services import serve_models
from ..unit.benchmarks.kris.release import picture as drawn
from .conftest import CommandResult, run_in_process, run_in_thread
from .test_run import command

USUAL = {case.benchmark: case for case in reversed(CASES)}


def cells(ran: CommandResult, model: str) -> dict[str, tuple[float | None, int, int]]:
    """By column the number, and of how many edits; without the benchmark's name."""
    row = ran.json["models"][model]
    return {name.partition(".")[2]: (one["value"], one["scored"], one["asked"]) for name, one in row.items()}


@pytest.mark.parametrize("case", USUAL.values(), ids=USUAL)
async def test_from_data_to_a_report(case: Case, tmp_path: Path) -> None:
    """Of `ours` an output is missing, one cannot be read, and for one the services fail."""
    arguments, out = case.arguments(tmp_path), tmp_path / "run"
    rows, page = tmp_path / "rows.jsonl", tmp_path / "report.html"
    async with serve_models(tmp_path, case.models) as config:
        more = ["--config", config, "--judge", "judge"]
        checked = await run_in_thread("validate", *arguments)
        assert (checked.code, "problems found" in checked.out) == (2, True), checked.out
        run = ["run", *arguments, "--out", out, *more]
        first = await asyncio.to_thread(command, *run)
        assert "ours: 1 output is missing" in first.err
        left = (await run_in_thread(*run, "--dry-run", "--json")).json["edits"]
    # Of core two specialists are not served, so all that can be read waits for them.
    failed = 16 if case.benchmark == "core" else 1
    assert (first.code, left) == ((3, failed) if case.models else (0, 0))
    rescored = (await run_in_thread("rescore", out, "--json")).json
    assert {one["changed"] for one in rescored} == {0}
    title = load_benchmark(case.benchmark).title
    shown = (await run_in_thread("summary", out, "--count-missing", "--common")).out
    for told in (title, "missing outputs count as the worst", "on which all models have a number"):
        assert told in shown
    assert case.shown[0] in (await run_in_thread("show", out, case.shown[0])).out
    assert "ours" in (await run_in_thread("compare", out, "ours", "theirs")).out
    assert (await run_in_thread("export", out, "--format", "jsonl", "--out", rows)).code == 0
    assert {json.loads(line)["model"] for line in rows.read_text().splitlines()} >= {"theirs"}
    assert (await run_in_thread("report", out, "--out", page)).code == 0
    assert title in page.read_text()


NOTHING = ("", "")
REFUSED: dict[str, tuple[Callable[[Path], CaseData], tuple[str, str], str, str]] = {
    # The data, a word of it and what stands there instead, further options, and what is said.
    "no code": (i2i, NOTHING, "--protocol official", "released neither code nor data"),
    "no code either": (co_edit, NOTHING, "--protocol official", "have released no code"),
    "no metric": (co_edit, NOTHING, "--without specialists --without reasoning",
                  "has no metric"),
    "no prompts": (kris, NOTHING, "--protocol official",
                   "the official prompts of kris are not imported"),
    "no prompts either": (gie, NOTHING, "--protocol official",
                          "editjudge prompts import gie PATH"),
    "another track": (i2i, ("basic_combination", "local_editing"), "",
                      "local_editing is single-image editing"),
    "no type": (co_edit, ("subject_customization", "colour"), "",
                "type: 'colour' is no type of edit"),
    "no root": (omni_iie, NOTHING, "", "--root OLD=NEW"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("verb_name", ["validate", "run"])
def test_what_is_refused(tmp_path: Path, name: str, verb_name: str) -> None:
    make, spoil, words, told = REFUSED[name]
    made, out = make(tmp_path), tmp_path / "run"
    if spoil != NOTHING:
        made.data.write_text(made.data.read_text().replace(*spoil))
    for file in made.outputs.values():
        drawn(tmp_path / "ours" / file)
    given = [make.__name__, "--data", made.data, "--outputs", f"ours={tmp_path / 'ours'}"]
    done = run_in_process(verb_name, *given, *words.split(), *(["--out", out] * (verb_name == "run")))
    assert done.code == 2
    assert told in done.err + done.out
    assert len(done.err.strip().splitlines()) <= 1 or verb_name == "run"
    assert not out.exists()


ASKED = ("--dimension", "core.psnr.source.whole", "--dimension", "kris.visual_quality")
TEMPORAL = "temporal_prediction.visual_quality"


@pytest.fixture
def kris_run(tmp_path: Path) -> list[Any]:
    """A run of a model that takes one image only: it has no output to sequences."""
    made = kris(tmp_path)
    for file in made.outputs.values():
        if not file.startswith("temporal"):
            drawn(tmp_path / "single" / file)
    given = ["kris", "--data", made.data, "--outputs", f"single={tmp_path / 'single'}"]
    return ["run", *given, "--out", tmp_path / "run", *ASKED]


def test_a_run_remembers_who_takes_one_image_only(kris_run: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_in_process(*kris_run).code == 3
    single = run_in_process("summary", out, "--json").json["models"]["single"]
    assert single[f"kris.{TEMPORAL}"]["counts"] == {"missing_output": 2}
    assert single["kris.natural_science.visual_quality"]["counts"] == {"not_served": 3}
    assert "kris.natural_science" not in single, "an average of what nobody asked for"
    assert run_in_process(*kris_run, "--single-image", "single").code == 3
    for _ in range(2):  # as the run was begun, and as it was resumed without saying it again
        assert cells(run_in_process("summary", out, "--json"), "single")[TEMPORAL] == (0, 2, 2)
        assert run_in_process(*kris_run).code == 3
    # By rules that have none for such models the run is shown all the same.
    other = run_in_process("summary", out, "--with", "missing_skipped", "--json")
    assert cells(other, "single")[TEMPORAL] == (None, 0, 2)
    # Two files are nobody's output, and no rule for missing ones is theirs.
    for name in ("1.png", "1.jpg"):
        drawn(tmp_path / "single" / "temporal_prediction" / name)
    assert "several outputs" in run_in_process(*kris_run).err
    found = run_in_process("summary", out, "--json").json["models"]["single"][f"kris.{TEMPORAL}"]
    assert (found["imputed"], found["counts"]) == (1, {"missing_output": 1, "scored": 1})
    for wrong, why in (
        (["--single-image", "theirs"], "no model 'theirs'"),
        (["--single-image", "single", "--with", "missing_skipped"], "has no rule for models"),
        (["--task", "temporal_prediction"], "reverse_prediction"),
    ):
        refused = run_in_process(*kris_run, *wrong)
        assert (refused.code, why in refused.err) == (2, True), refused.err


def test_the_papers_rows_stand_beside_the_runs(kris_run: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_in_process(*kris_run).code == 3
    plain = run_in_process("summary", out, "--json").json
    beside = run_in_process("summary", out, "--published", "--json").json
    printed = beside.pop("published")
    assert beside == {name: part for name, part in plain.items() if name != "published"}
    quality = "kris.attribute_perception.visual_quality"
    first, second = printed["tables"]
    assert (first["source"], first["judge"]) == ("table 2", "GPT-4o")
    assert first["models"]["GPT-4o"][quality] == 94.75
    assert second["models"]["InstructPix2Pix"][quality] == 67
    assert all(name.endswith("visual_quality") for name in first["models"]["GPT-4o"])
    assert printed["columns"][quality]["comparable"] is False
    shown = run_in_process("summary", out, "--published").out
    assert "† published: KRIS-Bench, table 2, judge: GPT-4o" in shown
    assert "- cannot be compared with what is printed: VQ (every number is a judge's" in shown
    assert "core.psnr" not in shown, "what the paper does not print"


class Picker(ScriptedOpenAi):
    """Says whether a question compares, and answers each by its seed's option."""

    def make_reply(self) -> dict[str, Any]:
        text = json.dumps(self.requests[-1]["messages"])
        yes = 0.9 if "Add Object" in text else 0.2
        self.probabilities = {"Yes": yes, "No": 1 - yes}
        if "Size Change" in text:
            self.probabilities = {"Maybe": 1.0}
        return super().make_reply()


async def test_the_judge_decides_once_which_questions_of_gie_compare(tmp_path: Path) -> None:
    made, server, out = gie(tmp_path), Picker(), tmp_path / "compact"
    given = ("prepare", "gie", "--data", made.data, "--out", out)
    async with server.serving() as url:
        done = await run_in_thread(*given, "--generalist", url)
        assert done.code == 0, done.err
        for told in ("1 question compares with the source", "for 2 the words of the question say otherwise"):
            assert told in done.out
        assert "no answer of the judge on 1 question could be read" in done.err
        file = out / "compares.json"
        decided = json.loads(file.read_text())
        decided[1]["compares"] = True  # somebody looked it over
        file.write_text(json.dumps(decided))
        again = await run_in_thread(*given, "--generalist", url, "--json")
        assert again.code == 0, again.err
    kept = {one["position"]: one["compares"] for one in json.loads(file.read_text())}
    assert (kept[0], kept[1], kept[2]) == (True, True, False), "what people wrote is kept"
    without = run_in_process(*given)
    assert without.code == 0, without.err
    assert "no judge is configured" in without.err


def test_a_run_of_gie_goes_on_with_the_converted_file(tmp_path: Path) -> None:
    made, compact, out = gie(tmp_path), tmp_path / "compact", tmp_path / "run"
    more = ["--outputs", f"theirs={tmp_path / 'theirs'}"]
    asked = ["--out", out, "--dimension", "gie.mse", "--dimension", "gie.ssim"]
    assert run_in_process("run", "gie", "--data", made.data, *more, *asked).code == 0
    done = run_in_process("prepare", "gie", "--data", made.data.parent, "--out", compact)
    assert "1 item: the question compares with the source" in done.out
    assert run_in_process("validate", "gie", "--data", compact, *more).code == 0
    again = run_in_process("run", "gie", "--data", compact, *more, *asked)
    assert "nothing was left to judge" in again.err
    made.data.unlink()
    table = run_in_process("summary", out, "--json")
    assert cells(table, "theirs")["mean.mse"][1:] == (9, 10)


async def test_questions_of_gie_are_checked_on_unedited_pictures(tmp_path: Path) -> None:
    made, out = gie(tmp_path), tmp_path / "run"
    async with serve_models(tmp_path, ()) as config:
        asked = ["--dimension", "gie.functional_correctness", "--config", config]
        given = ["--data", made.data, "--outputs", "unedited=:sources", "--out", out]
        run = ["run", "gie", *given, *asked, "--judge", "judge", "--rounds", 2]
        done = await run_in_thread(*run)
    assert done.code == 0, done.err
    assert cells(run_in_process("summary", out, "--json"), "unedited")["overall"][1:] == (10, 10)
    shown = run_in_process("summary", out, "--each-round").out
    assert all(name in shown for name in ("run 1", "run 2"))
    assert "run 1" not in run_in_process("summary", out).out
