"""Makers generate fields that items lack: instructions, questions, or masks.

A mask shows the part of the image that the edit may change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..answers.questions import ChoiceQuestion
from ..answers.segmentation import TargetPhrases
from ..base.digest import content_digest
from ..base.errors import ImageError
from ..base.identity import ServiceName
from ..base.images import Image, encode_mask, load_mask
from ..base.item import Edit, Item
from ..benchmarks.comparison_words import refers_to_source
from ..benchmarks.items import Line
from ..benchmarks.texts import is_blank
from ..panel import Panel
from ..prompts import Template, get_template
from ..scorers.judge_scorer import Question
from ..scorers.regions import Select, segment_phrase
from .items import CANDIDATE, JUDGE, WHOLE, Entry, What, find_type, why_no_mask

_Mask: TypeAlias = NDArray[np.bool_]
_Regions: TypeAlias = Mapping[str, Mapping[str, _Mask | None]]
"""The mask of each phrase, by image (`source` or `target`); None where nothing was found."""
FACTS = "omni_iie/facts"
"""The template for questions with answers. A run generates missing ones with the same template, so
reviewers see the questions that a run would use."""
_SCOPES = {"objects": "what is named", "surroundings": "everything but what is named", "whole": "the whole image"}


@dataclass(frozen=True)
class Maker:
    """Fills one field of items.

    Attributes:
        what: The field that it fills.
        find_entry_without_work: Makes the entry of an item that needs no work; returns None if
            there is work to do.
        make: Makes the entry of an item by calls to services. It raises `Abstention` if the judge
            refuses or its reply cannot be parsed, and a `ServiceError` if a service fails.
        roles: The services that it calls.
    """

    what: What
    find_entry_without_work: Callable[[Line], Entry | None]
    make: Callable[[Item, Panel], Awaitable[Entry]]
    roles: tuple[ServiceName, ...] = (JUDGE,)


def choose_template(what: Literal["choice", "facts"], task: str = "") -> str:
    """Choose the name of the prompt template for questions about an edit with this task."""
    if what == "facts":
        return FACTS
    choice = find_type(task).get("choice")
    return f"prepare/choice_{choice}" if choice else "prepare/choice"


def instructions() -> Maker:
    """Generate the instructions of items that have none, from their source and edit type.

    The paper has one prompt for instruction and question (GIE-Bench, figure 8). Here the question
    is generated afterwards (`questions`), from the instruction that a reviewer accepted.
    """
    return Maker("instructions", _needs_no_instruction, _instruction)


def _needs_no_instruction(line: Line) -> Entry | None:
    if not is_blank(line.instruction):
        return Entry("had")
    several = bool(find_type(line.task).get("several"))
    if several == (len(line.images) > 1):
        return None
    return Entry("unsuited", "its type takes several sources" if several else "it has several sources")


async def _instruction(item: Item, panel: Panel) -> Entry:
    edit_type = find_type(item.extra.get(WHOLE, item.task))
    kinds = [find_type(part)["is"] for part in edit_type.get("parts", [item.task])]
    prompt = get_template("prepare/instruction")
    more: dict[str, str] = {}
    if "parts" in edit_type:
        prompt = get_template("prepare/described")
        description = await _ask_judge(item, panel, get_template("prepare/description"))
        more = {"before": edit_type["before"], "description": description}
    texts: list[str] = []
    # The candidates before this one are in the ledger, or asked for by the items that they become.
    for _, kind in zip(range(item.extra.get(CANDIDATE, 1)), cycle(kinds), strict=False):
        earlier = "\n".join(texts) or "nothing"
        texts.append(await _ask_judge(item, panel, prompt, kind=kind, earlier=earlier, **more))
    notes = [("the picture", more["description"])] if more else []
    return Entry("made", instruction=texts[-1], notes=tuple(notes))


def questions(what: Literal["choice", "facts"], custom: tuple[Template, ...] = ()) -> Maker:
    """Generate the questions of items that have none.

    `choice`: one multiple-choice question, from the sources and the instruction, with a template
    for the edit type (GIE-Bench, section 3.2). `MultipleChoice` reads it. Its field `compares`
    says whether it needs the source for a comparison; a list of words decides that, and reviewers
    check it. `facts`: 1 to 3 questions with their answers, from the instruction alone (Omni IIE
    Bench, section 5.1). `FactCheck` reads them.

    Args:
        custom: The user's templates, which replace the built-in ones.
    """
    return Maker(what, _needs_no_questions, partial(_questions, what, custom))


def _needs_no_questions(line: Line) -> Entry | None:
    return Entry("had") if line.questions else None


async def _questions(what: Literal["choice", "facts"], custom: tuple[Template, ...], item: Item, panel: Panel) -> Entry:
    value = await _ask_judge(item, panel, get_template(choose_template(what, item.task), custom))
    if not isinstance(value, ChoiceQuestion):
        return Entry("made", questions=tuple(value))
    by_words = refers_to_source(value.question, value.options)
    question = _shuffle_options(item.id, value)._replace(compares=by_words)
    notes = (("the edited image is shown", "with its source" if by_words else "alone"),)
    return Entry("made", questions=(question,), notes=notes)


def _shuffle_options(item_id: str, question: ChoiceQuestion) -> ChoiceQuestion:
    """Put the options in an order that does not show which is right.

    Judges prefer some positions, so a right answer that always stands first would be too easy. The
    order depends only on the item's id and the options. The last option, "cannot be told", stays
    last.
    """
    *answers, cannot_tell = question.options
    answers.sort(key=lambda answer: content_digest(f"{item_id}\n{answer}".encode()))
    return question._replace(options=(*answers, cannot_tell))


async def _ask_judge(item: Item, panel: Panel, prompt: Template, **texts: str) -> Any:
    """Ask the judge about an item without any output, and return the parsed reply.

    Args:
        texts: Fields of the template that the item does not have itself.

    Raises:
        Abstention: the judge refused, or its reply cannot be parsed.
        ServiceError: see `editjudge.base.errors`.
    """
    judge = panel.judge(JUDGE)
    images = list(item.sources) if "sources" in prompt.fields else []
    if "target" in prompt.fields and item.target is not None:
        images.append(item.target)
    # In a thread, because resizing would block the event loop.
    await asyncio.to_thread(lambda: [judge.prepare_picture(image).digest for image in images])
    question = Question(prompt, prompt.form)
    return (await question.ask(Edit(item, "", None), judge, repeat=0, **texts)).value


def masks(segmenter: ServiceName, select: Select | None = None, custom: tuple[Template, ...] = ()) -> Maker:
    """Generate the masks of items that have none.

    The judge names objects in phrases (one call with source and instruction), and the segmenter
    finds each phrase (one call each). The mask is the union of the regions that were found. It
    shows what is edited; where the edit changes the surroundings of the objects, it shows what is
    kept. GIE-Bench, section 3.3; Omni IIE Bench, section 3.2.2, stage 2.

    If an item has a target, outputs are compared with the target inside the mask too, and objects
    may stand at other places there. So the judge also names what the edit made of the objects (one
    more call with both images), and the segmenter finds it in the target. What may change is what
    may change in the source or in the target.

    Args:
        segmenter: `segmenter.<variant>`.
        select: Which regions of a phrase to take: `all`, or the `best`. None takes the best one, as
            GIE-Bench does, but all for an item with a target, as Omni IIE Bench does.
        custom: The user's templates, which replace the built-in ones.
    """
    make = partial(_mask, segmenter, select, custom)
    return Maker("masks", _needs_no_mask, make, (JUDGE, segmenter))


def _needs_no_mask(line: Line) -> Entry | None:
    """Return the entry of an item that keeps its mask, needs none or cannot have one; else None.

    An edit of the whole image, by its type, needs no mask. A mask for several sources is undefined.
    """
    if line.mask is not None:
        return Entry("had")
    if why := why_no_mask(line):
        return Entry("unsuited", f"{why}, so it needs no mask")
    if len(line.images) > 1:
        return Entry("unsuited", "it has several sources, but a mask belongs to one")
    return None


async def _mask(
    segmenter: ServiceName, select: Select | None, custom: tuple[Template, ...], item: Item, panel: Panel
) -> Entry:
    (source,), target = item.sources, item.target
    if target is not None and not _one_mask_fits(source, target):
        sizes = " and ".join(f"{w}x{h}" for w, h in (source.size, target.size))
        return Entry("unsuited", f"no mask fits both its source and its target ({sizes})")
    targets: TargetPhrases = await _ask_judge(item, panel, get_template("prepare/targets", custom))
    searches = [("source", source, targets.phrases)]
    if target is not None and targets.scope == "surroundings":
        searches.append(("target", target, targets.phrases))
    elif target is not None and targets.scope == "objects":
        after = await _ask_judge(item, panel, get_template("prepare/targets_after", custom))
        searches.append(("target", target, tuple(command.phrase for command in after)))
    select = select or ("best" if target is None else "all")

    async def region(image: Image, phrase: str) -> _Mask | None:
        """Find a phrase in an image: a mask at the source's size, or None if it is not found."""
        mask, _ = await segment_phrase(image, phrase, panel, segmenter, select)
        if mask is None:
            return None
        pixels = load_mask(mask, f"mask of {phrase!r}").resize(source.size).region
        return pixels if pixels.any() else None

    regions_by_image = {}
    for name, image, phrases in searches:
        regions = await asyncio.gather(*(region(image, phrase) for phrase in phrases))
        regions_by_image[name] = dict(zip(phrases, regions, strict=True))
    return await asyncio.to_thread(_entry_of_regions, source, targets, regions_by_image)


def _one_mask_fits(source: Image, target: Image) -> bool:
    """Whether a mask of the source's size can be resized to the target's size."""
    width, height = source.size
    try:
        load_mask(np.ones((height, width), bool), "mask").resize(target.size)
    except ImageError:
        return False
    return True


def _entry_of_regions(source: Image, targets: TargetPhrases, regions_by_image: _Regions) -> Entry:
    notes = [("may change", _SCOPES[targets.scope])]
    for name, regions in regions_by_image.items():
        where = "" if len(regions_by_image) == 1 else f" in the {name}"
        absent = [phrase for phrase, region in regions.items() if region is None]
        for label, phrases in (("named", regions), ("not found", absent)):
            if phrases:
                notes.append((f"{label}{where}", ", ".join(phrases)))
    editable = _join_regions(source, targets, regions_by_image)
    if editable is None or not editable.any():
        nothing = "nothing was found of" if editable is None else "nothing is left around"
        every = dict.fromkeys(phrase for regions in regions_by_image.values() for phrase in regions)
        reason = f"{nothing}: {', '.join(every)}"
        return Entry("not_found", reason, notes=tuple(notes))
    notes.append(("share of the image", f"{editable.mean():.1%}"))
    names_surroundings = targets.scope == "surroundings"
    regions = regions_by_image["source"]
    found_phrases = (phrase for phrase, region in regions.items() if region is not None)
    return Entry(
        "made",
        # White is what was named, whether it is edited or kept: where a benchmark looks for a
        # subject, it is the object and not what is around it.
        mask=encode_mask(~editable if names_surroundings else editable),
        mask_shows="kept" if names_surroundings else "edited",
        phrases=tuple(found_phrases),
        notes=tuple(notes),
    )


def _join_regions(source: Image, targets: TargetPhrases, by_image: _Regions) -> _Mask | None:
    """Join the pixels that may change in the source or in the target; None if nothing was found."""
    if targets.scope == "whole":
        width, height = source.size
        return np.ones((height, width), bool)
    sides = ([m for m in regions.values() if m is not None] for regions in by_image.values())
    masks_by_side = [np.logical_or.reduce(side, axis=0) for side in sides if side]
    if not masks_by_side:
        return None
    around = targets.scope == "surroundings"
    editable: _Mask = np.logical_or.reduce([~m if around else m for m in masks_by_side], axis=0)
    return editable
