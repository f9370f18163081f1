"""What the two protocols make of an edit, against plain scripts that do what the release does."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image as Pil
from skimage.metrics import structural_similarity

from editjudge.base.images import decode, load_image
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import NoScore, Outcome, Score
from editjudge.benchmarks.gie import BENCHMARK
from editjudge.benchmarks.gie.dataset import GieData
from editjudge.benchmarks.gie.dimensions import CLIP
from editjudge.benchmarks.gie.switches import GieSwitches
from editjudge.benchmarks.rounds import JudgeRounds, make_rounds
from editjudge.scorers import pixels as module
from editjudge.scorers.judge_scorer import JUDGE

from ....fakes.transport import OneJudge, read_prompt
from .. import edit_outcomes
from .release import make_odd_records, picture, pixels, record, shift, write_release

ANSWER = "gie.functional_correctness"


pytestmark = pytest.mark.usefixtures("authors")


class Panel(OneJudge):
    """A scripted judge, and a CLIP that says the mean colour of the region."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*(script or ("The new one",)), specialists=[CLIP])
        self.sent: list[tuple[np.ndarray, np.ndarray | None, Mapping[str, str]]] = []

    async def call(self, service: str, inputs: Any, parameters: Any) -> dict[str, Any]:
        assert service == CLIP
        image = decode(inputs["IMAGE"])[0]
        mask = decode(inputs["MASK"])[0][..., 0] > 0 if "MASK" in inputs else None
        self.sent.append((image, mask, parameters))
        chosen = image[np.ones(image.shape[:2], bool) if mask is None else mask]
        return {"EMBEDDING": chosen.mean(0)}


async def judge_output(
    item: Item, edited: Any, protocol: str = "paper", panel: Panel | None = None, **rules: Any
) -> Mapping[str, Outcome]:
    edit = Edit(item, "m", load_image(edited))
    return await edit_outcomes.judge_edit(edit, BENCHMARK.rules(protocol, **rules), panel or Panel())


def value(outcomes: Mapping[str, Outcome], name: str) -> float:
    found = outcomes[f"gie.{name}"]
    assert isinstance(found, Score), found
    return found.value


# Functional correctness


def text_of(panel: Panel) -> str:
    (asked,) = panel.transport.asked
    return read_prompt(asked)


async def test_the_source_is_shown_where_the_question_compares(items: list[Item]) -> None:
    for index, item in enumerate(items):
        panel = Panel("Yes" if index == 3 else "The new one")
        outcomes = await judge_output(item, pixels(50), panel=panel)
        if index == 2:
            assert panel.transport.asked == []
            continue
        assert value(outcomes, "functional_correctness") == 1
        assert ("Source image" in text_of(panel)) is (index == 1)
        assert "Edited image" in text_of(panel)
        official = Panel("The new one")
        await judge_output(item, pixels(50), "official", official)
        assert "Original image:" in text_of(official)


async def test_options_have_lines_of_their_own(items: list[Item]) -> None:
    panels = {name: Panel() for name in ("paper", "official")}
    for name, panel in panels.items():
        await judge_output(items[1], pixels(50), name, panel)
    lines = "The new one\nThe old one, as before\nAnother, darker\n"
    assert lines in text_of(panels["paper"])
    assert lines.strip().replace("\n", ", ") in text_of(panels["official"])


async def test_one_that_cannot_be_won(items: list[Item]) -> None:
    item = items[2]
    panel = Panel("MY")
    outcomes = await judge_output(item, pixels(50), panel=panel)
    answer = outcomes[ANSWER]
    assert isinstance(answer, Score)
    assert (answer.value, answer.imputed) == (0, True)
    assert answer.evidence["answers"] == [
        {"question": "What of Textual Edit?", "due": "YOUR", "can_be_won": False, "right": False}
    ]
    assert panel.transport.asked == [], "nothing that is asked could change it"
    assert value(outcomes, "reachable") == 0
    # The released code asks, and a judge that does not keep to the options is right.
    outcomes = await judge_output(item, pixels(50), "official", Panel("YOUR"))
    assert value(outcomes, "functional_correctness") == 1
    assert value(outcomes, "reachable") == 0
    assert not outcomes[ANSWER].imputed  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reply", "paper", "official"),
    [
        ("Yes", 1, 0),
        ("yes.", 1, 1),
        (" yes.\n", 1, 1),
        ('"Yes"', 1, 0),
        ("YES", 1, 0),
        ("No", 0, 0),
        ("It does", None, 0),
        ("", None, None),
    ],
)
async def test_a_reply_to_the_letter(items: list[Item], reply: str, paper: int | None, official: int | None) -> None:
    """The expected answer is `yes.`, the option `Yes`."""
    for name, due in (("paper", paper), ("official", official)):
        panel = Panel(reply)
        outcomes = await judge_output(items[3], pixels(50), name, panel)
        assert getattr(outcomes[ANSWER], "value", None) == due, name
        if due is None:
            assert isinstance(outcomes[ANSWER], NoScore)
            assert outcomes[ANSWER].kind == "unparsable"
            assert len(panel.transport.asked) == 2
        assert value(outcomes, "reachable") == (name == "paper")


# Pixels


def released_alignment(original: np.ndarray, edited: np.ndarray) -> np.ndarray | None:
    """As `masked_mse_evaluation.py` does it, on BGR pictures."""
    cv2.setRNGSeed(0)
    sift: Any = cv2.SIFT_create()  # type: ignore[attr-defined]
    grey = [cv2.cvtColor(one, cv2.COLOR_BGR2GRAY) for one in (original, edited)]
    (k1, d1), (k2, d2) = (sift.detectAndCompute(one, None) for one in grey)
    if d1 is None or d2 is None:
        return None
    flann = cv2.FlannBasedMatcher({"algorithm": 1, "trees": 5}, {"checks": 50})
    good = [m for m, n in flann.knnMatch(d1, d2, k=2) if m.distance < 0.7 * n.distance]
    if len(good) < 4:
        return None
    there = np.array([k1[m.queryIdx].pt for m in good], np.float32)
    here = np.array([k2[m.trainIdx].pt for m in good], np.float32)
    matrix: Any = cv2.estimateAffinePartial2D(here, there, method=cv2.LMEDS)[0]
    if matrix is None:
        return None
    height, width = original.shape[:2]
    return np.asarray(cv2.warpAffine(edited, matrix, (width, height), borderMode=cv2.BORDER_REFLECT))


def error(original: np.ndarray, aligned: np.ndarray, mask: np.ndarray, limit: int) -> float:
    """Where the resized mask is below a limit: 128 in the release, whose masks are 0 and 1."""
    height, width = original.shape[:2]
    large = cv2.resize(mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST)
    counted = (large < limit).astype(np.uint8)
    squares = (original.astype(np.float32) - aligned.astype(np.float32)) ** 2
    total = np.sum(squares.astype(np.float64) * counted[..., None])
    return float(total / (counted.sum() * 3 + 1e-10))


def edits(source: np.ndarray) -> dict[str, np.ndarray]:
    inside = source.copy()
    inside[48:88, 80:150] = 255
    larger = Pil.fromarray(shift(inside, 3, -2)).resize((480, 320), Pil.Resampling.BICUBIC)
    return {
        "painted inside": inside,
        "moved": shift(inside, 4, 3),
        "moved and larger": np.asarray(larger),
        "brighter": np.clip(inside.astype(int) + 20, 0, 255).astype(np.uint8),
        "as it was": source,
    }


@pytest.mark.parametrize("name", edits(pixels(0)))
async def test_mse_and_psnr(items: list[Item], name: str) -> None:
    item = items[0]
    edited = edits(item.sources[0].rgb)[name]
    bgr = item.sources[0].rgb[..., ::-1].copy()
    aligned = released_alignment(bgr, edited[..., ::-1].copy())
    assert aligned is not None
    mask = np.array(make_odd_records()[0]["object_mask"])
    for protocol, limit in (("paper", 1), ("official", 128)):
        outcomes = await judge_output(item, edited, protocol)
        due = error(bgr, aligned, mask, limit)
        assert value(outcomes, "mse") == pytest.approx(due, rel=1e-6, abs=1e-9)
        capped = value(outcomes, "mse") < 65025e-10
        ratio = 100 if capped else 10 * math.log10(255**2 / value(outcomes, "mse"))
        assert value(outcomes, "psnr") == pytest.approx(ratio)
    if name == "painted inside":
        assert value(await judge_output(item, edited), "mse") < 50 < error(bgr, aligned, mask, 128)
    if name == "as it was":
        psnr = outcomes["gie.psnr"]
        assert isinstance(psnr, Score)
        # The released code says infinity here, and so does its mean over all edits.
        assert (psnr.value, psnr.evidence["capped"]) == (100, True)


async def test_one_alignment_serves_both(items: list[Item], monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def count_alignment(*given: Any, **more: Any) -> Any:
        made.append(more["require_plausible"])
        return align(*given, **more)

    align = module.align
    monkeypatch.setattr(module, "align", count_alignment)
    await judge_output(items[0], pixels(0), "paper")
    assert made == [True]
    await judge_output(items[0], pixels(0), "official")
    assert made[1:] == [False]


async def test_what_cannot_be_aligned_counts_by_the_paper(items: list[Item]) -> None:
    flat = np.full((160, 240, 3), 90, np.uint8)
    source = items[0].sources[0].rgb
    assert released_alignment(source, flat) is None
    outcomes = await judge_output(items[0], flat, "official")
    for name in ("gie.mse", "gie.psnr"):
        found = outcomes[name]
        assert isinstance(found, NoScore)
        assert found.kind == "degenerate"
    assert isinstance(outcomes["gie.ssim"], Score), "SSIM and CLIP need no alignment"
    assert isinstance(outcomes["gie.clip"], Score)
    outcomes = await judge_output(items[0], flat)
    outside = ~np.asarray(items[0].mask.resize((240, 160)).region)  # type: ignore[union-attr]
    due = float(((source.astype(float) - 90) ** 2)[outside].mean())
    assert value(outcomes, "mse") == pytest.approx(due)
    assert value(outcomes, "unaligned") == 1
    assert "unaligned" in outcomes["gie.mse"].evidence  # type: ignore[union-attr]


async def test_an_alignment_that_cannot_be_right(items: list[Item]) -> None:
    """The picture shrunk into a corner: to bring it back it is magnified beyond belief."""
    source = items[0].sources[0].rgb
    other = np.full_like(source, 90)
    other[:64, :96] = np.asarray(Pil.fromarray(source).resize((96, 64), Pil.Resampling.LANCZOS))
    aligned = released_alignment(source[..., ::-1].copy(), other[..., ::-1].copy())
    assert aligned is not None
    refused = (await judge_output(items[0], other))["gie.mse"]
    assert isinstance(refused, Score)
    assert "magnifies the edit 2.5 times" in str(refused.evidence["unaligned"])
    outcomes = await judge_output(items[0], other, "official")
    due = float(((source.astype(float) - aligned[..., ::-1]) ** 2).mean())
    assert value(outcomes, "mse") == pytest.approx(due)
    outcomes = await judge_output(items[0], other, "paper", with_=["any_alignment"])
    assert value(outcomes, "mse") < refused.value


# SSIM


def released_ssim(item: Item, edited: np.ndarray, mask: np.ndarray) -> float:
    """As `masked_clip_ssim_evaluation.py` does it."""
    made = []
    for array in (item.sources[0].rgb, edited):
        grey = Pil.fromarray(array).resize((224, 224), Pil.Resampling.LANCZOS).convert("L")
        made.append(np.array(grey, dtype=np.float32) / 255.0 * (1 - mask))
    similarity, _ = structural_similarity(*made, data_range=1.0, full=True)
    return float(similarity)


@pytest.mark.parametrize("index", [0, 4, 5, 9])
@pytest.mark.parametrize("name", ["moved", "moved and larger", "brighter", "as it was"])
async def test_ssim_of_the_release(items: list[Item], index: int, name: str) -> None:
    edited = edits(items[index].sources[0].rgb)[name]
    outcomes = await judge_output(items[index], edited, "official")
    due = released_ssim(items[index], edited, np.array(make_odd_records()[index]["object_mask"]))
    assert value(outcomes, "ssim") == pytest.approx(due, abs=1e-6)
    assert outcomes["gie.ssim"].imputed is (index == 5)  # type: ignore[union-attr]


@pytest.mark.parametrize("index", range(4))
async def test_what_was_done_within_the_mask_does_not_count(items: list[Item], index: int) -> None:
    """With every pixel outside the mask equal, structure there is equal to the last bit."""
    source, mask = items[index].sources[0].rgb, items[index].mask
    assert mask is not None
    inside = mask.resize(source.shape[1::-1]).region
    edited = np.where(inside[..., None], 255 - source[::-1, ::-1], source)
    outcomes = await judge_output(items[index], edited)
    assert value(outcomes, "ssim") == 1.0
    assert value(outcomes, "mse") == 0.0


@pytest.mark.parametrize("size", [(240, 160), (161, 223), (1000, 333), (100, 100)])
async def test_masks_are_stretched_as_opencv_does(items: list[Item], size: tuple[int, int]) -> None:
    mask = items[0].mask
    assert mask is not None
    due = cv2.resize(np.array(make_odd_records()[0]["object_mask"], np.uint8), size, interpolation=0)
    assert np.array_equal(mask.resize(size).region, due == 1)


async def test_ssim_of_the_paper_has_no_black_part(items: list[Item]) -> None:
    source = items[0].sources[0].rgb
    edited = edits(source)["brighter"]
    rng = np.random.default_rng(0)
    noisy = np.clip(edited + rng.normal(0, 30, edited.shape), 0, 255).astype(np.uint8)
    outcomes = await judge_output(items[0], noisy)
    _, whole = structural_similarity(source, noisy, channel_axis=2, data_range=255, full=True)
    assert items[0].mask is not None
    outside = ~items[0].mask.resize((240, 160)).region
    within = np.lib.stride_tricks.sliding_window_view(outside, (7, 7)).all(axis=(2, 3))
    assert value(outcomes, "ssim") == pytest.approx(whole[3:-3, 3:-3][within].mean(), abs=1e-5)
    assert value(outcomes, "ssim") < value(await judge_output(items[0], noisy, "official"), "ssim")


# Masks


async def test_where_nothing_may_change_everything_is_outside(items: list[Item]) -> None:
    item = items[4]
    edited = edits(item.sources[0].rgb)["painted inside"]
    paper, official = [await judge_output(item, edited, name) for name in ("paper", "official")]
    assert value(paper, "mse") > 500
    assert value(paper, "clip") == pytest.approx(value(paper, "clip_whole"))
    assert paper["gie.ssim"].evidence["region_share"] == 1  # type: ignore[union-attr]
    assert value(official, "mse") == pytest.approx(value(paper, "mse"))


async def test_where_all_may_change_nothing_is_outside(items: list[Item]) -> None:
    item = items[5]
    edited = edits(item.sources[0].rgb)["moved"]
    paper, official = [await judge_output(item, edited, name) for name in ("paper", "official")]
    for name in ("mse", "psnr", "ssim", "clip"):
        found = paper[f"gie.{name}"]
        assert isinstance(found, NoScore)
        assert found.kind == "degenerate"
        assert isinstance(official[f"gie.{name}"], Score)
    assert isinstance(paper["gie.clip_whole"], Score)
    assert value(official, "mse") > 0, "the whole image, as its mask has no effect"
    for name in ("ssim", "clip"):
        assert value(official, name) == 1
        assert official[f"gie.{name}"].imputed  # type: ignore[union-attr]
    without = await judge_output(item, edited, "official", without=["empty_is_kept"])
    assert isinstance(without["gie.clip"], NoScore)


async def test_what_clip_is_sent(items: list[Item]) -> None:
    edited = pixels(50, (480, 480))
    mask = ~np.array(make_odd_records()[0]["object_mask"], bool)
    panel = Panel()
    await judge_output(items[0], edited, panel=panel)
    regions = {p["region"] for _, m, p in panel.sent if m is not None}
    sizes = sorted(image.shape[:2] for image, m, _ in panel.sent if m is not None)
    assert (regions, sizes) == ({"pool"}, [(160, 240), (480, 480)])
    panel = Panel()
    await judge_output(items[0], edited, "official", panel)
    masked = [(image, m, p) for image, m, p in panel.sent if m is not None]
    assert len(masked) == 2
    for image, sent, parameters in masked:
        assert parameters == {"region": "pool_any"}
        assert image.shape == (224, 224, 3)
        np.testing.assert_array_equal(sent, mask)
    squares = [
        np.asarray(Pil.fromarray(one).resize((224, 224), Pil.Resampling.LANCZOS))
        for one in (items[0].sources[0].rgb, edited)
    ]
    for square in squares:
        assert any(np.array_equal(square, image) for image, _, _ in masked)
    whole = [image.shape[:2] for image, m, _ in panel.sent if m is None]
    assert sorted(whole) == [(160, 240), (480, 480)], "the whole image as it is"


@pytest.mark.parametrize("protocol", ["paper", "official"])
@pytest.mark.parametrize("size", [(240, 160), (200, 200)])
async def test_data_of_ones_own_with_sources_that_are_no_squares(
    tmp_path: Path, protocol: str, size: tuple[int, int]
) -> None:
    """Its masks have their sources' shape, and are laid over squares and outputs all the same."""
    source, where = pixels(0), np.zeros((160, 240), bool)
    where[48:88, 80:150] = True
    picture(tmp_path / "1.png", source)
    picture(tmp_path / "m.png", where)
    line = {"id": "1", "instruction": "x", "source": "1.png", "mask": "m.png", "task": "add_object"}
    (tmp_path / "items.jsonl").write_text(json.dumps(line))
    data = BENCHMARK.data(tmp_path / "items.jsonl")
    item = data.load(next(data.check_items()))
    edited = source.copy()
    edited[where] = 255
    resized = np.asarray(Pil.fromarray(edited).resize(size, Pil.Resampling.LANCZOS))
    outcomes = await judge_output(item, resized, protocol)
    assert value(outcomes, "ssim") > 0.9
    assert value(outcomes, "clip") > 0.999
    if size == (240, 160):
        assert value(outcomes, "clip") == pytest.approx(1, abs=1e-6 if protocol == "paper" else 1)
        assert value(outcomes, "mse") < 50 or protocol == "official"


@pytest.mark.parametrize("squeeze", [0.97, 0.8])
async def test_an_edit_of_another_aspect_ratio_is_resized_before_it_is_aligned(
    items: list[Item], squeeze: float
) -> None:
    source = items[0].sources[0].rgb
    narrow = round(240 * squeeze), 160
    edited = np.asarray(Pil.fromarray(source).resize(narrow, Pil.Resampling.LANCZOS))
    paper, official = [await judge_output(items[0], edited, name) for name in ("paper", "official")]
    assert value(paper, "mse") < 100
    assert paper["gie.mse"].evidence["resized"] == f"{narrow[0]}x160 to 240x160 (Lanczos)"  # type: ignore[union-attr]
    aligned = released_alignment(source[..., ::-1].copy(), edited[..., ::-1].copy())
    assert aligned is not None
    due = float(((source.astype(float) - aligned[..., ::-1]) ** 2).mean())
    assert value(official, "mse") == pytest.approx(due)
    assert value(official, "mse") > 5 * value(paper, "mse")
    without = await judge_output(items[0], edited, "official", without=["align_as_is"])
    assert value(without, "mse") < 100


# Switches

CHANGES = {
    "original_prompts": {"functional_correctness"},
    "exact_match": {"functional_correctness", "reachable"},
    "both_images": {"functional_correctness"},
    "options_in_line": {"functional_correctness"},
    "any_alignment": {"mse", "psnr", "unaligned"},
    "align_as_is": {"mse", "psnr", "unaligned"},
    "unmasked_pixels": {"mse", "psnr"},
    "ssim_blacked_out": {"ssim"},
    "clip_touched": {"clip"},
    "empty_is_kept": {"clip"},
    "uncalibrated": set(),
}


@pytest.mark.parametrize("switch", CHANGES)
def test_each_switch_changes_what_it_names(switch: str) -> None:
    def signatures(**rules: Any) -> dict[str, str]:
        found = BENCHMARK.rules("paper", **rules).dimensions
        return {d.id.removeprefix("gie."): str(d.signature({})) + str(d.how) for d in found}

    before, after = signatures(), signatures(with_=[switch])
    assert {name for name in before if before[name] != after.get(name)} == CHANGES[switch]
    calibrated = {c.id for c in BENCHMARK.rules("paper", [switch]).columns}
    assert ("gie.preservation" in calibrated) is (switch != "uncalibrated")


def test_official_is_all_of_them() -> None:
    assert [one.name for one in GieSwitches.list_switches()] == list(CHANGES)
    official = BENCHMARK.rules("official")
    assert official.protocol == "gie.official.3"
    assert official.dimensions == tuple(
        replace(d, protocol="gie.3") for d in BENCHMARK.rules("paper", CHANGES).dimensions
    )
    assert BENCHMARK.rules().protocol == "gie.paper.3"


def test_every_edit_type_has_a_record(tmp_path: Path) -> None:
    path = write_release(tmp_path, [record("Object Replacement")])
    picture(tmp_path / "out" / "0.png", pixels(1))
    data = GieData(path)
    (ref,) = data.check_items()
    assert data.outputs(tmp_path / "out").path(ref.id)
    assert data.outline(ref).task == data.load(ref).task == "object_replacement"


def test_a_second_judge_is_asked_the_same() -> None:
    known = make_rounds(BENCHMARK.rules().dimensions_by_id({}), JudgeRounds(("judge", "second"), 2))
    made = [name for name in known if name.startswith(f"{ANSWER}@")]
    assert made == [f"{ANSWER}@{j}.{n}" for j in ("judge", "second") for n in (1, 2)]
    assert {known[name].roles for name in made} == {(JUDGE,), ("generalist.second",)}
    assert not any("@" in name and not name.startswith(ANSWER) for name in known)
