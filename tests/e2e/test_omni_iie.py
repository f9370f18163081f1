"""Omni IIE Bench from its lists to its tables, with a scripted judge and scripted specialists."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.images import decode
from editjudge.benchmarks.omni_iie.columns import overall

from ..fakes.openai import ScriptedOpenAi, reply
from ..fakes.triton import ScriptedTriton
from ..fakes.triton import reply as tensors
from ..unit.benchmarks.omni_iie.made import AUTHORS, mask, picture, record, released
from .conftest import Ran
from .test_kris import verb
from .test_run import command

OWN = [{"question": "Is the bus blue?", "correct_answer": "Yes"}]
SINGLE = [
    record("coco2017val", "0001", "low", qa_pairs=OWN),
    record("coco2017val", "0001", "high"),
    record("sharegpt4v(llava)", "0001", "low"),
    record("sharegpt4v(llava)", "a b (é)", "high"),
]
MULTI = [
    record("gqa", "0001", "1", scale="low"),
    record("gqa", "0001", "2", scale="high"),
    record("gqa", "0002", "1"),
]
OUTPUTS = {
    "coco2017val/0001_low": ".png",
    "coco2017val/0001_high": ".JPG",
    "sharegpt4v/0001_low": ".webp",
    "sharegpt4v/a b (é)_high": ".png",
    "gqa/0001_1": ".png",
    "gqa/0001_2": ".png",
    "gqa/0002_1": ".png",
}
EMPTY = "gqa/0002_1"
FALSE = "do sharegpt4v(llava)/0001_low"
"""The instruction that is not followed, as the judge sees it."""


class Judge(ScriptedOpenAi):
    """Writes one pair for an instruction, and finds that of `FALSE` not borne out."""

    @property
    def asked(self) -> Counter[str]:
        """What it was asked about edits; the rest looks whether it is there."""
        texts = [json.dumps(one["messages"]) for one in self.requests]
        return Counter(
            {
                "pairs": sum("neither the image nor the result" in text for text in texts),
                "checks": sum("Somebody answered it" in text for text in texts),
            }
        )

    def said(self) -> dict[str, Any]:
        message = self.requests[-1]["messages"][-1]["content"]
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        if "neither the image nor the result" in text:
            told = "no" if FALSE in text else "yes"
            return reply(json.dumps({"pairs": [{"question": f"Was it {told}?", "answer": told}]}))
        no = "Was it no?" in text
        self.probabilities = {"False" if no else "True": 0.9, "True" if no else "False": 0.1}
        return super().said()


class Triton(ScriptedTriton):
    """LPIPS is half the region's share, 0.75 of it on the wide range; CLIP's cosine is 0.8."""

    def __init__(self) -> None:
        super().__init__(models=("lpips_vgg", "clip_vit_b_32"))

    @property
    def asked(self) -> Counter[tuple[str, str, bool]]:
        """By model, rule and whether with a mask; probes are of other sizes."""
        found: Counter[tuple[str, str, bool]] = Counter()
        for one in self.requests:
            if decode(one.raw_input_contents[0][4:])[0].shape[:2] == (768, 768):
                rule = one.parameters["region"].string_param
                found[one.model_name, rule, any(i.name == "MASK" for i in one.inputs)] += 1
        return found

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        given = dict(zip((i.name for i in request.inputs), request.raw_input_contents, strict=True))
        share = decode(given["MASK"][4:])[0].mean() / 255 if "MASK" in given else 1.0
        if request.model_name == "lpips_vgg":
            rate = 0.75 if request.parameters["region"].string_param == "stretched" else 0.5
            return tensors(DISTANCE=np.array([[rate * share]], np.float32))
        image = decode(given["IMAGE"][4:])[0]
        # Targets have a white corner, what the model made of them has not.
        angle = [1.0, 0.0] if image[0, 0].min() > 200 else [4.0, 3.0]
        return tensors(EMBEDDING=np.array([angle], np.float32))


class Bench:
    """Data as it is released, and a model's outputs that are all there."""

    def __init__(self, folder: Path) -> None:
        self.data = released(folder / "data", SINGLE, MULTI)
        self.files = self.data / "files"
        self.results = folder / "ours"
        self.out = folder / "run"
        for seed, (item, suffix) in enumerate(OUTPUTS.items(), 50):
            self.picture(self.results / f"{item}{suffix}", seed, 0)
        for seed, one in enumerate([*SINGLE, *MULTI]):
            path = self.files / one["modified_image_path"].removeprefix(f"{AUTHORS}/")
            self.picture(path, seed, 255)
        mask(self.files / "masks/gqa/0002_1_target.png", 0.0)

    @staticmethod
    def picture(path: Path, seed: int, corner: int) -> None:
        """Marked in its corner, so that a scripted CLIP can tell which it is."""
        picture(path, seed, (96, 80))
        with Pil.open(path) as read:
            pixels = np.array(read.convert("RGB"))
        pixels[:32, :32] = corner
        Pil.fromarray(pixels).save(path)

    @property
    def arguments(self) -> list[Any]:
        given = ["--data", self.data, "--outputs", f"ours={self.results}"]
        return ["omni_iie", *given, "--root", f"{AUTHORS}={self.files}"]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[Judge, Triton, list[Any]]]:
        judge, triton = Judge(), Triton()
        async with judge.serving() as url, triton.serving() as endpoint:
            yield judge, triton, ["--generalist", url, "--endpoint", endpoint]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def cells(ran: Ran) -> dict[str, tuple[float | None, int, int]]:
    row = ran.json["models"]["ours"]
    return {
        name.removeprefix("omni_iie."): (one["value"], one["scored"], one["asked"])
        for name, one in row.items()
    }


async def test_from_lists_to_tables(bench: Bench) -> None:
    (bench.results / "sharegpt4v/a b (é)_high.png").unlink()
    async with bench.served() as (judge, triton, services):
        run = ["run", *bench.arguments, "--out", bench.out, *services]
        done = await asyncio.to_thread(command, *run)
        again = await asyncio.to_thread(command, *run)
    assert done.code == 0, done.err
    assert "1 output is missing" in done.err
    assert again.code == 0, again.err
    # One item has a pair of its own; the others' were written once, then checked.
    assert judge.asked == {"pairs": 5, "checks": 6}
    assert triton.asked["lpips_vgg", "zero", False] == 6
    assert triton.asked["lpips_vgg", "zero", True] == 6 * 2 - 1, "an empty region is not asked"

    table = verb("summary", bench.out, "--json")
    assert table.json["protocol"] == "omni_iie.paper.1"
    got = cells(table)
    single = {
        name: got[f"single_turn.{name}"][0]
        for name in ("lpips_fg", "lpips_bg", "lpips_all", "clip_fg", "clip_bg", "clip_all",
                     "qa", "ssim")
    }  # fmt: skip
    close = {"abs": 1e-3}
    assert got["single_turn.lpips_fg"] == (pytest.approx(0.125, **close), 3, 4)
    assert got["single_turn.lpips_bg"] == (pytest.approx(0.375, **close), 3, 4)
    assert got["single_turn.lpips_all"] == (pytest.approx(0.5, **close), 3, 4)
    assert got["single_turn.clip_all"] == (pytest.approx(0.8, **close), 3, 4)
    assert got["single_turn.qa"] == (pytest.approx(2 / 3), 3, 4), "one of three is not followed"
    assert got["single_turn.low.qa"] == (0.5, 2, 2)
    due = overall({name: value for name, value in single.items() if value is not None})
    assert got["single_turn.overall"] == (pytest.approx(due), 8 * 3, 8 * 4)
    # The other pair has lost its side at the high scale.
    assert got["single_turn.drop.qa"] == (0.0, 1, 1)
    assert got["multi_turn.lpips_fg"] == (pytest.approx(0.125, **close), 2, 3)
    counts = table.json["models"]["ours"]["omni_iie.multi_turn.lpips_fg"]["counts"]
    assert counts == {"scored": 2, "unscored": 1}, "one mask is empty"
    assert got["multi_turn.round_1.lpips_bg"] == (pytest.approx((0.375 + 0.5) / 2, **close), 2, 2)
    assert got["multi_turn.round_2.ssim"][1:] == (1, 1)
    assert got["multi_turn.low_to_high.psnr"][1:] == (1, 1)
    shown = verb("summary", bench.out)
    assert "Omni IIE Bench, tables 2 to 5, omni_iie.paper.1, 7 items, prompts: own" in shown.out


async def test_as_the_released_code_has_it(bench: Bench) -> None:
    async with bench.served() as (judge, triton, services):
        run = ["run", *bench.arguments, "--out", bench.out, *services, "--protocol", "official"]
        done = await asyncio.to_thread(command, *run)
    assert done.code == 0, done.err
    assert not judge.asked.total()
    assert triton.asked["lpips_vgg", "stretched", True] == 7 * 2 - 1
    assert triton.asked["clip_vit_b_32", "zero", True] == 2 * 6, "foregrounds only"
    table = verb("summary", bench.out, "--json")
    assert table.json["protocol"] == "omni_iie.official.1"
    got = cells(table)
    assert not any(name.endswith(("qa", "overall")) for name in got)
    assert got["single_turn.lpips_bg"] == (pytest.approx(0.75 * 0.75, abs=1e-3), 4, 4)
    # The empty foreground is 0, and weighs nothing.
    assert got["multi_turn.lpips_fg"] == (pytest.approx(0.75 * 0.25, abs=1e-3), 3, 3)
    assert got["multi_turn.clip_fg"] == (pytest.approx((0.8 + 0.8 + 1) / 3, abs=1e-3), 3, 3)
    assert table.json["models"]["ours"]["omni_iie.multi_turn.clip_fg"]["imputed"] == 1


def test_validate(bench: Bench) -> None:
    given = [*bench.arguments, "--json"]
    well = verb("validate", *given)
    assert well.code == 0, well.out
    assert well.json["outputs"] == {"ours": 7}
    pairs, checks = 6, 3 * 6 + 1
    assert well.json["calls"] == {
        "lpips.vgg": 3 * 7,
        "clip.vit_b_32": 6 * 7,
        "generalist.judge": pairs + checks,
    }
    official = verb("validate", *given, "--protocol", "official")
    assert set(official.json["calls"]) == {"lpips.vgg", "clip.vit_b_32"}

    (bench.results / "gqa/0001_1.png").unlink()
    picture(bench.results / "sharegpt4v(llava)/0001_low.png")
    found = verb("validate", *given)
    assert found.code == 2
    assert found.json["counts"]["missing"] == 1
    assert found.json["counts"]["extra"] == 1
    mask(bench.files / "masks/gqa/0001_1_target.png", 0.25, (200, 20))
    shapes = verb("validate", *given)
    assert shapes.json["counts"]["mask"] == 2, "beside the note on the empty one"
    assert "mask of 200x20 for an image of 96x80" in shapes.out
    without_root = verb("validate", *bench.arguments[:-2])
    assert without_root.code == 2
    assert "7 entries cannot be used" in without_root.out


def test_without_its_root_a_run_ends_before_it_begins(bench: Bench) -> None:
    arguments = bench.arguments[:-2]
    done = command("run", *arguments, "--out", bench.out)
    assert done.code == 2
    assert "--root OLD=NEW" in done.err
    assert not bench.out.exists()
