"""`editjudge prepare masks` in processes of its own, against scripted services."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from PIL import Image as Pil
from tritonclient.grpc import service_pb2

from editjudge.base.images import load_mask
from editjudge.benchmarks.co_edit.dataset import CoEditData
from editjudge.benchmarks.registry import load_dimensions

from ..fakes.grpc_server import Failure
from ..fakes.triton import ScriptedTriton
from .conftest import run_in_process
from .test_prepare import SIZE, Set, Writer, counts, run_prepare
from .test_prepare import data as data


class Segmenter(ScriptedTriton):
    """Finds the left half for cups, the top for saucers, and nothing else."""

    def __init__(self, **more: Any) -> None:
        super().__init__(models=("segmenter_grounded_sam", "segmenter_sa2va"), **more)
        self.prompts: list[str] = []
        self.failing: dict[str, Failure] = {}

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        inputs = dict(zip((one.name for one in request.inputs), request.raw_input_contents, strict=True))
        prompt = inputs["PROMPT"][4:].decode()
        self.prompts.append(prompt)
        self.requests.append(request)
        if prompt in self.failing:
            failure = self.failing[prompt]
            await context.abort(failure.code, failure.detail)
        mask = np.zeros(SIZE[::-1], np.uint8)
        if "cup" in prompt:
            mask[:, : SIZE[0] // 2] = 255
        if "saucer" in prompt:
            mask[: SIZE[1] // 2] = 255
        return make_mask_reply(mask)


def make_mask_reply(mask: np.ndarray) -> Any:
    buffer = io.BytesIO()
    Pil.fromarray(mask).save(buffer, "PNG")
    png = buffer.getvalue() if mask.any() else b""
    response = service_pb2.ModelInferResponse()
    response.outputs.add(name="MASK", datatype="BYTES", shape=[1, 1])
    response.raw_output_contents.append(len(png).to_bytes(4, "little") + png)
    response.outputs.add(name="SCORE", datatype="FP32", shape=[1, 1])
    response.raw_output_contents.append(np.array([0.5 if png else 0.0], np.float32).tobytes())
    return response


async def test_masks_are_the_union_of_what_is_found(data: Set) -> None:
    white = np.full(SIZE[::-1], 255, np.uint8)
    Pil.fromarray(white).save(data.folder / "white.png")
    data.write(
        7,
        _1={"mask": "white.png", "mask_shows": "edited"},
        _2={"source": None, "sources": ["images/0.png", "images/1.png"]},
    )
    writer, segmenter = Writer(), Segmenter()
    writer.says = {
        "edit number 3.": {"scope": "whole", "phrases": []},
        "edit number 4.": {"scope": "surroundings", "phrases": ["cup"]},
        "edit number 5.": {"scope": "objects", "phrases": ["unicorn"]},
        "edit number 6.": {"scope": "objects", "phrases": ["unicorn", "cup"]},
    }
    async with writer.serving() as url, segmenter.serving() as triton:
        by = ("--endpoint", triton)
        first = await data.prepare("masks", url, *by)
        assert counts(first) == {"made": 4, "not_found": 1, "had": 1, "unsuited": 1}
        assert "unicorn" in first.json["reasons"]["not_found"]["set/5"]
        assert sorted(segmenter.prompts) == sorted(["the cup", "its saucer", "cup", "unicorn", "unicorn", "cup"])
        parameters = segmenter.requests[0].parameters
        assert parameters["select"].string_param == "best"
        made = writer.count, len(segmenter.requests)
        await data.prepare("masks", url, *by)
        assert (writer.count, len(segmenter.requests)) == made
        await data.prepare("masks", url, *by, "--segmenter", "segmenter.sa2va")
        assert writer.count == made[0], "the phrases are known"
        assert len(segmenter.requests) == 2 * made[1]
    lines = data.items()
    share = {line["id"]: load_mask(data.out / line["mask"]).region.mean() for line in lines if "mask" in line}
    assert share == {"set/0": 0.75, "set/1": 1.0, "set/3": 1.0, "set/4": 0.5, "set/6": 0.5}
    shows = {one["id"]: one["mask_shows"] for one in lines if "mask" in one}
    assert shows.pop("set/4") == "kept", "what was named is white, and it is kept"
    assert set(shows.values()) == {"edited"}
    assert lines[0]["mask"] == "masks/set/0.png"
    page = (data.out / "review.html").read_text()
    assert '["not found","unicorn"]' in page
    assert "set/1" not in page, "it had a mask before"


async def test_masks_for_other_benchmarks_items(data: Set, tmp_path: Path) -> None:
    """Their fields are kept, and what the benchmark demands is what is made."""
    own = {
        "co_edit": [{"type": "text_editing"}, {"type": "background_editing", "subject": True}],
        "i2i": [{"task": "local_editing", "dimensions": ["spatial_accuracy"]}] * 2,
    }
    writer, segmenter = Writer(), Segmenter()
    writer.says = {"edit number 1.": {"scope": "surroundings", "phrases": ["cup"]}}
    outputs = tmp_path / "outputs"
    (outputs / "set").mkdir(parents=True)
    for index in range(2):
        shutil.copy(data.folder / "images" / f"{index}.png", outputs / "set")
    async with writer.serving() as url, segmenter.serving() as triton:
        for name, fields in own.items():
            data.write(2, _0={"task": None} | fields[0], _1={"task": None} | fields[1])
            given = [json.loads(line) for line in data.file.read_text().splitlines()]
            data.out = tmp_path / name
            done = await data.prepare("masks", url, "--endpoint", triton)
            assert counts(done) == {"made": 2}
            made = data.items()
            for one, line in zip(given, made, strict=True):
                found = {name: line[name] for name in ("source", "mask", "mask_shows")}
                assert line == one | found
            assert [line["mask_shows"] for line in made] == ["edited", "kept"]
            items = data.out / "items.jsonl"
            well = run_in_process("validate", name, "--data", items, "--outputs", f"m={outputs}", "--json")
            assert well.code == 0, well.out


async def test_an_edit_of_the_whole_image_goes_through_without_a_mask(data: Set) -> None:
    """A white one would leave nothing outside it, and the item without a number."""
    tone, text = ({"task": None, "type": kind} for kind in ("tone_editing", "text_editing"))
    data.write(2, _0=tone, _1=text)
    writer, segmenter = Writer(), Segmenter()
    async with writer.serving() as url, segmenter.serving() as triton:
        done = await data.prepare("masks", url, "--endpoint", triton)
        assert counts(done) == {"made": 1, "unsuited": 1}
        why = done.json["reasons"]["unsuited"]["set/0"]
        assert why == "tone_editing is of the whole image, so it needs no mask"
        assert writer.asked_about("edit number 0.") == 0
        asked = data.arguments("masks", "--generalist", url, "--endpoint", triton)
        assert "1 made, 1 of a kind that needs none" in (await run_prepare(*asked)).out
    reads = CoEditData(data.out)
    of_tone, of_text = (reads.load(ref) for ref in reads.check_items())
    assert of_tone.mask is None
    kept = {one.id: one for one in load_dimensions().values() if one.id.startswith("co_edit.non_")}
    assert kept
    assert not any(one.why_not_applicable(of_text) for one in kept.values())
    assert all(one.why_not_applicable(of_tone) for one in kept.values())


async def test_a_segmenter_that_fails_costs_its_items_only(data: Set) -> None:
    data.write(3)
    writer, segmenter = Writer(), Segmenter()
    writer.says = {"edit number 1.": {"scope": "objects", "phrases": ["cup"]}}
    segmenter.failing = {"its saucer": Failure(grpc.StatusCode.INTERNAL, "out of memory")}
    async with writer.serving() as url, segmenter.serving() as triton:
        first = await data.prepare("masks", url, "--endpoint", triton, code=3)
        assert counts(first) == {"made": 1, "failed": 2}
        assert "out of memory" in first.json["reasons"]["failed"]["set/0"]
        segmenter.failing, asked_judge = {}, writer.count
        segmenter.prompts.clear()
        await data.prepare("masks", url, "--endpoint", triton)
    assert writer.count == asked_judge
    assert set(segmenter.prompts) == {"its saucer"}
