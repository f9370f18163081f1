"""I2I-Bench from its file to its tables: every dimension, with scripted judges and specialists."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from PIL import Image as Pil

from editjudge.benchmarks.i2i.taxonomy import ARTIFACTS, DIMENSIONS
from editjudge.storage.store import RunStore

from ..fakes.openai import ScriptedOpenAi, reply
from ..fakes.triton import ScriptedTriton
from ..fakes.triton import reply as tensors
from .test_kris import cells, verb
from .test_run import command

SERVICES = (
    "quality_qinsight",
    "aesthetics_artimuse",
    "ocr_got",
    "segmenter_sa2va",
    "features_dinov3",
)
ALL = {
    track: [n for n in names if track == "se" or n != ARTIFACTS]
    for track, names in DIMENSIONS.items()
}
LEVELS = {"excellent": 0.4, "good": 0.3, "fair": 0.2, "poor": 0.05, "bad": 0.05}
LEVEL = 0.4 + 0.75 * 0.3 + 0.5 * 0.2 + 0.25 * 0.05
YES = {"Yes": 0.7, "No": 0.3}
REFUSED = reply(None, message={"refusal": "I cannot help with that."})
QUESTIONS = {"questions": [f"Is part {i} right?" for i in range(5)]}

# By a phrase of each prompt that no other one has: what it is called here.
PROMPTS = {
    "How naturally does what was edited": "blending",
    "How free is the edited image of damage": "artifacts",
    "How well does the edited image carry out": "following",
    "Write the questions by which": "questions",
    "A question about the edited image": "question",
    "Was the editor successful": "accuracy",
    "This is what a right result shows": "world",
    "Its spelling is checked by other means": "style",
    "Count. Which people": "count",
    "Find every place where the edited image differs": "edited_region",
    "must look the same afterwards": "unchanged",
    "should look the same in the edited image?": "unchanged",
    "take over without any change": "preserved",
    "and show again": "subjects",
    "make them recognisable": "details",
    "does the receiver have it": "transfer",
    "look like parts of one picture in the edited image": "harmony",
}


def commands(*entries: Any) -> dict[str, Any]:
    return reply(json.dumps({"commands": entries}))


def at(index: int, phrase: str) -> dict[str, Any]:
    return {"source_index": index, "phrase": phrase}


SAID: Mapping[str, dict[str, Any]] = {
    "questions": reply(json.dumps(QUESTIONS)),
    "style": reply('{"reasoning": "neon, but low", "style_score": 4}'),
    "edited_region": commands("left part"),
    "unchanged": commands("Please segment left part", "right part"),
    "preserved": commands(at(1, "left part")),
    "subjects": commands(at(0, "left part"), at(1, "left part")),
    "details": commands(at(0, "right part"), at(1, "left part")),
}
# By item, what goes wrong with a prompt.
WRONG: Mapping[tuple[str, str], Any] = {
    ("se-bad", "artifacts"): REFUSED,
    ("se-bad", "accuracy"): {"Maybe": 0.9, "Yes": 0.1},
    ("se-bad", "edited_region"): commands("nothing"),
    ("se-bad", "style"): reply("4 of 5"),
    ("se-bad", "questions"): reply('{"questions": ["One?"]}'),
    ("me-plain", "preserved"): commands(),
    ("me-bad", "subjects"): commands(at(0, "left part"), at(0, "nothing")),
    ("me-bad", "details"): commands(at(7, "left part")),
    ("me-bad", "preserved"): commands(at(0, "everything")),
}


class Judge(ScriptedOpenAi):
    """Gives the same answer to each prompt, but for what is `WRONG`; counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: Counter[str] = Counter()
        self.broken = True

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        text = json.dumps(json.loads(await request.read())["messages"])
        if self.broken and "do se-bad" in text and _named(text) == "following":
            return web.json_response({"error": {"message": "no"}}, status=400)
        return await super()._chat(request)

    def said(self) -> dict[str, Any]:
        text = json.dumps(self.requests[-1]["messages"])
        if "frozen water" in text:
            self.probabilities = YES
            return super().said()
        name = _named(text)
        self.prompts[name] += 1
        wrong = [one for (item, of), one in WRONG.items() if of == name and f"do {item}" in text]
        if wrong and "choices" in wrong[0]:
            return wrong[0]  # type: ignore[no-any-return]
        if name in SAID:
            return SAID[name]
        usual = LEVELS if "excellent:" in text else YES
        if name == "question":
            usual = {"No": 0.9, "Yes": 0.1} if "part 0" in text else {"Yes": 0.9, "No": 0.1}
        self.probabilities = wrong[0] if wrong else usual
        return super().said()


def _named(text: str) -> str:
    (name,) = (name for phrase, name in PROMPTS.items() if phrase in text)
    return name


class Specialists(ScriptedTriton):
    """Answers by what the file is called that is sent; counts calls by model and file.

    `left part` is the left half of an image, `right part` the other. The features of a source
    are (3, 4), of an edited image (4, 3) within its left half and (0, 1) within its right one.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(models=SERVICES)
        files = folder.rglob("*.png")
        self.names = {one.read_bytes(): one.relative_to(folder).as_posix() for one in files}
        self.calls: Counter[tuple[str, str]] = Counter()

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        given = dict(
            zip((one.name for one in request.inputs), request.raw_input_contents, strict=True)
        )
        inputs = {name: raw[4 : 4 + struct.unpack("<I", raw[:4])[0]] for name, raw in given.items()}
        name = self.names[inputs["IMAGE"]]
        self.calls[request.model_name, name] += 1
        answers: Mapping[str, Callable[[str, dict[str, bytes]], Any]] = {
            "quality_qinsight": lambda *_: _score(0.75),
            "aesthetics_artimuse": lambda *_: _score(0.5),
            "ocr_got": self._read,
            "segmenter_sa2va": self._segment,
            "features_dinov3": self._features,
        }
        return answers[request.model_name](name, inputs)

    def _read(self, name: str, _: dict[str, bytes]) -> Any:
        text = "NEW 1" if name.startswith("ours/") else "NEW"
        return _tensors(
            TEXT=text, BOXES=np.zeros((1, 0, 4, 2), "f4"), CONFIDENCE=np.zeros((1, 0), "f4")
        )

    def _segment(self, name: str, inputs: dict[str, bytes]) -> Any:
        width, height = _opened(inputs["IMAGE"]).size
        mask = np.zeros((height, width), bool)
        halves = {"left part": slice(0, width // 2), "right part": slice(width // 2, None)}
        phrase = inputs["PROMPT"].decode()
        if phrase == "nothing":
            return _tensors(MASK=b"", SCORE=np.zeros((1, 1), "f4"))
        mask[:, halves.get(phrase, slice(None))] = True
        buffer = io.BytesIO()
        Pil.fromarray(mask).save(buffer, "PNG")
        return _tensors(MASK=buffer.getvalue(), SCORE=np.full((1, 1), 0.5, "f4"))

    def _features(self, name: str, inputs: dict[str, bytes]) -> Any:
        mask = np.asarray(_opened(inputs["MASK"]).convert("L")) > 0
        assert mask.mean() == 0.5
        vector = (3, 4) if name.startswith("source") else (4, 3) if mask[0, 0] else (0, 1)
        return _tensors(EMBEDDING=np.array([vector], "f4"))


def _opened(data: bytes) -> Pil.Image:
    return Pil.open(io.BytesIO(data))


def _score(value: float) -> Any:
    return _tensors(SCORE=np.array([[value]], "f4"))


def _tensors(**given: Any) -> Any:
    """As `reply`, which takes bytes tensors as text, for masks too."""
    response = tensors(**{k: v for k, v in given.items() if not isinstance(v, bytes)})
    for name, data in ((k, v) for k, v in given.items() if isinstance(v, bytes)):
        response.outputs.add(name=name, datatype="BYTES", shape=[1, 1])
        response.raw_output_contents.append(struct.pack("<I", len(data)) + data)
    return response


ITEMS: list[dict[str, Any]] = [
    {"id": "se-full", "task": "world_knowledge_reasoning", "hint": "HINT", "target_text": "NEW 1",
     "dimensions": ALL["se"]},
    {"id": "se-plain", "task": "local_editing"},
    {"id": "me-full", "task": "combination_reasoning", "hint": "HINT", "target_text": "NEW 1",
     "dimensions": ALL["me"]},
    {"id": "me-plain", "task": "basic_combination"},
]  # fmt: skip
BAD: list[dict[str, Any]] = [
    {"id": "se-bad", "task": "text_rendering", "target_text": "NEW 1",
     "dimensions": ["editing_artifacts", "spatial_accuracy", "instruction_following",
                    "physical_plausibility", "text_content_style_accuracy",
                    "non_edited_region_fidelity"]},
    {"id": "me-bad", "task": "basic_combination"},
    {"id": "me-missing", "task": "combination_text_rendering"},
]  # fmt: skip


def drawn(path: Path, seed: int, size: tuple[int, int]) -> None:
    """A small picture of its own."""
    path.parent.mkdir(exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Pil.fromarray(pixels).save(path)


class I2i:
    """Items and two models whose outputs have another size than the sources."""

    SOURCE, OUTPUT = (32, 24), (20, 16)

    def __init__(self, folder: Path, items: list[dict[str, Any]], *models: str) -> None:
        self.folder, self.models = folder, models
        self.out = folder / "run"
        lines = []
        for number, one in enumerate(items):
            track = one["id"][:2]
            sources = [f"source-{number}{side}.png" for side in ("a" if track == "se" else "ab")]
            for seed, name in enumerate(sources, 10 * number):
                drawn(folder / name, seed, self.SOURCE)
            for seed, model in enumerate(models, 500 + 10 * number):
                if one["id"] != "me-missing":
                    drawn(folder / model / f"{one['id']}.png", seed, self.OUTPUT)
            given = {"source": sources[0]} if track == "se" else {"sources": sources}
            lines.append(one | given | {"instruction": f"do {one['id']}"})
        (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))

    @property
    def arguments(self) -> list[Any]:
        outputs = [p for m in self.models for p in ("--outputs", f"{m}={self.folder / m}")]
        return ["i2i", "--data", self.folder / "items.jsonl", *outputs]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[Judge, Specialists, list[Any]]]:
        judge, specialists = Judge(), Specialists(self.folder)
        async with judge.serving() as url, specialists.serving() as grpc:
            yield judge, specialists, ["--generalist", url, "--endpoint", grpc]

    def evidence(self, model: str, item: str, dimension: str) -> Any:
        with RunStore.open(self.out, read_only=True) as store:
            (one,) = store.verdicts(model, dimension, item=item)
            return one.verdict


OURS, THEIRS = {"text": 0.75 * 1.0}, {"text": 0.75 * 0.5}


def expected(text: float, *, me_extra: Mapping[str, float] = {}) -> dict[str, float]:
    """By equations 1 to 5 and the answers above, for the items that ask for everything."""
    inside, outside, mixed = 24 / 25, 4 / 5, (24 / 25 + 4 / 5) / 2
    common = {
        "image_quality": 0.75,
        "aesthetic_quality": 0.5,
        "blending_naturalness": LEVEL,
        "instruction_following": LEVEL,
        "physical_plausibility": 0.8,
        "composition_interaction": 0.8,
        "spatial_accuracy": 0.7,
        "text_content_style_accuracy": text,
        "world_knowledge_reasoning": 0.7,
    }
    se = common | {
        "editing_artifacts": LEVEL,
        "object_manipulation_accuracy": 0.7,
        "local_attribute_accuracy": 0.7,
        "action_state_change_accuracy": 0.7,
        # The left half was edited, so the right ones are compared.
        "non_edited_region_fidelity": outside,
        "subject_identity_fidelity": mixed,
    }
    me = common | {
        "cross_source_transfer": 0.8,
        "inter_subject_consistency": 0.8,
        "non_edited_element_fidelity": inside,
        "subject_consistency": inside,
        "detail_fidelity": mixed,
        "subject_extraction_composition": 0.7 * inside,
    }
    return {f"i2i.se.{k}": v for k, v in se.items()} | {
        f"i2i.me.{k}": v for k, v in (me | dict(me_extra)).items()
    }


async def test_from_items_to_tables_1_and_2(tmp_path: Path) -> None:
    i2i = I2i(tmp_path, ITEMS, "ours", "theirs")
    well = verb("validate", *i2i.arguments, "--json")
    assert well.code == 0, well.out
    async with i2i.served() as (judge, specialists, served):
        run = ["run", *i2i.arguments, "--out", i2i.out, *served]
        done = await asyncio.to_thread(command, *run)
        assert done.code == 0, done.err
        asked, called = dict(judge.prompts), sum(specialists.calls.values())
        again = await asyncio.to_thread(command, *run)
    assert again.code == 0, again.err
    assert (dict(judge.prompts), sum(specialists.calls.values())) == (asked, called)

    from_replies = await asyncio.to_thread(verb, "rescore", i2i.out, "--json")
    assert {(one["changed"], one["kept"]) for one in from_replies.json} == {(0, 0)}

    table = verb("summary", i2i.out, "--json")
    assert table.json["protocol"] == "i2i.paper.3"
    assert table.json["prompts"] == "own"
    for model, text in (("ours", OURS["text"]), ("theirs", THEIRS["text"])):
        row, due = cells(table, model), expected(text)
        for name, value in due.items():
            got, scored, of = row[name]
            assert got == pytest.approx(value, abs=1e-9), name
            assert scored == of, f"full coverage of {name}"
        for track in ("se", "me"):
            usual = {n: v for n, v in due.items() if n.startswith(f"i2i.{track}.")}
            pairs = [(v, row[n][2]) for n, v in usual.items()]
            overall = sum(v * n for v, n in pairs) / sum(n for _, n in pairs)
            assert row[f"i2i.{track}.overall"][0] == pytest.approx(overall, abs=1e-9)
        # The plain items are judged on what every prompt is; one has nothing that is preserved.
        assert row["i2i.se.image_quality"][2] == row["i2i.me.subject_consistency"][2] == 2
        assert row["i2i.se.local_attribute_accuracy"][2] == 1
        assert row["i2i.me.non_edited_element_fidelity"][2] == 1
        assert row["i2i.se.local_editing.overall"][2] == 7
        assert row["i2i.me.combination_reasoning.overall"][2] == 15
        # What both tracks have is judged alike here, and their overalls are not of the same.
        assert row["i2i.me.overall"][0] != pytest.approx(row["i2i.se.overall"][0])
        assert row["i2i.me_less_se.overall"][0] == pytest.approx(0)
    nothing = i2i.evidence("ours", "me-plain", "i2i.me.non_edited_element_fidelity")
    assert nothing.status == "not_applicable"

    # Two items of each track, two models.
    assert asked["accuracy"] == 2 * 2, "four accuracies are one call"
    assert asked["unchanged"] == 1, "the same for every model"
    assert asked["subjects"] == asked["details"] == asked["preserved"] == 2
    assert asked["edited_region"] == 2 * 2
    of_source = {n: c for (m, n), c in specialists.calls.items() if m == "segmenter_sa2va"}
    assert of_source["source-0a.png"] == 2, "each command once, for both models"
    assert of_source["source-2b.png"] == 1, "`left part` of three prompts is one call"
    shown = i2i.evidence("ours", "se-full", "i2i.se.subject_identity_fidelity").evidence
    assert [one["command"] for one in shown["regions"]] == ["left part", "right part"]
    assert shown["regions"][0]["source"]["mask"]

    for_people = verb("summary", i2i.out)
    assert "I2I-Bench, tables 1 and 2, i2i.paper.3, 4 items, prompts: own" in for_people.out
    assert "World Knowledge & Reasoning" in for_people.out


async def test_every_kind_of_unscored(tmp_path: Path) -> None:
    i2i = I2i(tmp_path, BAD, "ours")
    found = verb("validate", *i2i.arguments, "--json")
    assert (found.code, found.json["counts"]) == (2, {"missing": 1, "size": 1, "release": 2})
    async with i2i.served() as (judge, _, served):
        run = ["run", *i2i.arguments, "--out", i2i.out, *served]
        first = await asyncio.to_thread(command, *run)
        assert first.code == 3, first.err
        table = verb("summary", i2i.out, "--json").json["models"]["ours"]
        judge.broken = False
        fixed = await asyncio.to_thread(command, *run)
        assert fixed.code == 0, fixed.err
        after = verb("summary", i2i.out, "--json").json["models"]["ours"]

    def said(item: str, dimension: str) -> tuple[str, str]:
        verdict = i2i.evidence("ours", item, dimension)
        return getattr(verdict, "kind", verdict.status), getattr(verdict, "reason", "")

    assert said("se-bad", "i2i.se.editing_artifacts")[0] == "refused"
    assert said("se-bad", "i2i.se.spatial_accuracy")[0] == "abstained"
    assert said("se-bad", "i2i.se.physical_plausibility")[0] == "unparsable"
    kind, why = said("se-bad", "i2i.se.text_content_style_accuracy")
    assert (kind, why.partition(":")[0]) == ("unparsable", "style")
    kind, why = said("se-bad", "i2i.se.non_edited_region_fidelity")
    assert (kind, why) == ("degenerate", "'nothing' was not found in the edited image")
    kind, why = said("me-bad", "i2i.me.subject_consistency")
    assert (kind, why.count("'nothing' was not found")) == ("degenerate", 2)
    kind, why = said("me-bad", "i2i.me.subject_extraction_composition")
    assert (kind, why.partition(":")[0]) == ("degenerate", "i2i.me.subject_consistency")
    assert said("me-bad", "i2i.me.non_edited_element_fidelity")[0] == "degenerate"
    kind, why = said("me-bad", "i2i.me.detail_fidelity")
    assert (kind, why) == ("unparsable", '"source_index" is 7, there is 0 to 1')

    assert table["i2i.se.instruction_following"]["counts"] == {"failed": 1}
    assert after["i2i.se.instruction_following"]["value"] == pytest.approx(LEVEL)
    assert table["i2i.se.editing_artifacts"]["value"] is None
    assert table["i2i.me.image_quality"]["counts"] == {"scored": 1, "missing_output": 1}
    assert table["i2i.me.image_quality"]["value"] == 0.75
    assert table["i2i.se.overall"]["value"] is None
    failed = "no value yet for i2i.se.instruction_following (failed)"
    assert table["i2i.se.overall"]["reason"] == failed
    assert after["i2i.se.overall"]["value"] == pytest.approx(LEVEL), "of all that has a number"


class Forgetful(Specialists):
    """In the pictures of `loses` nothing is found but in the last item's."""

    def _segment(self, name: str, inputs: dict[str, bytes]) -> Any:
        gone = name.startswith("loses/") and name != "loses/me-3.png"
        return super()._segment(name, inputs | {"PROMPT": b"nothing"} if gone else inputs)


async def test_a_model_that_loses_subjects(tmp_path: Path) -> None:
    names = ["subject_consistency", "subject_extraction_composition", "image_quality"]
    items = [{"id": f"me-{i}", "task": "basic_combination", "dimensions": names} for i in range(4)]
    i2i = I2i(tmp_path, items, "keeps", "loses")
    judge, specialists = Judge(), Forgetful(tmp_path)
    usual, found_only = tmp_path / "usual", tmp_path / "found_only"
    async with judge.serving() as url, specialists.serving() as grpc:
        run = ["run", *i2i.arguments, "--generalist", url, "--endpoint", grpc, "--out"]
        for one in ([usual], [found_only, "--with", "found_only"]):
            done = await asyncio.to_thread(command, *run, *one)
            assert done.code == 0, done.err
    consistency, extraction = (f"i2i.me.{name}" for name in names[:2])

    # Each lost subject counts as 0, and the table shows how many there are.
    models = verb("summary", usual, "--json").json["models"]
    assert models["keeps"][consistency]["imputed"] == 0
    row = models["loses"]
    assert row[consistency]["value"] == pytest.approx(24 / 25 / 4)
    assert row[extraction]["value"] == pytest.approx(0.7 * 24 / 25 / 4)
    for name in (consistency, extraction):
        assert (row[name]["counts"], row[name]["imputed"]) == ({"scored": 4}, 3)
        assert models["keeps"][name]["value"] > row[name]["value"]
    for model, share in (("keeps", 0), ("loses", 3 / 4)):
        assert models[model][f"{consistency}.lost"]["value"] == pytest.approx(share)
    assert "Share lost" in verb("summary", usual).out

    # A mean over what was found, with its coverage: losing subjects costs nothing else.
    models = verb("summary", found_only, "--json").json["models"]
    for model, coverage in (("keeps", {"scored": 4}), ("loses", {"scored": 1, "unscored": 3})):
        row = models[model]
        assert row[consistency]["value"] == pytest.approx(24 / 25)
        assert row[consistency]["counts"] == row[extraction]["counts"] == coverage
        assert row["i2i.me.overall"]["value"] == pytest.approx(
            (4 * 0.75 + coverage["scored"] * (1 + 0.7) * 24 / 25) / (4 + 2 * coverage["scored"])
        )
    assert models["loses"][f"{consistency}.lost"]["value"] == pytest.approx(3 / 4)
    i2i.out = found_only
    why = i2i.evidence("loses", "me-0", consistency).reason
    assert why == "; ".join(
        f"'left part' was found in the source image {n} and not in the edited image" for n in (1, 2)
    )
    signed = [
        verb("summary", one, "--json").json["models"]["keeps"][consistency]["signature"]
        for one in (usual, found_only)
    ]
    assert signed[0] != signed[1]


async def test_what_the_paper_says_elsewhere(tmp_path: Path) -> None:
    i2i = I2i(tmp_path, [one for one in ITEMS if one["id"] == "me-full"], "ours")
    items = tmp_path / "items.jsonl"
    items.write_text(items.read_text().replace('"aesthetic', f'"{ARTIFACTS}", "aesthetic', 1))
    names = ("transfer_yes_no", "consistency_levels", "inverted_elements", "me_editing_artifacts")
    switches = [part for name in names for part in ("--with", name)]
    async with i2i.served() as (judge, _, served):
        run = ["run", *i2i.arguments, "--out", i2i.out, *served, *switches]
        done = await asyncio.to_thread(command, *run)
    assert done.code == 0, done.err
    table = verb("summary", i2i.out, "--json")
    assert table.json["protocol"] == "i2i.paper.3" + "".join(f"+{n}" for n in sorted(names))
    row = cells(table, "ours")
    other = {
        "cross_source_transfer": 0.7,
        "inter_subject_consistency": LEVEL,
        "non_edited_element_fidelity": 4 / 5,
        ARTIFACTS: LEVEL,
    }
    due = {n: v for n, v in expected(0.75, me_extra=other).items() if n.startswith("i2i.me.")}
    assert len(due) == 16
    for name, value in due.items():
        assert row[name] == (pytest.approx(value, abs=1e-9), 1, 1), name
    overall = sum(due.values()) / 16
    assert row["i2i.me.overall"][0] == pytest.approx(overall, abs=1e-9)
    assert judge.prompts["transfer"] == judge.prompts["harmony"] == judge.prompts["artifacts"] == 1


async def test_what_is_outside_of_yes_and_no(tmp_path: Path, monkeypatch: Any) -> None:
    """Equation 4 is P(Yes): 0.45, and 0.75 of Yes and No alone. The same replies tell both."""
    monkeypatch.setitem(globals(), "YES", {"Yes": 0.45, "No": 0.15, "Maybe": 0.4})
    i2i = I2i(tmp_path, ITEMS, "ours", "theirs")
    ledger = ["--ledger", tmp_path / "ledger.sqlite"]
    tables, asked = [], []
    async with i2i.served() as (judge, _, served):
        for number, more in enumerate(([], ["--with", "unnormalised"])):
            run = ["run", *i2i.arguments, "--out", tmp_path / f"{number}", *served, *ledger, *more]
            done = await asyncio.to_thread(command, *run)
            assert done.code == 0, done.err
            tables.append(verb("summary", tmp_path / f"{number}", "--json"))
            asked.append(dict(judge.prompts))
    assert asked[0] == asked[1], "nothing is asked anew"
    usual, raw = (cells(table, "ours") for table in tables)
    for name in ("se.spatial_accuracy", "se.world_knowledge_reasoning", "me.spatial_accuracy"):
        assert usual[f"i2i.{name}"][0] == pytest.approx(0.75)
        assert raw[f"i2i.{name}"] == (pytest.approx(0.45), *usual[f"i2i.{name}"][1:])
    extraction = "i2i.me.subject_extraction_composition"
    assert raw[extraction][0] == pytest.approx(usual[extraction][0] * 0.6)
    same = ("se.blending_naturalness", "se.physical_plausibility", "me.subject_consistency")
    assert [raw[f"i2i.{name}"] for name in same] == [usual[f"i2i.{name}"] for name in same]
    for table in tables:
        outside = {n: c["outside"] for n, c in table.json["models"]["theirs"].items()}
        assert outside["i2i.se.spatial_accuracy"] == pytest.approx(0.4)
        assert outside[extraction] == pytest.approx(0.4)
        assert outside["i2i.se.blending_naturalness"] == pytest.approx(0, abs=1e-9)
        assert outside["i2i.se.physical_plausibility"] == pytest.approx(0, abs=1e-9)
        for none in ("se.image_quality", "me.subject_consistency", "se.overall"):
            assert outside[f"i2i.{none}"] is None, "no choices: not 0"
    told = " ".join(verb("summary", tmp_path / "0").out.split())
    assert "mean probability on none of the choices, of the model with most: " in told
    assert "Spatial Accuracy 40.0%" in told


async def test_commands_by_the_edited_image_are_asked_of_each_model(tmp_path: Path) -> None:
    """What one model lost may not be what another one lost: nothing is shared between them."""
    i2i = I2i(tmp_path, ITEMS, "ours", "theirs")
    async with i2i.served() as (judge, specialists, served):
        run = ["run", *i2i.arguments, "--out", i2i.out, *served, "--with", "edited_in_commands"]
        done = await asyncio.to_thread(command, *run)
        assert done.code == 0, done.err
    assert judge.prompts["unchanged"] == 2
    assert judge.prompts["subjects"] == judge.prompts["details"] == 2 * 2
    assert judge.prompts["preserved"] == 2 * 2
    shown = {}
    for one in judge.requests:
        parts = one["messages"][-1]["content"]
        text = json.dumps(one["messages"])
        if "frozen water" not in text and _named(text) in {"unchanged", "subjects"}:
            urls = [p["image_url"]["url"] for p in parts if p["type"] == "image_url"]
            files = [specialists.names[base64.b64decode(u.partition(",")[2])] for u in urls]
            shown[files[-1]] = files[:-1]
    assert shown == {
        f"{model}/{item}.png": sources
        for model in ("ours", "theirs")
        for item, sources in (
            ("se-full", ["source-0a.png"]),
            ("me-full", ["source-2a.png", "source-2b.png"]),
            ("me-plain", ["source-3a.png", "source-3b.png"]),
        )
    }
    row = cells(verb("summary", i2i.out, "--json"), "ours")
    for name, value in expected(OURS["text"]).items():
        assert row[name][0] == pytest.approx(value, abs=1e-9), name


def test_bad_requests_get_one_clear_line(tmp_path: Path) -> None:
    i2i = I2i(tmp_path, ITEMS, "ours")
    official = verb("validate", *i2i.arguments, "--protocol", "official")
    assert official.code == 2
    assert "neither code nor data" in official.err
    assert len(official.err.strip().splitlines()) == 1
    items = tmp_path / "items.jsonl"
    items.write_text(items.read_text().replace("basic_combination", "local_editing"))
    wrong = verb("validate", *i2i.arguments)
    assert wrong.code == 2
    assert "line 4: local_editing is single-image editing" in wrong.out
