"""The canaries, and the question that a judge answers about them."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from ..base.digest import content_digest
from ..base.errors import Abstention, ServiceError
from ..base.images import Image, load_image
from ..base.item import Edit, Item
from ..panel.calls import MemoryReplies
from ..panel.judge import Judge
from ..prompts import read_template
from ..scorers.judge_scorer import Question
from .comparison import HIGH, LOW, Measurement

TEMPLATE = read_template("canary", files(__package__ or "") / "canary.toml", "")
QUESTION = Question(TEMPLATE, TEMPLATE.choices)
SCENES: Mapping[str, str] = {
    "kitchen": "Make the red mug blue, and take the green apple away.",
    "street": "Paint the front door green, and add a second tree to the right of the house.",
}
"""The instruction of each scene."""
_PLACES = {"right": 1, "partly": 2, "nothing": 3, "other": 4, "ruined": 4}
"""The place of each variant among the edits of its scene, from 1, the best; edits that share a
place are not compared."""


@cache
def canaries() -> Mapping[str, Edit]:
    """All canaries by name, scene by scene, the best first."""
    edits: dict[str, Edit] = {}
    for scene, instruction in SCENES.items():
        source = _load_picture(f"{scene}.source")
        item = Item(scene, instruction, (source,))
        for variant in _PLACES:
            image = source if variant == "nothing" else _load_picture(f"{scene}.{variant}")
            edits[f"{scene}.{variant}"] = Edit(item, variant, image)
    return edits


def _load_picture(name: str) -> Image:
    file = files(__package__ or "") / "pictures" / f"{name}.png"
    return load_image(file.read_bytes(), name)


@cache
def canary_digest() -> str:
    """The digest (`sha256:` and 64 hex digits) of the pictures, instructions and prompt."""
    parts = [TEMPLATE.digest]
    for name, edit in canaries().items():
        item = edit.item
        parts += [name, item.instruction, item.sources[0].digest, edit.output.digest]
    return content_digest("\n".join(parts).encode())


def known_places() -> dict[str, tuple[str, int]]:
    """Map each canary to its scene and its place in the scene."""
    return {name: (edit.item.id, _PLACES[edit.model]) for name, edit in canaries().items()}


async def measure(judge: Judge, rounds: int) -> Measurement:
    """Let a judge rate each canary `rounds` times, past every stored reply.

    The request is the same each time, so that differences are the judge's own noise.
    """
    began = datetime.now(UTC).isoformat(timespec="seconds")
    await asyncio.to_thread(_encode_pictures, judge)
    scores: dict[str, list[float]] = {name: [] for name in canaries()}
    failures: dict[str, str] = {}

    async def ask(judge: Judge, name: str) -> None:
        try:
            answer = await QUESTION.ask(canaries()[name], judge)
        except (Abstention, ServiceError) as error:
            failures[name] = str(error)
        else:
            share = answer.value.expectation(TEMPLATE.weights)
            scores[name].append(float(LOW + (HIGH - LOW) * share))

    # Each round has a store of its own, since equal calls that share a store are made only once.
    judges = [judge.with_context(replace(judge.context, calls=MemoryReplies())) for _ in range(rounds)]
    await asyncio.gather(*(ask(judge, name) for judge in judges for name in canaries()))
    return Measurement(
        when=began, scores={name: tuple(each) for name, each in scores.items() if each}, failures=failures
    )


def _encode_pictures(judge: Judge) -> None:
    """Decode and encode the pictures; runs in a thread so that it blocks no other calls."""
    for edit in canaries().values():
        for picture in (*edit.item.sources, edit.output):
            _ = judge.prepare_picture(picture).digest
