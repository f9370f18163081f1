"""Rubrics asked and read as authors' released scripts do it."""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from PIL import Image as Pil

from ..answers import OutputContract, ScoresAnswer
from ..answers.first_digit import FirstDigit, FoundScores
from ..errors import Abstained
from ..images import Image, load_image
from ..item import Edit, Item
from ..panel.generalist import Answer, merged
from ..prompts import Template
from ..verdict import Scored, Unscored, Verdict
from .asking import ask
from .generalist import Rubric, grouped

if TYPE_CHECKING:
    from ..panel import Panel

JPEG_QUALITY = 85


@dataclass(frozen=True)
class ReleasedRubric(Rubric):
    """A rubric that follows an authors' release, each departure by itself.

    Fields and scale are those of `Rubric`. A reply may give some of its scores and lack others.

    Attributes:
        readers: What reads replies instead of the prompt's own contract, as (task, reader); the
            task `""` stands for all that are not named. Empty for the contract.
        untold: The judge gets an empty text for instruction and explanation.
        jpeg: Tasks whose images are encoded anew, as JPEG of quality 85.
    """

    name: ClassVar[str] = "released_rubric"
    readers: tuple[tuple[str, FirstDigit], ...] = field(default=(), kw_only=True)
    untold: bool = field(default=False, kw_only=True)
    jpeg: tuple[str, ...] = field(default=(), kw_only=True)

    def spec(self) -> Mapping[str, object]:
        """The parameters, templates and readers with their digests."""
        readers = (
            (task or "others", f"{one.name}({one.digest[:15]})") for task, one in self.readers
        )
        return {**super().spec(), "readers": grouped(readers)}

    async def score(
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Ask once, or `repeats` times."""
        judge = panel.generalist(self.service)
        asking = self.template_of(self.prompt_of(edit.item))
        contract = self._contract(edit.item, asking)
        prompt = ask(asking, self._shown(edit), judge)
        repeats = self.averaged(judge.endpoint)
        first = self.repeat * repeats
        said: list[Answer[ScoresAnswer | FoundScores]] = await asyncio.gather(
            *(judge.answer(prompt, contract, repeat=first + i) for i in range(repeats))
        )
        names = dict.fromkeys(name for one in said for name in _names(one.value))
        return {name: _verdict(said, name) for name in names}

    def _contract(self, item: Item, asking: Template) -> OutputContract[ScoresAnswer | FoundScores]:
        readers = dict(self.readers)
        found = readers.get(item.task, readers.get("")) or asking.contract
        if found is None:
            raise ValueError(f"prompt {asking.name} has choices where a contract is due")
        return found

    def _shown(self, edit: Edit) -> Edit:
        """The edit as the judge gets it."""
        item = edit.item
        if self.untold:
            item = replace(item, instruction="", hint="")
        if item.task not in self.jpeg:
            return replace(edit, item=item)
        sources = tuple(map(_as_jpeg, item.sources))
        return replace(edit, item=replace(item, sources=sources), image=_as_jpeg(edit.output))


def _as_jpeg(image: Image) -> Image:
    buffer = io.BytesIO()
    try:
        Pil.fromarray(image.rgb).save(buffer, "JPEG", quality=JPEG_QUALITY)
    except OSError as error:  # more than 65,535 pixels on a side
        raise Abstained("degenerate", f"{image.name} cannot be a JPEG: {error}") from error
    return load_image(buffer.getvalue(), image.name)


def _names(value: ScoresAnswer | FoundScores) -> Iterable[str]:
    without = value.without if isinstance(value, FoundScores) else {}
    return (*value.scores, *without)


def _verdict(said: Sequence[Answer[ScoresAnswer | FoundScores]], name: str) -> Verdict:
    """The mean of the replies; one that lacks the score leaves the whole without."""
    evidence = _evidence(said, name)
    for one in said:
        if isinstance(one.value, FoundScores) and name in one.value.without:
            return Unscored(kind="unparsable", reason=one.value.without[name], evidence=evidence)
    value = math.fsum(one.value.scores[name] for one in said) / len(said)
    return Scored(value=value, evidence=evidence)


def _evidence(said: Sequence[Answer[ScoresAnswer | FoundScores]], name: str) -> dict[str, Any]:
    """What the score rests on; `read_as` is the step of the released reader that found it."""
    how = [v.how.get(name) for v in (one.value for one in said) if isinstance(v, FoundScores)]
    read = {"read_as": how[0] if len(how) == 1 else how} if how else {}
    first = said[0]
    if len(said) == 1:
        words = {} if read else {"reasoning": getattr(first.value, "reasoning", "")}
        return first.evidence | words | read
    return {
        "values": [one.value.scores.get(name) for one in said],
        "replies": [one.evidence.get("reply") for one in said],
        "judge": first.evidence["judge"],
        **merged(said),
        **read,
    }
