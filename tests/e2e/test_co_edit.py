"""Co-EditBench from its items to its tables, with a scripted judge and scripted specialists."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from grpc import StatusCode

from editjudge.base.images import load_image
from editjudge.base.probes import texture_image
from editjudge.benchmarks.co_edit.specialists import framed

from ..fakes.grpc_server import Failure
from ..fakes.openai import ScriptedOpenAi
from ..fakes.openai import reply as said
from ..fakes.triton import ScriptedTriton
from ..fakes.triton import reply as tensors
from ..unit.benchmarks.co_edit.judging import EDITING, LOOKS, derived_from, rules, values
from ..unit.benchmarks.co_edit.judging import item as an_item
from ..unit.benchmarks.co_edit.made import WIDTH, line, picture, written
from .conftest import Ran
from .test_kris import verb
from .test_run import command

SPECIALISTS = {"clip_vit_b_32": 0.8, "features_dinov2": 0.6, "lpips_vgg": 0.25}
# Vectors at an angle of that cosine, exact in half precision, in which replies are kept.
ANGLES = {0.8: [4.0, 3.0], 0.6: [3.0, 4.0]}
MEASURED = {"clip.subject": 0.8, "dino.subject": 0.6, "lpips.kept": 0.25}
# Scores of the two calls, in the order of the lists, by what the editor was told.
SCORES = {
    "custom": (8, 9, 6, 9, 7, 8, 9, 10),
    "text": (5, 10, 7, 6, 10, 9, 8, 9),
    "style": (9, 1, 9, 8, 6, 6, 7, 5),
    "context": (7, 2, 8, 4, 10, 10, 3, 9),
    "background": (6, 8, 10, 7, 9, 5, 6, 8),
}
TWO = {"source": None, "mask": None, "sources": ["source.png", "other.png"]}
LINES = [
    line(id="custom", instruction="do custom"),
    line("text_editing", id="text", instruction="do text"),
    line("style_editing", id="style", instruction="do style", mask=None),
    line("in_context", id="context", instruction="do context", **TWO),
    line(
        "background_editing",
        id="background",
        instruction="do background",
        mask_shows="kept",
        subject=True,
    ),
]
ITEMS = {
    "custom": an_item(),
    "text": an_item("text_editing", None),
    "style": an_item("style_editing", None, None),
    "context": an_item("in_context", None, None, 2),
    "background": an_item("background_editing", "outside"),
}


_PROBE = load_image(texture_image()).encoded_bytes


class Judge(ScriptedOpenAi):
    """Gives the scores of `SCORES`; some it cannot give, each in a way of its own."""

    lost = True

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests about edits; others look whether the judge is there."""
        return [one for one in self.requests if "do " in json.dumps(one["messages"])]

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        text = json.dumps(json.loads(await request.read())["messages"])
        if self.lost and "do lost" in text:
            return web.json_response({"error": {"message": "no"}}, status=400)
        return await super()._chat(request)

    def said(self) -> dict[str, Any]:
        text = json.dumps(self.requests[-1]["messages"])
        if "do unreadable" in text:
            return said("I would give it 7 of 10.")
        if "do refused" in text:
            return said(None, message={"refusal": "I cannot help with that."})
        told = re.search(r"do (\w+)", text)
        scores = SCORES.get(told[1], SCORES["custom"]) if told else ()
        looks = "visual_naturalness" in text
        listed = scores[len(EDITING) :] if looks else scores[: len(EDITING)]
        return said(json.dumps({"reasoning": "seen", "score": listed}))


class Triton(ScriptedTriton):
    """CLIP, DINO and LPIPS by name: the source's subject along the axis, others at the angle."""

    def __init__(
        self, source: bytes, failing: bool = False, models: tuple[str, ...] = tuple(SPECIALISTS)
    ) -> None:
        super().__init__(models=models)
        self.source = source
        self.failing = failing

    @property
    def asked(self) -> list[Any]:
        """The requests about edits; others are probes."""
        return [one for one in self.requests if _PROBE not in one.raw_input_contents[0]]

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        value = SPECIALISTS[request.model_name]
        if request.model_name == "lpips_vgg":
            if self.failing:
                failure = Failure(StatusCode.INVALID_ARGUMENT, "abstained/degenerate: flat")
                await context.abort(failure.code, failure.detail)
            return tensors(DISTANCE=np.array([[value]], np.float32))
        first = self.source in request.raw_input_contents[0]
        angle = [1.0, 0.0] if first else ANGLES[value]
        return tensors(EMBEDDING=np.array([angle], np.float32))


class Bench:
    """Data, and a model's outputs that are all there."""

    def __init__(self, folder: Path, lines: list[dict[str, Any]]) -> None:
        self.data = written(folder / "data", lines)
        source = load_image(folder / "data" / "source.png").rgb
        subject = np.zeros(source.shape[:2], bool)
        subject[:, : WIDTH // 3] = True
        self.source = load_image(framed(source, subject)[0]).encoded_bytes
        self.results = folder / "ours"
        self.out = folder / "run"
        for seed, one in enumerate(lines, 10):
            picture(self.results / f"{one['id']}.png", seed)

    @property
    def arguments(self) -> list[Any]:
        return ["co_edit", "--data", self.data, "--outputs", f"ours={self.results}"]

    @asynccontextmanager
    async def served(self, **settings: Any) -> AsyncIterator[tuple[Judge, Triton, list[Any]]]:
        judge, triton = Judge(), Triton(self.source, **settings)
        async with judge.serving() as url, triton.serving() as endpoint:
            run = ["run", *self.arguments, "--out", self.out]
            yield judge, triton, [*run, "--generalist", url, "--endpoint", endpoint]


def expected(item: str, *switches: str, without: tuple[str, ...] = ()) -> dict[str, float]:
    scores = dict(zip(EDITING + LOOKS, SCORES[item], strict=True))
    return values(derived_from(scores | MEASURED, rules(switches, without), ITEMS[item]))


def cells(ran: Ran) -> dict[str, tuple[float | None, int, int]]:
    row: Mapping[str, Any] = ran.json["models"]["ours"]
    return {n.removeprefix("co_edit."): (c["value"], c["scored"], c["asked"])
            for n, c in row.items()}  # fmt: skip


def check(ran: Ran, *switches: str, without: tuple[str, ...] = ()) -> None:
    """The table's composites are the means of what the formulas give for each edit."""
    got = cells(ran)
    each = {name: expected(name, *switches, without=without) for name in SCORES}
    for group in ("edit_completeness", "image_quality", "non_edited_preservation",
                  "identity_preservation", "overall"):  # fmt: skip
        of = [one[group] for name, one in each.items() if name != "context" and group in one]
        if not of:
            assert group not in got
            continue
        assert got[group] == (pytest.approx(sum(of) / len(of), abs=1e-5), len(of), len(of)), group
    for name, task in (("custom", "subject_customization"), ("text", "text_editing"),
                       ("style", "style_editing"), ("background", "background_editing"),
                       ("context", "in_context")):  # fmt: skip
        if "overall" in each[name]:
            overall = pytest.approx(each[name]["overall"], abs=1e-5)
            assert got[f"{task}.overall"] == (overall, 1, 1), name


async def test_from_items_to_the_tables(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LINES)
    well = verb("validate", *bench.arguments, "--json")
    assert well.code == 0, well.out
    assert well.json["calls"]["generalist.judge"] == 2 * 5
    assert set(well.json["calls"]) == {
        "generalist.judge", "clip.vit_b_32", "features.dinov2", "lpips.vgg",
    }  # fmt: skip

    async with bench.served() as (judge, triton, run):
        done = await asyncio.to_thread(command, *run)
        assert done.code == 0, done.err
        assert len(judge.asked) == 2 * 5
        # Two edits of one subject, seen by two: its source is asked about once.
        by_model = Counter(request.model_name for request in triton.asked)
        assert by_model == {"clip_vit_b_32": 3, "features_dinov2": 3, "lpips_vgg": 3}

    table = verb("summary", bench.out, "--json")
    assert table.code == 0, table.err
    assert table.json["protocol"] == "co_edit.paper.3"
    assert table.json["prompts"] == "own"
    check(table)
    got = cells(table)
    assert got["non_edited_detail_preservation"] == (pytest.approx(7.5, abs=1e-5), 3, 3)
    assert got["semantic_identity_preservation"] == (pytest.approx(8, abs=1e-5), 2, 2)
    assert got["clip.subject"] == (pytest.approx(0.8, abs=1e-6), 2, 2)
    assert all(scored == asked for _, scored, asked in got.values())
    asked = {name for name, (_, _, count) in got.items() if count}
    assert {d.id.removeprefix("co_edit.") for d in rules().dimensions} <= asked
    shown = verb("summary", bench.out)
    assert "Co-EditBench, tables 1, 7 and 13, co_edit.paper.3, 5 items, prompts: own" in shown.out

    for flags, switches, without in (
        (["--with", "uniform_weights"], ("uniform_weights",), ()),
        (["--with", "shifted_cosines"], ("shifted_cosines",), ()),
        (["--with", "exponential_distances"], ("exponential_distances",), ()),
        (["--without", "specialists"], (), ("specialists",)),
        (["--without", "reasoning"], (), ("reasoning",)),
        (["--without", "specialists", "--with", "uniform_weights"],
         ("uniform_weights",), ("specialists",)),
    ):  # fmt: skip
        ablated = verb("summary", bench.out, *flags, "--json")
        assert ablated.code == 0, ablated.err
        check(ablated, *switches, without=without)
    assert ablated.json["protocol"] == "co_edit.paper.3+uniform_weights-specialists"

    anew = verb("summary", bench.out, "--with", "plain_questions", "--json")
    assert anew.json["models"]["ours"]["co_edit.overall"]["counts"] == {"pending": 4}


LOST = [
    line(id=name, instruction=f"do {name}", **given)
    for name, given in (
        ("custom", {}),
        ("unreadable", {}),
        ("refused", {}),
        ("empty", {"mask": "empty.png"}),
        ("full", {"mask": "full.png"}),
        ("lost", {}),
        ("missing", {}),
    )
]


async def test_what_has_no_number_is_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LOST)
    (bench.results / "missing.png").unlink()
    done = verb("validate", *bench.arguments, "--json")
    assert (done.code, done.json["counts"]) == (2, {"missing": 1, "mask": 2})
    async with bench.served() as (judge, _, run):
        done = await asyncio.to_thread(command, *run)
        assert done.code == 3, done.err
        table = verb("summary", bench.out, "--json").json["models"]["ours"]

        def counts(name: str) -> dict[str, int]:
            return dict(table[f"co_edit.{name}"]["counts"])

        assert counts("overall") == {
            "scored": 1, "unscored": 4, "failed": 1, "missing_output": 1,
        }  # fmt: skip
        assert counts("edit_completeness") == {
            "scored": 3, "unscored": 2, "failed": 1, "missing_output": 1,
        }  # fmt: skip
        # An empty mask shows no subject, a full one leaves nothing to keep.
        assert counts("identity_preservation") == {"scored": 5, "unscored": 1, "missing_output": 1}
        assert counts("non_edited_detail_preservation") == counts("identity_preservation")
        value = table["co_edit.overall"]["value"]
        assert value == pytest.approx(expected("custom")["overall"], abs=1e-5)
        # The specialists' part stands where the judge gave nothing.
        alone = verb("summary", bench.out, "--without", "reasoning", "--json")
        assert alone.code == 0, alone.err
        overall = alone.json["models"]["ours"]["co_edit.overall"]
        assert overall["counts"] == {"scored": 4, "unscored": 2, "missing_output": 1}
        judge.lost = False
        before = len(judge.asked)
        fixed = await asyncio.to_thread(command, *run)
    assert fixed.code == 0, fixed.err
    assert len(judge.asked) - before == 2, "only what failed"


async def test_a_full_mask_of_an_edit_of_the_whole_image(tmp_path: Path) -> None:
    given = line(id="style", instruction="do style", type="style_editing", mask="full.png")
    given.pop("mask_shows", None)
    bench = Bench(tmp_path, [given])
    assert "1 mask is all white (first: style)" in verb("validate", *bench.arguments).out
    async with bench.served() as (_, triton, run):
        done = await asyncio.to_thread(command, *run)
    assert done.code == 0, done.err
    assert triton.asked == []
    table = verb("summary", bench.out, "--json")
    assert cells(table)["overall"] == (pytest.approx(expected("style")["overall"], abs=1e-5), 1, 1)
    assert cells(table)["non_edited_preservation"] == (None, 0, 0)


async def test_a_specialist_that_abstains(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LINES[:1])
    async with bench.served(failing=True) as (_, _, run):
        done = await asyncio.to_thread(command, *run)
    assert done.code == 0, done.err
    table = verb("summary", bench.out, "--json").json["models"]["ours"]
    assert table["co_edit.non_edited_preservation"]["counts"] == {"unscored": 1}
    assert table["co_edit.overall"]["counts"] == {"unscored": 1}
    assert table["co_edit.identity_preservation"]["counts"] == {"scored": 1}


async def test_there_is_no_overall_while_a_specialist_is_absent(tmp_path: Path) -> None:
    """Of four edits the style alone needs none."""
    bench = Bench(tmp_path, LINES)
    async with bench.served(models=("clip_vit_b_32",)) as (_, _, run):
        done = await asyncio.to_thread(command, *run)
    assert done.code == 0, done.err
    table = verb("summary", bench.out, "--json").json["models"]["ours"]
    overall = table["co_edit.overall"]
    assert (overall["value"], overall["counts"]) == (None, {"scored": 1, "not_served": 3})
    assert overall["reason"].startswith("not served: ")
    assert "lpips.vgg" in overall["reason"]
    assert table["co_edit.style_editing.overall"]["value"] is not None
    assert table["co_edit.edit_completeness"]["value"] is not None
    shown = verb("summary", bench.out)
    assert "numbers need models that are not served" in shown.out


async def test_a_run_without_specialists_calls_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LINES[:2])
    dry = command("run", *bench.arguments, "--out", bench.out, "--without", "specialists",
                  "--generalist", "http://127.0.0.1:9/v1", "--dry-run", "--json")  # fmt: skip
    assert dry.code == 0, dry.err
    assert dry.json["calls"] == {"generalist.judge": 4}
    async with bench.served() as (judge, triton, run):
        done = await asyncio.to_thread(command, *run, "--without", "specialists")
    assert done.code == 0, done.err
    assert triton.asked == []
    assert len(judge.asked) == 4
    table = verb("summary", bench.out, "--json")
    assert table.json["protocol"] == "co_edit.paper.3-specialists"
    one, other = (expected(n, without=("specialists",))["overall"] for n in ("custom", "text"))
    assert cells(table)["overall"] == (pytest.approx((one + other) / 2), 2, 2)


async def test_weights_of_the_paper_from_a_run_with_uniform_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LINES)
    async with bench.served() as (_, _, run):
        done = await asyncio.to_thread(command, *run, "--with", "uniform_weights")
    assert done.code == 0, done.err
    uniform = verb("summary", bench.out, "--json")
    assert uniform.json["protocol"] == "co_edit.paper.3+uniform_weights"
    check(uniform, "uniform_weights")
    paper = verb("summary", bench.out, "--without", "uniform_weights", "--json")
    assert paper.code == 0, paper.err
    assert paper.json["protocol"] == "co_edit.paper.3"
    check(paper)
    both = verb("summary", bench.out, "--without", "uniform_weights", "--with", "uniform_weights")
    assert both.code == 2
    assert "uniform_weights is both turned on and off" in both.err


def test_what_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LINES[:1])
    run = ["run", *bench.arguments, "--out", bench.out]
    official = command(*run, "--protocol", "official")
    assert official.code == 2
    assert "no protocol official: its authors have released no code" in official.err
    nothing = command(*run, "--without", "specialists", "--without", "reasoning")
    assert nothing.code == 2
    assert "has no metric" in nothing.err
    bench.data.write_text(bench.data.read_text().replace("subject_customization", "colour"))
    wrong = verb("validate", *bench.arguments)
    assert wrong.code == 2
    assert "line 1: type: 'colour' is no type of edit" in wrong.out
    assert not bench.out.exists()
