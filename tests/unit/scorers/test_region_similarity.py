"""Regions by command: what is segmented, what is compared, and what has no number."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from editjudge.answers.segmentation import Commands
from editjudge.base import prompt_releases as official_texts
from editjudge.base.errors import Abstention, BadReply, Unreachable
from editjudge.base.images import Image, decode, load_image
from editjudge.base.item import Edit, Item
from editjudge.base.prompt_releases import PromptRelease
from editjudge.base.verdict import NotApplicable
from editjudge.benchmarks.dimension import Dimension, Reading
from editjudge.engine.judge import judge as judge_edit
from editjudge.prompts import Labels
from editjudge.prompts.official_prompts import OfficialPrompt
from editjudge.scorers.region_similarity import RegionSimilarity

from ...encoded_pictures import encode
from ...fakes.transport import OneJudge, read_prompt
from ...verdicts import why_not

JUDGE, SEGMENTER, FEATURES = "generalist.judge", "segmenter.sa2va", "features.dinov3"
SUBJECTS = RegionSimilarity(JUDGE, "i2i/unchanged_subjects")
OUTSIDE = RegionSimilarity(JUDGE, "i2i/edited_region", found="edited", inverted=True)
ELEMENTS = RegionSimilarity(JUDGE, "i2i/preserved_subjects")
SCORE = frozenset({"score"})


def png(mask: Any) -> bytes:
    return encode(np.asarray(mask, bool))


def box(image: Image, left: float, right: float) -> np.ndarray[Any, Any]:
    """A band of columns, as shares of the width."""
    width, height = image.size
    mask = np.zeros((height, width), bool)
    mask[:, round(left * width) : round(right * width)] = True
    return mask


class Panel(OneJudge):
    """A judge, a segmenter and features that are written down.

    Args:
        said: The commands.
        masks: By phrase and the image's name: a mask, bytes, or an exception.
        vectors: By the image's name; or a function of the region.
    """

    def __init__(self, said: Sequence[Any], masks: Mapping[tuple[str, str], Any], **vectors: Any) -> None:
        super().__init__(json.dumps({"commands": said}), specialists=(SEGMENTER, FEATURES))
        self.masks, self.vectors = masks, vectors
        self.names: dict[bytes, str] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.regions: list[tuple[str, np.ndarray]] = []

    def knows(self, edit: Edit) -> Panel:
        for image in (*edit.item.sources, edit.output):
            self.names[image.encoded_bytes] = image.name
        return self

    async def call(self, service: str, inputs: Any, parameters: Any = None) -> dict[str, Any]:
        image = self.names[inputs["IMAGE"]]
        if service == SEGMENTER:
            assert parameters == {"select": "all"}
            phrase = inputs["PROMPT"].decode()
            self.asked.append((service, image, phrase))
            found = self.masks[phrase, image]
            if isinstance(found, Exception):
                raise found
            data = found if isinstance(found, bytes) else png(found)
            return {"MASK": data, "SCORE": np.array([0.75], np.float32)}
        assert (service, parameters) == (FEATURES, {"region": "pool"})
        region = decode(inputs["MASK"])[0][..., 0] > 0
        assert region.shape == decode(inputs["IMAGE"])[0].shape[:2]
        self.regions.append((image, region))
        vector = self.vectors[image]
        if callable(vector):
            vector = vector(region)
        return {"EMBEDDING": np.asarray(vector, np.float32)}


def picture(name: str, width: int, height: int, seed: int) -> Image:
    rng = np.random.default_rng(seed)
    return load_image(rng.integers(0, 256, (height, width, 3), dtype=np.uint8), name)


@pytest.fixture
def edit() -> Edit:
    item = Item("1", "make the coat red", (picture("a", 40, 30, 1),), task="local_editing")
    return Edit(item, "m", picture("out", 20, 15, 2))


@pytest.fixture
def several() -> Edit:
    sources = (picture("a", 40, 30, 1), picture("b", 24, 24, 3))
    return Edit(Item("1", "a beside b", sources), "m", picture("out", 20, 15, 2))


def halves(edit: Edit, *phrases: str) -> dict[tuple[str, str], Any]:
    """Masks by which each phrase is the left half of the source and of the edited image."""
    images = {"a": edit.item.sources[0], "out": edit.output}
    return {(one, name): box(image, 0, 0.5) for one in phrases for name, image in images.items()}


async def score(scorer: RegionSimilarity, edit: Edit, panel: Panel) -> Any:
    got = await scorer.score(edit, panel.knows(edit), SCORE)
    assert set(got) >= {"score"}
    return got["score"]


async def test_subjects_are_found_in_each_image(edit: Edit) -> None:
    source, out = edit.item.sources[0], edit.output
    masks = {
        ("the face", "a"): box(source, 0, 0.25),
        ("the face", "out"): box(out, 0.5, 0.75),
        ("the sky", "a"): box(source, 0, 0.5),
        ("the sky", "out"): box(out, 0, 0.5),
    }
    panel = Panel(["Please segment the face", "the sky"], masks, a=[1, 0], out=[0.6, 0.8])
    got = await score(SUBJECTS, edit, panel)
    assert got.value == pytest.approx(0.6, abs=1e-7)
    for name, region in panel.regions:
        shares = {"a": (0.25, 0.5), "out": (0.25, 0.5)}[name]
        assert region.mean() in shares
    face, sky = got.evidence["regions"]
    assert face["command"] == "the face"
    assert face["source"]["share"] == 0.25
    assert face["edited"]["score"] == 0.75
    assert face["cosine"] == sky["cosine"] == got.value
    text = read_prompt(panel.transport.asked[0])
    assert "Source image" in text
    assert "Edited image" not in text, "what depends on the item alone is shared by all models"


async def test_the_mean_over_commands(edit: Edit) -> None:
    masks = halves(edit, "x", "y") | {("y", "out"): box(edit.output, 0, 0.25)}

    def vector(region: np.ndarray) -> list[float]:
        return [1, 0] if region.mean() == 0.5 else [0, 1]

    got = await score(SUBJECTS, edit, Panel(["x", "y"], masks, a=vector, out=vector))
    assert got.value == 0.5
    assert [one["cosine"] for one in got.evidence["regions"]] == [1.0, 0.0]


async def test_one_mask_inverted_and_laid_over_the_source(edit: Edit) -> None:
    masks = {("the coat", "out"): box(edit.output, 0, 0.25)}
    panel = Panel(["the coat"], masks, a=[3, 4], out=[4, 3])
    got = await score(OUTSIDE, edit, panel)
    assert got.value == pytest.approx(24 / 25, abs=1e-7)
    assert [call[1:] for call in panel.asked] == [("out", "the coat")]
    regions = dict(panel.regions)
    assert (regions["out"] == ~box(edit.output, 0, 0.25)).all()
    assert (regions["a"] == ~box(edit.item.sources[0], 0, 0.25)).all()
    assert got.evidence["compared"] == "outside"
    shown = got.evidence["regions"][0]["source"]
    small = decode(base64.b64decode(shown["mask"]))[0]
    assert small.shape == (30, 40, 3)
    assert shown["share"] == 0.75
    text = read_prompt(panel.transport.asked[0])
    assert text.index("Source image") < text.index("Edited image") < text.index("the coat red")


async def test_source_index_says_which_source(several: Edit) -> None:
    a, b = several.item.sources
    masks = {
        ("the dog", "b"): box(b, 0, 0.5),
        ("the dog", "out"): box(several.output, 0, 0.5),
        ("the cat", "a"): box(a, 0.5, 1),
        ("the cat", "out"): box(several.output, 0.5, 1),
    }
    said = [{"source_index": n, "phrase": one} for n, one in ((1, "the dog"), (0, "the cat"))]
    panel = Panel(said, masks, a=[1, 0], b=[0, 1], out=[0, 2])
    got = await score(ELEMENTS, several, panel)
    assert got.value == 0.5, "1 for b and 0 for a"
    assert ("segmenter.sa2va", "a", "the dog") not in panel.asked
    again = Panel(said, masks, a=[1, 0], b=[0, 1], out=[0, 2])
    inverted = await score(replace(ELEMENTS, inverted=True), several, again)
    assert inverted.evidence["compared"] == "outside"


async def test_an_index_without_a_source_is_asked_again(several: Edit) -> None:
    panel = Panel([{"source_index": 2, "phrase": "x"}], {})
    reason = why_not(await judge_region(several, panel), "unparsable")
    assert '"source_index" is 2, there is 0 to 1' in reason
    assert len(panel.transport.asked) == 2


async def judge_region(edit: Edit, panel: Panel, scorer: RegionSimilarity = ELEMENTS, read: str = "score") -> Any:
    """Through the judge, which makes verdicts of what is raised."""
    one = Dimension("t.x", "?", "s", Reading(scorer, read), (-1, 1))
    done = await judge_edit(edit, [one], {}, panel.knows(edit))
    return done.outcomes["t.x"]


async def test_an_empty_list_does_not_apply(several: Edit) -> None:
    panel = Panel([], {})
    got = await judge_region(several, panel)
    assert isinstance(got, NotApplicable)
    assert "nothing to compare" in got.reason
    assert len(got.calls) == 1
    assert panel.asked == []


async def test_an_empty_list_where_one_is_due_is_no_answer(edit: Edit) -> None:
    why_not(await judge_region(edit, Panel([], {}), SUBJECTS), "unparsable")


NOTHING = Abstention("degenerate", "nothing there")
LOST = "'x' was found in the source image 1 and not in the edited image"
DEGENERATE: list[tuple[RegionSimilarity, dict[str, Any], str]] = [
    (SUBJECTS, {"a": b"", "out": (0, 1 / 2)}, "'x' was not found in the source image 1"),
    (SUBJECTS, {"a": (0, 1 / 2), "out": b""}, LOST),
    (SUBJECTS, {"a": (0, 1 / 2), "out": (0, 0)}, LOST),
    (SUBJECTS, {"a": (0, 1), "out": b""}, f"'x' fills the source image 1; {LOST}"),
    (SUBJECTS, {"a": b"", "out": b""}, "source image 1; 'x' was not found in the edited image"),
    (SUBJECTS, {"a": (0, 0), "out": (0, 1 / 2)}, "'x' was not found in the source image 1"),
    (SUBJECTS, {"a": (0, 1), "out": (0, 1 / 2)}, "'x' fills the source image 1"),
    (SUBJECTS, {"a": (0, 1 / 2), "out": (0, 1)}, "'x' fills the edited image"),
    (OUTSIDE, {"out": b""}, "'x' was not found in the edited image"),
    (OUTSIDE, {"out": (0, 0)}, "'x' was not found in the edited image"),
    (OUTSIDE, {"out": (0, 1)}, "'x' fills the source image 1; 'x' fills the edited image"),
    (SUBJECTS, {"a": (0, 1 / 2), "out": NOTHING}, "'x': nothing there"),
]


@pytest.mark.parametrize(("scorer", "found", "reason"), DEGENERATE)
async def test_masks_without_a_region(edit: Edit, scorer: RegionSimilarity, found: dict[str, Any], reason: str) -> None:
    images = {"a": edit.item.sources[0], "out": edit.output}
    masks = {("x", name): box(images[name], *one) if isinstance(one, tuple) else one for name, one in found.items()}
    panel = Panel(["x"], masks, a=[1, 0], out=[1, 0])
    got = await judge_region(edit, panel, scorer, "found_only")
    assert reason in why_not(got, "degenerate")
    (region,) = got.evidence["regions"]
    assert region["command"] == "x"
    assert ("lost" in region) == (LOST in got.reason)
    assert panel.regions == [], "nothing is compared"


async def test_a_lost_subject_can_count_as_0(edit: Edit) -> None:
    masks = halves(edit, "x", "y") | {("y", "out"): b""}
    got = await judge_region(edit, Panel(["x", "y"], masks, a=[1, 0], out=[0.6, 0.8]), SUBJECTS)
    assert (got.value, got.imputed) == (pytest.approx((0.6 + 0) / 2, abs=1e-7), True)
    kept, lost = got.evidence["regions"]
    assert kept["cosine"] == pytest.approx(0.6)
    assert "lost" not in kept
    assert lost["lost"] is True
    assert "cosine" not in lost, "it was not measured"
    masks["y", "out"] = box(edit.output, 0, 0.25)
    found = await judge_region(edit, Panel(["x", "y"], masks, a=[1, 0], out=[0.6, 0.8]), SUBJECTS)
    assert not found.imputed
    nothing = replace(SUBJECTS, prompt="i2i/edited_region", found="edited")
    got = await judge_region(edit, Panel(["y"], {("y", "out"): b""}), nothing)
    assert got.reason == "'y' was not found in the edited image", "no source has it"


@pytest.mark.parametrize("source", [b"", (0, 1)])
async def test_what_no_source_shows_was_not_lost(edit: Edit, source: Any) -> None:
    there = box(edit.item.sources[0], *source) if isinstance(source, tuple) else source
    for read in ("score", "lost"):
        panel = Panel(["x"], {("x", "a"): there, ("x", "out"): b""})
        got = await judge_region(edit, panel, SUBJECTS, read)
        assert "source image 1" in why_not(got, "degenerate")


async def test_the_share_that_is_lost(edit: Edit) -> None:
    """It is told beside both of the others, which share its calls."""
    masks = halves(edit, "x", "y", "z") | {("y", "out"): b""}
    panel = Panel(["x", "y", "z"], masks, a=[1, 0], out=[1, 0])
    got = await SUBJECTS.score(edit, panel.knows(edit), SCORE)
    score, found_only, lost = (got[name] for name in ("score", "found_only", "lost"))
    assert (lost.value, lost.imputed) == (pytest.approx(1 / 3), False)
    assert (score.value, score.imputed) == (pytest.approx(2 / 3), True)
    said = "'y' was found in the source image 1 and not in the edited image"
    assert (found_only.reason, lost.evidence) == (said, {"lost": [said]})


async def test_a_mask_that_vanishes_on_a_smaller_source() -> None:
    item = Item("1", "x", (picture("a", 10, 10, 1),))
    edit = Edit(item, "m", picture("out", 100, 100, 2))
    thin = np.zeros((100, 100), bool)
    thin[:, 0] = True
    got = await judge_region(edit, Panel(["x"], {("x", "out"): thin}, a=[1], out=[1]), OUTSIDE)
    assert why_not(got, "degenerate") == "'x' vanishes at the size of the source image 1"


async def test_a_zero_vector_and_one_bad_command_of_two(edit: Edit) -> None:
    masks = halves(edit, "x", "y")
    panel = Panel(["x", "y"], masks | {("y", "out"): b""}, a=[1, 0], out=[1, 0])
    got = await judge_region(edit, panel, SUBJECTS, "found_only")
    # A mean over the rest would hide that y is gone.
    assert got.reason == "'y' was found in the source image 1 and not in the edited image"
    got = await judge_region(edit, Panel(["x", "y"], masks, a=[0, 0], out=[1, 0]), SUBJECTS)
    assert "'x': a feature vector is zero" in why_not(got, "degenerate")


@pytest.mark.parametrize(("data", "said"), [(b"no picture", "not an image"), (png(np.ones((7, 90), bool)), "90x7")])
async def test_a_mask_that_is_none_is_a_bad_reply(edit: Edit, data: bytes, said: str) -> None:
    masks = halves(edit, "x") | {("x", "a"): data}
    with pytest.raises(BadReply, match=said):
        await score(SUBJECTS, edit, Panel(["x"], masks, a=[1], out=[1]))


async def test_a_service_that_fails_is_a_failure(edit: Edit) -> None:
    gone = Unreachable("gone", service=SEGMENTER)
    got = await judge_region(edit, Panel(["x"], {("x", "a"): gone, ("x", "out"): gone}), SUBJECTS)
    assert got.status == "failed"


async def test_outside_several_edited_regions_none_of_them_counts(edit: Edit) -> None:
    out = edit.output
    masks = {("the coat", "out"): box(out, 0, 0.25), ("the hat", "out"): box(out, 0.5, 0.75)}
    panel = Panel(["the coat", "the hat"], masks, a=[1, 0], out=[0.6, 0.8])
    got = await score(OUTSIDE, edit, panel)
    assert got.value == pytest.approx(0.6, abs=1e-7)
    assert len(panel.regions) == 2  # the source and the edited image, once
    kept = ~(masks["the coat", "out"] | masks["the hat", "out"])
    assert (dict(panel.regions)["out"] == kept).all()
    (region,) = got.evidence["regions"]
    assert region["commands"] == ["the coat", "the hat"]
    # One that is not found would be taken for a part that was not edited.
    masks["the hat", "out"] = np.zeros_like(kept)
    lacking = await judge_region(edit, Panel(["the coat", "the hat"], masks), OUTSIDE)
    assert lacking.reason == "'the coat, the hat' was not found in the edited image"


def test_what_it_takes_and_says_of_itself(edit: Edit) -> None:
    assert SUBJECTS.calls(edit.item, SCORE) == {JUDGE: 1, SEGMENTER: 12, FEATURES: 12}
    assert OUTSIDE.calls(edit.item, SCORE) == {JUDGE: 1, SEGMENTER: 6, FEATURES: 2}
    assert SUBJECTS.roles == (JUDGE, SEGMENTER, FEATURES)
    assert SUBJECTS.with_judge("generalist.second", 2) == replace(SUBJECTS, service="generalist.second", repeat=2)
    spec = OUTSIDE.spec()
    assert str(spec["prompt"]).startswith("i2i/edited_region(own,sha256:")
    assert (spec["found"], spec["inverted"], spec["segmenter"]) == ("edited", True, SEGMENTER)
    with pytest.raises(TypeError, match="does not ask for commands"):
        RegionSimilarity(JUDGE, "i2i/accuracy").calls(edit.item, SCORE)


async def test_official_prompts_reach_it(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"commands.txt": "Name every subject of {told}."}
    monkeypatch.setattr(PromptRelease, "text", lambda _, name: texts[name])
    release = {"bench": PromptRelease("bench", "example.org", {})}
    monkeypatch.setattr(official_texts, "prompt_releases", lambda: release)
    about = "bench/commands", "bench", "commands.txt", "?", "s", ("sources",)
    form = Labels(source="Image {n}:"), Commands(high=4), (("told", "instruction"),)
    official = OfficialPrompt(*about, *form)
    scorer = RegionSimilarity(JUDGE, official.name, official=(official,))
    panel = Panel(["x"], halves(edit, "x"), a=[1, 0], out=[1, 0])
    assert (await score(scorer, edit, panel)).value == 1
    (prompt,) = panel.transport.asked
    assert "Name every subject of make the coat red." in read_prompt(prompt)
    assert "Image 1:" in read_prompt(prompt)
    assert scorer.prompt_origins == {"original"}
    assert scorer.calls(edit.item, SCORE) == {JUDGE: 1, SEGMENTER: 8, FEATURES: 8}


async def test_evidence_is_small() -> None:
    item = Item("1", "x", (picture("a", 640, 480, 1),))
    edit = Edit(item, "m", picture("out", 640, 480, 2))
    rng = np.random.default_rng(0)
    names = [f"thing {i}" for i in range(6)]
    slopes = (np.add.outer(*(rng.random(side).cumsum() for side in (480, 640))) for _ in range(12))
    masks = {(name, image): next(slopes) > 280 for name in names for image in ("a", "out")}
    got = await score(SUBJECTS, edit, Panel(names, masks, a=[1, 0], out=[1, 0]))
    assert len(json.dumps(got.evidence)) < 8192


async def test_models_share_what_depends_on_the_item(edit: Edit) -> None:
    other = replace(edit, model="n", image=picture("out", 20, 15, 9))
    panel = Panel(["x"], halves(edit, "x"), a=[1, 0], out=[1, 0])
    for one in (edit, other):
        await score(SUBJECTS, one, panel)
    assert len(panel.transport.asked) == 1
    for one in (edit, other):
        await score(OUTSIDE, one, panel)
    assert len(panel.transport.asked) == 3, "what was edited depends on the edit"
