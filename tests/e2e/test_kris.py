"""KRIS-Bench from its folders to its table: `validate`, `run`, `summary`, with a scripted judge."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from editjudge.base.errors import EditjudgeError
from editjudge.benchmarks.published_tables import load_published_tables
from editjudge.cli import root

from ..fakes.openai import ScriptedOpenAi, reply
from ..unit.benchmarks.kris.made import picture, released
from ..unit.benchmarks.kris.stand_ins import imported
from .conftest import Ran, here
from .test_run import command

ITEMS = {
    "count_change": 3,
    "temporal_prediction": 2,
    "biology": 4,
    "rule__based_reasoning": 1,
    "multi__instruction_execution": 1,
}
REFUSED = reply(None, message={"refusal": "I cannot help with that."})
# (consistency, instruction, knowledge) by what the editor was told; quality is always 5.
SAID: dict[str, Any] = {
    "do count_change 1": (5, 4, None),
    "do count_change 2": (3, 1, None),
    "do temporal_prediction 1": (2, 2, None),
    "do temporal_prediction 2": (4, 3, None),
    "do biology 1": (5, 5, 4),
    "do biology 2": (4, 2, 5),
    "do rule-based_reasoning 1": (1, 3, 2),
    "do multi-instruction_execution 1": (3, 5, None),
}


class Judge(ScriptedOpenAi):
    """Gives the scores of `SAID`; what is not there it cannot judge in three different ways."""

    broken = True

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        text = json.dumps(json.loads(await request.read())["messages"])
        if self.broken and "do biology 4" in text:
            return web.json_response({"error": {"message": "no"}}, status=400)
        return await super()._chat(request)

    def said(self) -> dict[str, Any]:
        messages = self.requests[-1]["messages"]
        parts = [p for m in messages for p in _parts(m["content"])]
        text = "".join(p["text"] for p in parts if p["type"] == "text")
        if "do count_change 3" in text:
            return reply("I would give it 3 of 5.")
        if "do biology 3" in text:
            return REFUSED
        told = re.search(r"do [\w-]+ \d", text)
        scores = SAID.get(told[0], (3, 3, 3)) if told else (0, 0, 0)
        by_name = dict(zip(("consistency", "instruction", "knowledge"), scores, strict=True))
        asked = re.findall(r'- "(\w+)"', text.partition("Its keys, in this order")[2])
        answer = {
            key: by_name.get(key.removesuffix("_score"), 5) if key.endswith("_score") else "seen"
            for key in asked
        }
        return reply(json.dumps(answer))


def _parts(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def verb(name: str, *arguments: Any) -> Ran:
    """A verb that calls nobody, here."""
    given = [str(one) for one in arguments]
    done = CliRunner().invoke(root.commands[name], given, standalone_mode=False)
    if isinstance(done.exception, EditjudgeError):
        return Ran(done.exception.exit_code, "", str(done.exception))
    if done.exception is not None:
        raise done.exception
    return Ran(int(done.return_value or 0), done.stdout, done.stderr)


class Kris:
    """Data, a model whose outputs are there but for one, and one that takes one image only."""

    def __init__(self, folder: Path) -> None:
        self.data = released(folder / "KRIS_Bench", **ITEMS)
        self.results = folder / "results"
        self.out = folder / "run"
        for file in sorted(self.data.glob("*/annotation.json")):
            for number, one in json.loads(file.read_text()).items():
                for seed, model in enumerate(("ours", "single"), 50):
                    if model == "single" and isinstance(one["ori_img"], list):
                        continue
                    where = self.results / model / file.parent.name / f"{number}.jpg"
                    picture(where, seed + int(number))
        (self.results / "ours" / "count_change" / "2.jpg").rename(
            self.results / "ours" / "count_change" / "2.JPG"
        )
        (self.results / "ours" / "multi-instruction_execution" / "1.jpg").unlink()

    def arguments(self, *models: str) -> list[Any]:
        given = [part for m in models for part in ("--outputs", f"{m}={self.results / m}")]
        return ["kris", "--data", self.data, *given]


@pytest.fixture
def kris(tmp_path: Path) -> Kris:
    return Kris(tmp_path)


def cells(ran: Ran, model: str) -> dict[str, tuple[float | None, int, int]]:
    row: Mapping[str, Any] = ran.json["models"][model]
    return {name: (c["value"], c["scored"], c["asked"]) for name, c in row.items()}


async def test_from_folders_to_table_2(kris: Kris) -> None:
    server = Judge()
    async with server.serving() as url:
        run = ["run", *kris.arguments("ours", "single"), "--out", kris.out, "--generalist", url]
        first = await asyncio.to_thread(command, *run)
        assert first.code == 3, first.err
        assert "ours: 1 output is missing" in first.err
        table = verb("summary", kris.out, "--single-image", "single", "--json")
        again = verb("summary", kris.out, "--single-image", "single")
        made = len(server.requests)
        server.broken = False
        fixed = await asyncio.to_thread(command, *run)
    assert fixed.code == 0, fixed.err
    asked_again = 2 * 2
    retried = len(server.requests) - made
    assert retried == asked_again, "only what failed"

    assert table.json["protocol"] == "kris.paper.1"
    assert table.json["prompts"] == "own"
    assert table.json["items"] == 11
    ours = cells(table, "ours")

    def per(score: float) -> float:
        return (score - 1) * 25

    # count_change: 1 and 2 have numbers, 3 has a reply that cannot be read, twice.
    attribute = "kris.attribute_perception"
    assert ours[f"{attribute}.visual_consistency"] == (per((5 + 3) / 2), 2, 3)
    assert ours[f"{attribute}.visual_quality"] == (per(5), 3, 3)
    assert ours[f"{attribute}.instruction_following"] == (per((4 + 1) / 2), 2, 3)
    of_attribute = (75 + 100 + 37.5) / 3
    assert ours[attribute] == (pytest.approx(of_attribute), 7, 9)
    of_temporal = (per(3) + per(5) + per(2.5)) / 3
    assert ours["kris.temporal_prediction"] == (pytest.approx(of_temporal), 6, 6)
    # Spatial perception has no item here, so it takes no part.
    factual = (3 * of_attribute + 2 * of_temporal) / 5
    assert ours["kris.factual_knowledge"] == (pytest.approx(factual), 13, 15)

    # biology: 3 is refused, 4 fails; the instruction of 2 is not followed, so its knowledge is 1.
    natural = "kris.natural_science"
    assert ours[f"{natural}.visual_consistency"] == (per((5 + 4) / 2), 2, 4)
    assert ours[f"{natural}.visual_quality"] == (per(5), 4, 4)
    assert ours[f"{natural}.instruction_following"] == (per((5 + 2) / 2), 2, 4)
    assert ours[f"{natural}.knowledge_plausibility"] == (per((4 + 1) / 2), 2, 4)
    of_natural = (87.5 + 100 + 62.5 + 37.5) / 4
    # Biology is all there is of natural science: by task and metric the same numbers.
    for metric in ("visual_consistency", "visual_quality", "knowledge_plausibility"):
        assert ours[f"kris.task.biology.{metric}"] == ours[f"{natural}.{metric}"]
    assert ours["kris.task.count_change.instruction_following"] == (37.5, 2, 3)
    assert "kris.task.count_change.knowledge_plausibility" not in ours
    assert ours["kris.conceptual_knowledge"] == (pytest.approx(of_natural), 10, 16)
    counts = table.json["models"]["ours"][f"{natural}.instruction_following"]["counts"]
    assert counts == {"scored": 2, "unscored": 1, "failed": 1}

    # The one output to instruction decomposition is missing: no number there, nor above it.
    of_logical = (per(1) + per(5) + per(3) + per(2)) / 4
    assert ours["kris.logical_reasoning"] == (pytest.approx(of_logical), 4, 4)
    decomposition = table.json["models"]["ours"]["kris.instruction_decomposition.visual_quality"]
    assert decomposition["value"] is None
    assert decomposition["counts"] == {"missing_output": 1}
    assert ours["kris.procedural_knowledge"] == (None, 4, 7)
    assert ours["kris.overall"][0] is None

    # What takes one image only has no output to sequences: 0 there, marked.
    single = cells(table, "single")
    assert single["kris.temporal_prediction"] == (0, 6, 6)
    assert table.json["models"]["single"]["kris.temporal_prediction"]["imputed"] == 6
    of_decomposition = (per(3) + per(5) + per(5)) / 3
    assert single["kris.instruction_decomposition"] == (pytest.approx(of_decomposition), 3, 3)
    # 3 items of attribute perception, 2 of temporal prediction, 4, 1 and 1.
    overall = (3 * of_attribute + 0 + 4 * of_natural + of_logical + of_decomposition) / 11
    assert single["kris.overall"][0] == pytest.approx(overall)

    assert "KRIS-Bench, table 2, kris.paper.1, 11 items, prompts: own" in again.out
    assert re.search(r"0\.00( ±\S+)? \*\d \(6/6\)", again.out), again.out
    assert "- (0/1)" in again.out
    assert "*n: imputed" in again.out
    assert "IF by task" in again.out


ASKED = ("--dimension", "core.psnr.source.whole", "--dimension", "kris.visual_quality")


def test_without_the_rule_a_missing_output_is_missing(kris: Kris) -> None:
    given = [*kris.arguments("ours", "single"), *ASKED]
    done = command("run", *given, "--out", kris.out)
    assert done.code == 0, done.err
    table = verb("summary", kris.out, "--json")
    single = table.json["models"]["single"]
    assert single["kris.temporal_prediction.visual_quality"]["counts"] == {"missing_output": 2}
    assert single["core.psnr.source.whole"]["scored"] == 9
    assert single["kris.natural_science.visual_quality"]["counts"] == {"not_served": 4}
    assert "kris.natural_science" not in single, "an average of what nobody asked for"
    assert "kris.natural_science.instruction_following" not in single
    unknown = verb("summary", kris.out, "--single-image", "theirs")
    assert unknown.code == 2
    assert "no model 'theirs'" in unknown.err


def test_what_was_given_twice_is_not_put_in(kris: Kris) -> None:
    given = [*kris.arguments("single"), *ASKED, "--single-image", "single"]
    summary = (kris.out, "--json")
    assert command("run", *given, "--out", kris.out).code == 0
    temporal = "kris.temporal_prediction.visual_quality"
    assert cells(verb("summary", *summary), "single")[temporal] == (0, 2, 2)
    folder = kris.results / "single" / "temporal_prediction"
    for name in ("1.png", "1.jpg"):
        picture(folder / name)
    told = command("run", *given, "--out", kris.out)
    assert "several outputs" in told.err
    found = verb("summary", *summary).json["models"]["single"][temporal]
    assert (found["imputed"], found["counts"]) == (1, {"missing_output": 1, "scored": 1})


@pytest.mark.parametrize("verb_name", ["run", "validate"])
def test_official_needs_the_authors_prompts(kris: Kris, verb_name: str) -> None:
    picture(kris.results / "ours" / "multi-instruction_execution" / "1.png")
    out = ["--out", kris.out] if verb_name == "run" else []
    done = command(verb_name, *kris.arguments("ours"), *out, "--protocol", "official")
    assert done.code == 2
    assert "the official prompts of kris are not imported" in done.err
    assert "editjudge prompts import kris PATH" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not kris.out.exists()
    shown = here("list", "dimensions", "kris.*")
    assert (shown.code, shown.out.count("kris.")) == (0, 5)
    switches = here("list", "switches", "kris")
    assert switches.code == 0
    assert switches.out.count("on in: official") == 8


class Loose(Judge):
    """Says a number and no more; never what it was asked for."""

    def said(self) -> dict[str, Any]:
        self.texts = [*getattr(self, "texts", []), json.dumps(self.requests[-1]["messages"])]
        return reply("1. Looked at everything.\n2. All in all it is worth 4/5.")


async def test_the_official_protocol(
    kris: Kris, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(monkeypatch, tmp_path)
    server = Loose()
    async with server.serving() as url:
        run = [*kris.arguments("ours"), "--out", kris.out, "--generalist", url]
        run += ["--protocol", "official"]
        done = await asyncio.to_thread(verb, "run", *run)
    assert done.code == 0, done.err
    # 10 edits, three calls each: what cannot be read is not asked for again. The judge is told
    # so little that calls about one picture are one call, whatever was to be done to it.
    assert len(server.texts) <= 3 * 10
    assert not any("do biology" in text for text in server.texts)
    assert any("Rate by prompt_dual_evaluation.txt" in text for text in server.texts)
    assert not any("prompt_abnormal" in text for text in server.texts)
    table = verb("summary", kris.out, "--json").json
    assert (table["protocol"], table["prompts"]) == ("kris.official.1", "original")
    ours = cells(Ran(0, json.dumps(table), ""), "ours")
    natural = "kris.natural_science"
    assert ours[f"{natural}.visual_quality"] == (75, 4, 4)
    # The joint call has no such fallback, so nothing is known of these two.
    assert ours[f"{natural}.instruction_following"] == (None, 0, 4)
    assert ours[f"{natural}.knowledge_plausibility"] == (None, 0, 4)
    assert ours["kris.temporal_prediction"] == (75, 6, 6)
    assert ours["kris.task.count_change"] == (75, 3, 3)
    assert ours["kris.task.count_change.visual_consistency"] == (75, 3, 3)
    # Without an output to instruction decomposition the average is that of logical reasoning.
    assert ours["kris.procedural_knowledge"] == (75, 2, 7)
    assert ours["kris.task.biology"] == (None, 0, 4)
    shown = verb("summary", kris.out)
    assert "kris.official.1, 11 items, prompts: original" in shown.out
    assert "By task" in shown.out
    # Other rules over the same verdicts: what would have to be asked anew is pending.
    gated = verb("summary", kris.out, "--without", "knowledge_ungated", "--json").json
    assert gated["protocol"] == "kris.official.1-knowledge_ungated"
    refused = verb("summary", kris.out, "--single-image", "ours")
    assert (refused.code, "has no rule for models that take one" in refused.err) == (2, True)
    own = verb("summary", kris.out, "--without", "original_prompts", "--json")
    assert own.json["models"]["ours"][f"{natural}.visual_quality"]["counts"] == {"pending": 4}


def test_a_dry_run_counts_three_calls_an_edit(kris: Kris) -> None:
    given = ["--generalist", "http://127.0.0.1:9/v1", "--dry-run", "--json", "--out", kris.out]
    done = command("run", *kris.arguments("ours"), *given)
    assert done.code == 0, done.err
    assert done.json["calls"] == {"generalist.judge": 3 * 10}


def test_all_is_well(kris: Kris) -> None:
    picture(kris.results / "ours" / "multi-instruction_execution" / "1.png")
    given = [*kris.arguments("ours", "single"), "--single-image", "single"]
    done = verb("validate", *given, "--json")
    assert done.code == 0, done.out
    assert done.json["outputs"] == {"ours": 11, "single": 9}
    assert done.json["calls"] == {"generalist.judge": 3 * 20}
    assert done.json["counts"] == {"release": len(ITEMS) + 2}, "other counts are only noted"
    assert "11 items in all, 1,267 were released" in verb("validate", *given).out
    assert verb("validate", *kris.arguments("single")).code == 2


def test_validate_finds_everything(kris: Kris) -> None:
    ours = kris.results / "ours"
    picture(ours / "biology" / "1.jpg", format="PNG")
    (ours / "biology" / "2.jpg").write_bytes(b"no picture")
    picture(ours / "biology" / "99.png")
    (ours / "biology" / "metrics.json").write_text("{}")
    picture(ours / "biology" / "3.png")
    picture(kris.data / "count_change" / "1.jpg", format="PNG")
    done = verb("validate", *kris.arguments("ours"), "--json")
    assert done.code == 2
    found = {(p["kind"], p["where"], p["what"].partition(":")[0].rpartition("/ours/")[2]): p["note"]
             for p in done.json["problems"]}  # fmt: skip
    of_release = [p for p in done.json["problems"] if p["kind"] == "release"]
    assert len(of_release) == len(ITEMS) + 2
    assert all(p["note"] for p in of_release)
    counts = {"missing": 2, "extra": 1, "unreadable": 1, "misnamed": 2}
    assert done.json["counts"] == counts | {"release": len(of_release)}
    assert ("missing", "ours", "multi-instruction_execution/1") in found
    assert ("missing", "ours", "biology/3") in found, "two files are nobody's output"
    assert ("extra", "ours", "biology/99.png") in found
    own = [note for (kind, *_), note in found.items() if kind != "release"]
    assert sorted(own) == [False] * 5 + [True], "released data is taken as it is"
    assert done.json["calls"] == {"generalist.judge": 3 * 9}
    for_people = verb("validate", *kris.arguments("ours"))
    assert for_people.code == 2
    assert "ours: unreadable: " in for_people.out
    assert "problems found" in for_people.out

    file = kris.data / "biology" / "annotation.json"
    file.write_text(file.read_text().replace("explain_en", "explain"))
    done = verb("validate", *kris.arguments("ours"))
    assert done.code == 2
    assert "biology/1: explain_en: explain: no such field; did you mean explain_en?" in done.out

    file.write_text(file.read_text().replace('"explain"', '"explain_en"').replace("so that 1", ""))
    done = verb("validate", *kris.arguments("ours"))
    assert "biology: 1 item: no explanation, which 0 of the release lack" in done.out


def test_temporal_prediction_is_three_tasks(kris: Kris) -> None:
    given = ["--generalist", "http://127.0.0.1:9/v1", "--dry-run", "--json", "--out", kris.out]
    refused = command("run", *kris.arguments("ours"), *given, "--task", "temporal_prediction")
    assert (refused.code, "reverse_prediction" in refused.err) == (2, True)
    done = command("run", *kris.arguments("ours"), *given, "--task", "*_prediction")
    assert done.code == 0, done.err
    assert done.json["calls"] == {"generalist.judge": 3 * 2}


def test_core_has_a_table_too(tmp_path: Path) -> None:
    picture(tmp_path / "s.png")
    picture(tmp_path / "out" / "a.png", 1)
    items = tmp_path / "items.jsonl"
    items.write_text('{"id": "a", "instruction": "x", "source": "s.png"}\n')
    given = ["core", "--data", items, "--outputs", f"m={tmp_path / 'out'}"]
    well = verb("validate", *given)
    assert (well.code, "no problems found" in well.out) == (0, True), well.out
    done = command("run", *given, "--out", tmp_path / "r", "--dimension", "core.psnr.source.whole")
    assert done.code == 0, done.err
    shown = verb("summary", tmp_path / "r")
    assert "Generic dimensions, core.1, 1 item" in shown.out
    assert "(1/1)" in shown.out
    refused = verb("summary", tmp_path / "r", "--single-image", "m")
    assert refused.code == 2
    items.write_text(items.read_text() * 2)
    wrong = verb("validate", *given)
    assert wrong.code == 2
    assert "is already used by line 1" in wrong.out


def test_a_run_remembers_who_takes_one_image_only(kris: Kris) -> None:
    given = [*kris.arguments("ours", "single"), *ASKED, "--out", kris.out]
    temporal = "kris.temporal_prediction.visual_quality"
    assert command("run", *given, "--single-image", "single").code == 0
    for _ in range(2):  # as the run was begun, and as it was resumed without saying it again
        assert cells(verb("summary", kris.out, "--json"), "single")[temporal] == (0, 2, 2)
        assert command("run", *given).code == 0
    # By rules that have none for such models the run is shown all the same.
    other = verb("summary", kris.out, "--with", "missing_skipped", "--json")
    assert cells(other, "single")[temporal] == (None, 0, 2)
    for wrong, why in (
        (["--single-image", "theirs"], "no model 'theirs'"),
        (["--single-image", "ours", "--with", "missing_skipped"], "has no rule for models"),
    ):
        refused = command("run", *given[:-1], kris.out.with_name("other"), *wrong)
        assert refused.code == 2
        assert why in refused.err


def test_the_papers_rows_stand_beside_the_runs(kris: Kris) -> None:
    given = [*kris.arguments("ours"), *ASKED, "--out", kris.out]
    assert command("run", *given).code == 0
    plain = verb("summary", kris.out, "--json").json
    assert plain["published"] is None
    beside = verb("summary", kris.out, "--published", "--json").json
    printed = beside.pop("published")
    assert beside == {name: part for name, part in plain.items() if name != "published"}
    quality = "kris.attribute_perception.visual_quality"
    first, second = printed["tables"]
    assert (first["source"], first["judge"]) == ("table 2", "GPT-4o")
    assert first["models"]["GPT-4o"][quality] == 94.75
    assert second["models"]["InstructPix2Pix"][quality] == 67
    assert all(name.endswith("visual_quality") for name in first["models"]["GPT-4o"])
    assert printed["columns"][quality]["comparable"] is False
    shown = verb("summary", kris.out, "--published").out
    for told in (
        "† published: KRIS-Bench, table 2, judge: GPT-4o",
        "† GPT-4o",
        "94.75",
        "- cannot be compared with what is printed: VQ (every number is a judge's",
    ):
        assert told in shown
    assert "core.psnr" not in shown, "what the paper does not print"
    assert shown.count(" ours ┃") == shown.count("┏"), "beside the run's own, in each table"
    assert load_published_tables("kris").comparison(quality).holds({"original_prompts"})
