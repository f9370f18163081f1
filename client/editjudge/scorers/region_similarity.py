"""A scorer that compares features of regions, which a judge names and a segmenter finds."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..answers.segmentation import Command, Commands
from ..base.errors import Abstention
from ..base.identity import ServiceName
from ..base.images import Image, encode_mask
from ..base.item import Edit, Item
from ..base.threads import in_thread
from ..base.verdict import NoScore, NotApplicable, Score, Verdict, Verdicts
from ..panel import Panel
from ..panel.coalesce import gather_all
from ..panel.judge import Answer
from .judge_scorer import JudgeScorer, Question, get_contract
from .regions import segment_phrase
from .similarity import FeatureRule, Vector, compute_cosine, fetch_embedding

SearchScope: TypeAlias = Literal["each", "edited"]
Side: TypeAlias = Literal["source", "edited"]
SEGMENTER, FEATURES = "segmenter.sa2va", "features.dinov3"
_COPY_SIDE = 64
"""Longest side of the masks in the evidence; the exact ones are in the ledger."""
_SIDES: tuple[Side, Side] = ("source", "edited")


@dataclass(frozen=True)
class RegionSimilarity(JudgeScorer):
    """Cosine of two images' features within regions found by command (I2I-Bench, eq. 2).

    A judge writes commands, a segmenter finds what each names, and the features of the
    source and of the edited image are taken within it. Where a region is looked for in both
    images and found in the source alone, the edit lost it. Fields:

    - `score`: the mean cosine over the commands, in [-1, 1], higher is better. What is lost counts
      as 0, and the score is then marked as imputed.
    - `found_only`: the same, without a number (`degenerate`) where anything is lost.
    - `lost`: the share of the commands whose region is lost, in [0, 1], lower is better.

    A region that is not found in its source is the segmenter's own miss (`missed` in the
    evidence), and tells nothing of the edit: all fields are `degenerate`. So are the first two
    where a mask is the whole image, or vanishes at the other image's size, and where a vector
    is zero. An empty list of commands, where the contract allows one, is `NotApplicable`: there
    is nothing to compare. The evidence has the commands, how sure the segmenter was, each
    region's share of its image, and small copies of the regions.

    Attributes:
        service: Writes the commands.
        prompt: Asks for them; its contract is `commands`.
        found: Where a command's region is looked for: in `each` image by itself, or in the
            `edited` one alone, whose mask is then laid over the source (nearest neighbour).
        inverted: Compares what lies outside the masks: outside of all of them together where they
            are looked for in the edited image alone, each by itself otherwise.
        segmenter: `segmenter.<variant>`.
        features: Of the roles `features` or `clip`.
        rule: How a region is taken; see `FeatureSimilarity`.
    """

    name: ClassVar[str] = "region_similarity"

    found: SearchScope = field(default="each", kw_only=True)
    inverted: bool = field(default=False, kw_only=True)
    segmenter: str = field(default=SEGMENTER, kw_only=True)
    features: str = field(default=FEATURES, kw_only=True)
    rule: FeatureRule = field(default="pool", kw_only=True)

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        """The judge, the segmenter and the feature service."""
        services = (self.service, self.segmenter, self.features)
        return tuple(map(ServiceName.parse, services))

    def questions(self, item: Item) -> tuple[Question, ...]:
        """Return the question that asks for the commands."""
        template = self.template_for(item)
        contract = replace(get_contract(template, Commands), sources=len(item.sources))
        return (Question(template, contract),)

    @property
    def _together(self) -> bool:
        """Whether what is compared lies outside of all regions that were edited."""
        return self.inverted and self.found == "edited"

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """One to the judge, the others for as many commands as there may be."""
        most = get_contract(self.template_for(item), Commands).high
        each = 2 if self.found == "each" else 1
        command_groups = 1 if self._together else most
        specialists = {self.segmenter: each * most, self.features: 2 * command_groups}
        return {**super().calls(item, fields), **specialists}

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Ask the judge for commands, then carry them out concurrently."""
        judge = panel.judge(self.service)
        (question,) = self.questions(edit.item)
        answer: Answer[tuple[Command, ...]] = await question.ask(edit, judge, repeat=self.repeat)
        evidence: dict[str, Any] = {"compared": "outside" if self.inverted else "inside"}
        if not answer.value:
            why = "the judge names nothing to compare"
            nothing = NotApplicable(reason=why, evidence=evidence, calls=answer.calls)
            return dict.fromkeys(fields, nothing)
        groups = [answer.value] if self._together else [(command,) for command in answer.value]
        pairs = [_Pair(self, edit, panel, commands) for commands in groups]
        cosines = await gather_all(*(pair.cosine() for pair in pairs))
        evidence["regions"] = [pair.evidence for pair in pairs]
        losses = [text for pair in pairs for text in pair.losses]
        problems = [text for pair in pairs for text in pair.problems]
        source_problems = [text for pair in pairs for text in pair.source_problems]

        def verdict(value: float, problems: Sequence[str], of: Mapping[str, Any], *, by_rule: bool = False) -> Verdict:
            basis: dict[str, Any] = {"evidence": dict(of), "calls": answer.calls}
            if problems:
                return NoScore(kind="degenerate", reason="; ".join(problems), **basis)
            return Score(value=value, imputed=by_rule, **basis)

        mean, share = float(np.mean(cosines)), len(losses) / len(pairs)
        return {
            "score": verdict(mean, problems, evidence, by_rule=bool(losses)),
            "found_only": verdict(mean, problems + losses, evidence),
            "lost": verdict(share, source_problems, {"lost": losses}),
        }


class _Pair:
    """The region of a command in the source and in the edited image.

    Several commands make one pair with the union of their regions: what lies outside of one edited
    region may lie in another. If one region is not found, the pair has no number, since that region
    would count as not edited.

    Attributes:
        evidence: What was found.
        losses: Descriptions of regions that were found in the source, and not in the edited image.
    """

    def __init__(self, how: RegionSimilarity, edit: Edit, panel: Panel, commands: tuple[Command, ...]) -> None:
        self._how, self._panel, self._commands = how, panel, commands
        self._phrase = ", ".join(command.phrase for command in commands)
        self._index = commands[0].source_index
        source = edit.item.sources[self._index]
        self._images: dict[Side, Image] = {"source": source, "edited": edit.output}
        # By side, whichever answers first: the same reason every time.
        self._problems: dict[Side, list[str]] = {side: [] for side in _SIDES}
        self.losses: list[str] = []
        self.evidence: dict[str, Any] = {
            "command": self._phrase,
            "source_index": self._index,
            **{side: {} for side in _SIDES},
        }
        if len(commands) > 1:
            self.evidence["commands"] = [command.phrase for command in commands]

    @property
    def problems(self) -> list[str]:
        """Why there is no score; empty if there is one."""
        return [problem for side in _SIDES for problem in self._problems[side]]

    @property
    def source_problems(self) -> list[str]:
        """Why nobody can tell whether the region is lost; empty if it can be told."""
        return self._problems["source"]

    async def cosine(self) -> float:
        """Return the cosine; NaN if there are problems, 0 if the region is lost."""
        try:
            regions = await self._regions()
            if self.problems:
                return np.nan
            if self.losses:
                return 0.0
            vectors = await gather_all(*(self._embedding(s, regions[s]) for s in _SIDES))
            cosine = self.evidence["cosine"] = compute_cosine(*vectors)
        except Abstention as error:
            self._problems["source"].append(f"{self._phrase!r}: {error.reason}")
            return np.nan
        return cosine

    async def _regions(self) -> dict[Side, NDArray[np.bool_]]:
        """Return the region to compare in each image, and note a problem if it is full or empty."""
        regions: dict[Side, NDArray[np.bool_]] = {}
        for side, mask in (await self._masks()).items():
            if mask.all() or not mask.any():
                what = "fills" if mask.all() else "vanishes at the size of"
                self._note(side, f"{what} the {self._describe_side(side)}")
            regions[side] = ~mask if self._how.inverted else mask
            evidence = await in_thread(_make_evidence, regions[side])
            self.evidence[side] |= evidence
        return regions

    async def _masks(self) -> dict[Side, NDArray[np.bool_]]:
        """Return the masks found, at their images' sizes, and note a problem for the others."""
        sides: tuple[Side, ...] = _SIDES if self._how.found == "each" else ("edited",)
        each = zip(sides, await gather_all(*map(self._segment, sides)), strict=True)
        masks = {side: mask for side, mask in each if mask is not None}
        if masks.keys() == {"source"}:
            source, edited_name = map(self._describe_side, _SIDES)
            what = f"was found in the {source} and not in the {edited_name}"
            self.losses = [f"{self._phrase!r} {what}"]
            self.evidence["lost"] = True
        else:
            for side in [side for side in sides if side not in masks]:
                self._note(side, f"was not found in the {self._describe_side(side)}")
                if side == "source":
                    self.evidence["missed"] = True
        if "edited" in masks and "source" not in sides:
            over = _stretch_mask(masks["edited"], self._images["source"].size)
            masks = {"source": over, **masks}
        return masks

    async def _segment(self, side: Side) -> NDArray[np.bool_] | None:
        """The mask of the commands in one image, at its size; None where one was not found."""
        image, service = self._images[side], self._how.segmenter
        each = (segment_phrase(image, one.phrase, self._panel, service) for one in self._commands)
        finds = await gather_all(*each)
        scores = [round(sure, 4) for _, sure in finds]
        self.evidence[side] |= {"scores": scores} if len(scores) > 1 else {"score": scores[0]}
        masks = [mask for mask, _ in finds if mask is not None]
        return np.logical_or.reduce(masks) if len(masks) == len(finds) else None

    def _describe_side(self, side: Side) -> str:
        return "edited image" if side == "edited" else f"source image {self._index + 1}"

    def _note(self, side: Side, what: str) -> None:
        self._problems[side].append(f"{self._phrase!r} {what}")

    async def _embedding(self, side: Side, region: NDArray[np.bool_]) -> Vector:
        mask = await in_thread(encode_mask, region)
        inputs = {"IMAGE": self._images[side].encoded_bytes, "MASK": mask}
        return await fetch_embedding(self._panel, self._how.features, inputs, self._how.rule)


def _stretch_mask(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Resize a mask to an image's size, whatever its aspect ratio (nearest neighbour)."""
    if (mask.shape[1], mask.shape[0]) == size:
        return mask
    picture = Pil.fromarray(mask).resize(size, Pil.Resampling.NEAREST)
    return np.asarray(picture, dtype=np.bool_)


def _make_evidence(region: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a region as evidence: its share of the image, and a small 1-bit PNG in base64."""
    height, width = region.shape
    scale = min(1.0, _COPY_SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = base64.b64encode(encode_mask(_stretch_mask(region, size))).decode("ascii")
    return {"share": round(float(region.mean()), 6), "mask": small}
