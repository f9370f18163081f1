"""GIE-Bench from its released file to its tables, by both protocols, with scripted services."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil
from tritonclient.grpc import service_pb2

from editjudge.base.images import decode
from editjudge.benchmarks.gie.release import convert
from editjudge.pixels.alignment import align
from editjudge.pixels.metrics import mse, psnr

from ..fakes.openai import ScriptedOpenAi, reply
from ..fakes.triton import ScriptedTriton
from ..fakes.triton import reply as tensors
from ..unit.benchmarks.gie.made import odd, picture, pixels, released, shifted
from ..unit.benchmarks.gie.stand_ins import imported
from .conftest import Ran
from .test_kris import verb
from .test_run import command

MISSING = 8
SAID = {
    "Add Object": "The new one",
    "Color Change": "the new one.",
    "Textual Edit": "MY",
    "Size Change": "Yes",
    "Remove Object": "The old one",
    "Scene Change": "The new one",
    "Background Change": "Something else",
    "Layout Modification": "The new one",
    "Attribute Change": "The new one",
}
"""By what the question names; the seventh is no option."""


class Judge(ScriptedOpenAi):
    """Answers the question that it finds; keeps which prompts held how many images."""

    def __init__(self) -> None:
        super().__init__()
        self.images: dict[str, list[int]] = {}
        self.texts: list[str] = []

    def said(self) -> dict[str, Any]:
        messages = self.requests[-1]["messages"]
        parts = [p for m in messages if isinstance(m["content"], list) for p in m["content"]]
        text = "".join(p["text"] for p in parts if p["type"] == "text")
        asked = re.search(r"What of ([\w ]+)\?|What (colour) is it compared", text)
        if asked is None:
            return super().said()
        self.texts.append(text)
        name = asked[1] or "Color Change"
        images = sum(p["type"] == "image_url" for p in parts)
        self.images.setdefault(name, []).append(images)
        return reply(SAID[name])


class Clip(ScriptedTriton):
    """The mean colour of the region, and which regions were asked for."""

    def __init__(self) -> None:
        super().__init__(models=("clip_vit_b_32",))
        self.regions: list[tuple[str, tuple[int, ...]]] = []

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        pairs = zip(request.inputs, request.raw_input_contents, strict=True)
        given = {tensor.name: decode(raw[4:])[0] for tensor, raw in pairs}
        image = given["IMAGE"].astype(np.float32) + 1
        if "MASK" in given:
            rule = request.parameters["region"].string_param
            self.regions.append((rule, image.shape[:2]))
            image = image[given["MASK"][..., 0] > 0]
        mean = image.reshape(-1, 3).mean(0, dtype=np.float64).astype(np.float32)
        assert isinstance(request, service_pb2.ModelInferRequest)
        return tensors(EMBEDDING=mean[None])


class Gie:
    """Ten records of the released form, a model with odd outputs, and one that changes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = released(folder / "gie bench")
        self.records = odd()
        for index, one in enumerate(self.records):
            source = np.asarray(Pil.open(self.source(index)))
            Pil.fromarray(source).save(self.output("copy", f"{index}.png"))
            if index == MISSING:
                continue
            # Records 6 and 7 share instruction and image; their outputs are their own.
            edited = shifted(source, 2 + index, 1)
            edited[48:88, 80:150] = 255
            name = {1: "1.PNG", 3: "3.jpeg", 7: "7.webp"}.get(index, f"{index}.png")
            if index == 9:
                edited = np.full_like(source, 127)  # nothing to align
            assert one["object_mask"]
            Pil.fromarray(edited).save(self.output("ours", name), quality=95, lossless=True)

    def source(self, index: int) -> Path:
        path: Path = self.file.parent / self.records[index]["image"].lstrip("/")
        return path

    def output(self, model: str, name: str) -> Path:
        path = self.folder / "results" / model / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def arguments(self, *models: str, data: Path | None = None) -> list[Any]:
        given = [("--outputs", f"{m}={self.folder / 'results' / m}") for m in models]
        return ["gie", "--data", data or self.file, *(part for pair in given for part in pair)]


@pytest.fixture
def gie(tmp_path: Path) -> Gie:
    return Gie(tmp_path)


def cell(ran: Ran, model: str, name: str) -> tuple[float | None, int, int]:
    found = ran.json["models"][model][f"gie.{name}"]
    return found["value"], found["scored"], found["asked"]


def errors(gie: Gie, *, masked: bool) -> list[tuple[float, float]]:
    """MSE and PSNR by the library alone: 9 cannot be aligned, and counts where masks do."""
    found = []
    for index, one in enumerate(gie.records):
        (path,) = [*gie.folder.glob(f"results/ours/{index}.*")] or [None]
        if path is None or (index == 9 and not masked):
            continue
        source, edited = decode(gie.source(index).read_bytes())[0], decode(path.read_bytes())[0]
        large = Pil.fromarray(np.array(one["object_mask"], bool)).resize((240, 160))
        outside = ~np.asarray(large, bool)
        if masked and not outside.any():
            continue
        aligned = edited if index == 9 else align(edited, source).image
        region = outside if masked else None
        found.append((mse(source, aligned, region), psnr(source, aligned, region).value))
    return found


async def run_and_summary(gie: Gie, protocol: str) -> tuple[Ran, Ran, Judge, Clip]:
    judge, clip = Judge(), Clip()
    out = gie.folder / protocol
    # What stands in for the authors' prompts is known to this process alone.
    run = verb if protocol == "official" else command
    async with judge.serving() as judge_url, clip.serving() as triton:
        ran = await asyncio.to_thread(
            run,
            *("run", *gie.arguments("ours", "copy"), "--protocol", protocol, "--out", out),
            *("--generalist", judge_url, "--endpoint", triton),
        )
    assert ran.code == 0, ran.err
    return ran, verb("summary", out, "--json"), judge, clip


async def test_from_the_released_file_to_both_tables(
    gie: Gie, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(monkeypatch, tmp_path / "prompts")
    ran, paper, judge, clip = await run_and_summary(gie, "paper")
    assert "ours: 1 output is missing" in ran.err
    assert paper.json["protocol"] == "gie.paper.3"
    assert paper.json["items"] == 10

    # Right: 0, 1 (case), 3, 5 and 9; wrong: 2 (cannot be won) and 4; 6 and 7 cannot be read, 8 is
    # missing.
    assert cell(paper, "ours", "overall") == (pytest.approx(100 * 5 / 7), 7, 10)
    assert cell(paper, "ours", "add_object") == (100, 1, 1)
    assert cell(paper, "ours", "scene_background_change") == (100, 1, 3)
    assert cell(paper, "ours", "textual_edit") == (0, 1, 1)
    assert paper.json["models"]["ours"]["gie.textual_edit"]["imputed"] == 1
    assert cell(paper, "ours", "object_replacement") == (None, 0, 0)
    assert cell(paper, "ours", "layout_modification") == (None, 0, 1)
    assert cell(paper, "ours", "reachable_maximum") == (pytest.approx(100 * 8 / 9), 9, 10)
    counts = paper.json["models"]["ours"]["gie.overall"]["counts"]
    assert counts == {"scored": 7, "unscored": 2, "missing_output": 1}
    assert set(judge.images["Color Change"]) == {2}, "the question compares"
    assert set(judge.images["Add Object"]) == {1}
    assert "Textual Edit" not in judge.images

    # 5 has nothing outside its mask; 9 cannot be aligned, and is measured all the same.
    masked = errors(gie, masked=True)
    assert len(masked) == 8
    expected = [float(np.mean(one)) for one in zip(*masked, strict=True)]
    assert cell(paper, "ours", "mean.mse") == (pytest.approx(expected[0], rel=1e-6), 8, 10)
    assert cell(paper, "ours", "mean.psnr") == (pytest.approx(expected[1], rel=1e-6), 8, 10)
    assert cell(paper, "ours", "unaligned") == (pytest.approx(100 / 9), 9, 10)
    # The second mean: the missing output counts as the worst there is, and as nothing right.
    second = verb("summary", gie.folder / "paper", "--json", "--count-missing")
    assert second.json["count_missing"] is True
    assert cell(second, "ours", "overall") == (pytest.approx(100 * 5 / 8), 8, 10)
    worst = (8 * expected[0] + 65025) / 9
    assert cell(second, "ours", "mean.mse") == (pytest.approx(worst, rel=1e-6), 9, 10)
    assert cell(second, "ours", "reachable_maximum")[1:] == (9, 10)
    whole, whole_too = (said.json["models"]["copy"]["gie.overall"] for said in (second, paper))
    assert whole["signature"] == f"{whole_too['signature']}|missing:worst"
    # Counted, the outputs that others lack are items of theirs too.
    assert (whole["other_items"], whole_too["other_items"]) == (False, True)
    moved = {"signature": "", "other_items": False}
    assert whole | moved == whole_too | moved
    inverted = cell(paper, "ours", "preservation")[0]
    assert inverted is not None
    assert cell(second, "ours", "preservation")[0] == pytest.approx(inverted * 8 / 9), "0 for it"
    shown = verb("summary", gie.folder / "paper", "--count-missing").out
    assert "missing outputs count as the worst value of each metric" in shown
    assert cell(paper, "ours", "mean.ssim")[1:] == (8, 10)
    assert cell(paper, "ours", "mean.clip")[1:] == (8, 10)
    assert cell(paper, "ours", "mean.clip_whole")[1:] == (9, 10)
    assert {rule for rule, _ in clip.regions} == {"pool"}
    for name, value in (("mse", 0), ("psnr", 100), ("ssim", 1), ("clip", 1)):
        assert cell(paper, "copy", f"mean.{name}") == (pytest.approx(value), 9, 10)
    score, scored, _ = cell(paper, "copy", "preservation")
    assert (score, scored) == (1, 9)
    largest = max(error for error, _ in masked)
    mine = 1 - float(np.mean([error for error, _ in masked])) / largest
    assert cell(paper, "ours", "preservation")[0] == pytest.approx(mine, rel=1e-6)

    _, official, judge, clip = await run_and_summary(gie, "official")
    assert official.json["protocol"] == "gie.official.3"
    assert official.json["prompts"] == "original"
    assert all(text.startswith("Original image:Edited image:Asked: ") for text in judge.texts)
    # To the letter only 0, 5 and 9 are right; what is no option is wrong too, and it is asked.
    assert cell(official, "ours", "overall") == (pytest.approx(100 * 3 / 9), 9, 10)
    assert cell(official, "ours", "scene_background_change") == (pytest.approx(100 / 3), 3, 3)
    assert cell(official, "ours", "reachable_maximum") == (pytest.approx(100 * 7 / 9), 9, 10)
    assert {n for counts in judge.images.values() for n in counts} == {2}
    assert "Textual Edit" in judge.images
    unmasked = errors(gie, masked=False)
    assert len(unmasked) == 8
    expected = [float(np.mean(one)) for one in zip(*unmasked, strict=True)]
    assert cell(official, "ours", "mean.mse") == (pytest.approx(expected[0], rel=1e-6), 8, 10)
    assert cell(official, "ours", "mean.psnr") == (pytest.approx(expected[1], rel=1e-6), 8, 10)
    assert cell(official, "ours", "mean.ssim")[1:] == (9, 10)
    assert cell(official, "ours", "mean.clip")[1:] == (9, 10)
    assert official.json["models"]["ours"]["gie.mean.clip"]["imputed"] == 1
    assert set(clip.regions) == {("pool_any", (224, 224))}
    assert not {"gie.preservation", "gie.unaligned"} & official.json["models"]["ours"].keys()
    # What no note says that it differs does not.
    same = {"mean.clip_whole"}
    for name in same:
        assert cell(official, "ours", name) == cell(paper, "ours", name)
    differ = [
        c
        for c in official.json["models"]["ours"]
        if official.json["models"]["ours"][c]["value"] != paper.json["models"]["ours"][c]["value"]
    ]
    assert sorted(differ) == sorted(
        f"gie.{name}"
        for name in (
            *("size_change", "color_change", "scene_background_change", "overall"),
            *("reachable_maximum", "mean.ssim", "mean.clip", "mean.psnr", "mean.mse"),
        )
    )
    shown = verb("summary", gie.folder / "paper")
    assert "GIE-Bench, tables 2 and 3, gie.paper.3, 10 items, prompts: own" in shown.out


@pytest.mark.parametrize("verb_name", ["run", "validate"])
def test_official_needs_the_authors_prompts(
    gie: Gie, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb_name: str
) -> None:
    monkeypatch.setenv("EDITJUDGE_PROMPTS_DIR", str(tmp_path / "none"))
    out = ["--out", gie.folder / "run"] if verb_name == "run" else []
    given = [verb_name, *gie.arguments("copy"), *out, "--protocol", "official"]
    done = command(*given)
    assert done.code == 2
    assert "the official prompts of gie are not imported" in done.err
    assert "editjudge prompts import gie PATH" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (gie.folder / "run").exists()
    if verb_name == "validate":
        done = command(*given, "--without", "original_prompts")
        assert done.code == 0, done.err


def test_validate_tells_what_is_odd(gie: Gie) -> None:
    picture(gie.output("ours", "10.png"), pixels(1))
    picture(gie.output("ours", "0.jpg"), pixels(1))
    done = verb("validate", *gie.arguments("ours", "copy"), "--json")
    assert done.code == 2
    found = done.json
    assert found["items"] == 10
    assert found["outputs"] == {"ours": 8, "copy": 10}
    problems = {(p["kind"], p["where"]) for p in found["problems"] if not p["note"]}
    assert problems == {("missing", "ours"), ("extra", "ours"), ("shifted", "ours")}
    notes = [p["what"] for p in found["problems"] if p["note"]]
    assert any("cannot be won" in note and "(2)" in note for note in notes)
    assert any("all-black mask" in note for note in notes)
    assert any("all-white mask" in note for note in notes)
    assert any("repeats another's" in note for note in notes)
    assert 0 < found["mask_share"] < 0.5
    # Two models, nine questions that can be won; 8 has no output of ours, and 0 has two.
    assert found["calls"]["generalist.judge"] == 9 + 7
    well = verb("validate", *gie.arguments("copy"))
    assert well.code == 0, well.out
    assert "no problems found" in well.out


async def test_a_run_goes_on_with_the_converted_file(gie: Gie) -> None:
    out, compact = gie.folder / "run", gie.folder / "compact"
    given = ["--out", out, "--dimension", "gie.mse", "--dimension", "gie.ssim"]
    assert command("run", *gie.arguments("ours"), *given).code == 0
    convert(gie.file, compact)
    done = command("run", *gie.arguments("ours", data=compact), *given, "--dry-run", "--json")
    assert done.code == 0, done.err
    assert done.json["calls"] == {}
    again = command("run", *gie.arguments("ours", data=compact), *given)
    assert again.code == 0, again.err
    (gie.file).unlink()
    table = verb("summary", out, "--json")
    assert cell(table, "ours", "mean.mse")[1:] == (8, 10)


def test_images_elsewhere(gie: Gie, tmp_path: Path) -> None:
    images = tmp_path / "pexels"
    images.mkdir()
    for folder in [p for p in gie.file.parent.iterdir() if p.is_dir()]:
        folder.rename(images / folder.name)
    lost = verb("validate", *gie.arguments("copy"))
    assert lost.code == 2
    assert "no such file" in lost.out
    found = verb("validate", *gie.arguments("copy"), "--root", f"/={images}")
    assert found.code == 0, found.out


def test_outputs_by_the_paths_in_the_file(gie: Gie) -> None:
    records = json.loads(gie.file.read_text())
    for index, one in enumerate(records):
        if index != MISSING:
            one["edited_image_path"] = str(gie.folder / "results" / "copy" / f"{index}.png")
    mine = gie.folder / "mine.json"
    mine.write_text(json.dumps(records))
    given = ["gie", "--data", gie.file, "--outputs", f"copy={mine}"]
    assert verb("validate", *given, "--json").json["outputs"] == {"copy": 9}
    out = gie.folder / "run"
    done = command("run", *given, "--dimension", "gie.mse", "--out", out)
    assert done.code == 0, done.err
    assert "record 8 of " in done.err
    assert cell(verb("summary", out, "--json"), "copy", "mean.mse") == (0, 8, 10)


async def test_questions_are_checked_on_unedited_pictures(gie: Gie) -> None:
    judge, out = Judge(), gie.folder / "run"
    async with judge.serving() as judge_url:
        done = await asyncio.to_thread(
            verb,
            *("run", "gie", "--data", gie.file, "--outputs", "unedited=:sources", "--out", out),
            *("--dimension", "gie.functional_correctness", "--generalist", judge_url),
            *("--rounds", 2),
        )
    assert done.code == 0, done.err
    overall = cell(verb("summary", out, "--json"), "unedited", "overall")
    assert overall == (pytest.approx(100 * 6 / 8), 8, 10)
    shown = verb("summary", out, "--each-round").out
    assert "run 1" in shown
    assert "run 2" in shown
    assert "run 1" not in verb("summary", out).out


def own(folder: Path) -> list[Any]:
    """Two items of one's own with sources that are no squares; one output is."""
    lines = []
    for index, size in enumerate(((240, 160), (200, 200))):
        source, where = pixels(index), np.zeros((160, 240), bool)
        where[40:90, 80:150] = True
        picture(folder / f"{index}.png", source)
        picture(folder / f"m{index}.png", where)
        edited = shifted(source, 2, 1)
        edited[48:88, 90:140] = 255
        resized = np.asarray(Pil.fromarray(edited).resize(size, Pil.Resampling.LANCZOS))
        picture(folder / "results" / f"own/{index}.png", resized)
        asked = {
            "question": "What of Add Object?",
            "options": ["The new one", "The old one"],
            "answer": ("the new one.", "Something else")[index],
            "compares": bool(index),
        }
        about = {"id": f"own/{index}", "instruction": "Do it.", "task": "Add Object"}
        files = {"source": f"{index}.png", "mask": f"m{index}.png"}
        lines.append(about | files | {"questions": [asked]})
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return ["gie", "--data", folder / "items.jsonl", "--outputs", f"ours={folder / 'results'}"]


@pytest.mark.parametrize("protocol", ["paper", "official"])
async def test_data_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    imported(monkeypatch, tmp_path / "prompts")
    given = own(tmp_path / "own")
    well = verb("validate", *given)
    assert well.code == 0, well.out
    for note in ("so the question cannot be won: it counts as wrong (own/1)", "too (own/1)"):
        assert note in " ".join(well.out.split())
    judge, clip = Judge(), Clip()
    async with judge.serving() as judge_url, clip.serving() as triton:
        ran = await asyncio.to_thread(
            verb,
            *("run", *given, "--protocol", protocol, "--out", tmp_path / "run"),
            *("--generalist", judge_url, "--endpoint", triton),
        )
    assert ran.code == 0, ran.err
    table = verb("summary", tmp_path / "run", "--json")
    for name in ("mse", "psnr", "ssim", "clip", "clip_whole"):
        assert cell(table, "ours", f"mean.{name}")[1:] == (2, 2)
    right = {"paper": 50, "official": 0}[protocol]
    assert cell(table, "ours", "add_object") == (right, 2, 2)


def test_the_folder_is_converted(gie: Gie) -> None:
    done = verb("prepare", "gie", "--data", gie.file.parent, "--out", gie.folder / "compact")
    assert done.code == 0, done.err
    assert "1 item: the question compares with the source" in done.out
    well = verb("validate", *gie.arguments("copy", data=gie.folder / "compact"))
    assert well.code == 0, well.out


class Decider(ScriptedOpenAi):
    """Says whether a question compares; of the questions about size nothing that can be read."""

    def said(self) -> dict[str, Any]:
        text = json.dumps(self.requests[-1]["messages"])
        yes = 0.9 if "Add Object" in text else 0.2
        self.probabilities = {"Yes": yes, "No": 1 - yes}
        if "Size Change" in text:
            self.probabilities = {"Maybe": 1.0}
        return super().said()

    @property
    def about(self) -> int:
        return sum("judge will be asked about an image" in json.dumps(r) for r in self.requests)


async def test_the_judge_decides_once_which_questions_compare(gie: Gie) -> None:
    server, out = Decider(), gie.folder / "compact"
    given = ("prepare", "gie", "--data", gie.file, "--out", out)
    async with server.serving() as url:
        done = await asyncio.to_thread(command, *given, "--generalist", url)
        assert done.code == 0, done.err
        asked = server.about
        assert asked >= 9
        assert "1 question compares with the source" in done.out
        assert "of 2 their words say otherwise" in done.out
        assert "of 1 question no answer could be read" in done.err
        decided = json.loads((out / "compares.json").read_text())
        assert [one["position"] for one in decided[:2]] == [0, 1]
        decided[1]["compares"] = True  # somebody looked it over
        (out / "compares.json").write_text(json.dumps(decided))
        again = await asyncio.to_thread(command, *given, "--generalist", url, "--json")
        assert again.code == 0, again.err
    assert json.loads((out / "compares.json").read_text())[0]["position"] == 0
    kept = {one["position"]: one["compares"] for one in json.loads(
        (out / "compares.json").read_text())}  # fmt: skip
    assert (kept[0], kept[1], kept[2]) == (True, True, False), "what people wrote is kept"
    without = command(*given)
    assert without.code == 0, without.err
    assert "no judge is configured" in without.err
