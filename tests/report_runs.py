"""Runs to look at: judged by nobody, written as a session would have kept them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from editjudge.app.spec import ResolvedSpec
from editjudge.base.config import Settings
from editjudge.base.digest import file_digest
from editjudge.base.file_states import FileState, stat_of
from editjudge.base.identity import ServiceName
from editjudge.base.item import Missing
from editjudge.base.verdict import Failure, NoScore, NoScoreKind, Score, Verdict
from editjudge.engine.content_keys import JudgedEdit
from editjudge.panel.calls import Call, Reply, Usage
from editjudge.panel.prompt import Picture, Prompt, Text
from editjudge.storage.store import RunStore

from .small_data import make_spec, save_picture, write_items

PIXELS = tuple(f"core.{name}.source.whole" for name in ("psnr", "ssim", "mse", "aligned_psnr", "aligned_mse"))
ASKED = ("core.editing_artifacts", "core.instruction_following", "core.blending_naturalness")
READ = "core.text_content_accuracy"
DIMENSIONS = (*PIXELS, *ASKED, READ)
NASTY = "</script><img src=x onerror=alert(1)>\x1b[31m \u202eevil\u202c <!-- <script> &amp; \ud800"
"""A reply that no page may take for anything but text."""
_JUDGE = "openai:judge/1"


def picture(file: Path, seed: int, size: tuple[int, int] = (96, 64)) -> Path:
    """Something that looks like a picture: a gradient with a disc."""
    rng = np.random.default_rng(seed)
    wide, high = size
    across, down = np.meshgrid(np.linspace(0, 1, wide), np.linspace(0, 1, high))
    first, second = rng.integers(0, 255, 3), rng.integers(0, 255, 3)
    pixels = first * across[..., None] + second * (1 - down[..., None])
    disc = (across - rng.random()) ** 2 + (down - rng.random()) ** 2 < 0.05
    pixels[disc] = rng.integers(0, 255, 3)
    return save_picture(file, (pixels / pixels.max() * 255).astype(np.uint8))


def make_run(
    folder: Path,
    items: int = 6,
    models: Iterable[str] = ("alpha", "beta"),
    *,
    name: str = "run",
    dimensions: tuple[str, ...] = DIMENSIONS,
    instructions: Mapping[int, str] | None = None,
    reply: str = "",
    size: tuple[int, int] = (96, 64),
    shared: int = 0,
    odd: bool = True,
    not_served: Mapping[str, str] | None = None,
) -> Path:
    """A run of generic dimensions, with its data and pictures beside it.

    Two items share a source, each third is of a text. About one verdict of ten has no number, and
    the last item has no output of the last model.

    Args:
        instructions: In the place of the usual ones, by number of the item.
        reply: What the judge said of the first item, in the place of the usual.
        shared: Outputs are this many pictures by turns, instead of one each; for large runs.
        odd: Some verdicts have no number and an output is missing.
        not_served: Why there was no service, by role; nothing is judged that needs it.

    Returns:
        The folder of the run.
    """
    models = tuple(models)
    _write_data(folder, items, models, instructions or {}, size, shared)
    outputs = {model: folder / "outputs" / model for model in models}
    resolved = ResolvedSpec(make_spec(folder, dimensions=dimensions, outputs=outputs))
    absent = {ServiceName.parse(role): why for role, why in (not_served or {}).items()}
    header = resolved.header(Settings()).model_copy(update={"not_served": absent})
    signatures = resolved.signatures({})
    asked = [d for d in signatures if not resolved.roles([d]) & absent.keys()]
    digest = cache(file_digest)
    rng = random.Random(name)
    with RunStore.open(folder / name, header) as store, store.database.transaction():
        for (place, model), number in product(enumerate(models), range(items)):
            item = f"item {number}"
            path = outputs[model] / f"{item}.png"
            if odd and number == items - 1 and model == models[-1] and len(models) > 1:
                path.unlink()
                why = Missing("absent", f"no {path}")
                store.save_edit_now(JudgedEdit(item, model, None, why))
                continue
            seen = FileState(stat_of(path.resolve()), digest(path.resolve()))
            said = reply if reply and not number else f"The cup is red now, item {number}."
            call = partial(_call, store, number, model, said)
            mean = 0.5 + 0.15 * place
            verdicts = {each: _verdict(each, mean, rng, call, odd=odd) for each in asked}
            store.save_edit_now(JudgedEdit(item, model, seen), verdicts, signatures)
    return folder / name


def _write_data(
    folder: Path,
    items: int,
    models: tuple[str, ...],
    instructions: Mapping[int, str],
    size: tuple[int, int],
    shared: int,
) -> None:
    lines = []
    half = np.zeros((size[1], size[0]), np.uint8)
    half[:, : size[0] // 2] = 255
    save_picture(folder / "mask.png", half)
    for number in range(items):
        source = folder / f"sources/{number // 2 % (shared or items)}.png"
        if not source.exists():
            picture(source, number // 2, size)
        line = {"id": f"item {number}", "source": f"sources/{source.name}", "mask": "mask.png"}
        line["instruction"] = instructions.get(number, f"make cup {number} red")
        of_text = {"task": "text", "target_text": "SALE"}
        lines.append(line | ({"task": "recolour"} if number % 3 else of_text))
        for place, model in enumerate(models):
            file = folder / "outputs" / model / f"item {number}.png"
            if not shared:
                picture(file, 1000 * (place + 1) + number, size)
                continue
            made = folder / "pool" / f"{(number + place) % shared}.png"
            if not made.exists():
                picture(made, 1000 + (number + place) % shared, size)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.symlink_to(made.resolve())
    write_items(folder, lines)


def _verdict(dimension: str, mean: float, rng: random.Random, call: Callable[[str], str], *, odd: bool) -> Verdict:
    value = min(1.0, max(0.0, rng.gauss(mean, 0.15 if dimension in ASKED else 0.05)))
    if dimension == ASKED[1]:
        value = round(4 * value) / 4
    chance = rng.random() if odd else 1.0
    if dimension == READ:
        return Score(value=value, evidence={"read": "SALT", "target": "SALE"})
    if dimension not in ASKED:
        return Score(value=value * 40 if "psnr" in dimension else value, evidence={})
    if chance < 0.02:
        return Failure(error="judge at http://127.0.0.1:1/v1: no reply after 3 attempts")
    if chance < 0.1:
        kind = rng.choice(get_args(NoScoreKind))
        return NoScore(kind=kind, reason="the reply holds no number", calls=(call(dimension),))
    evidence: dict[str, Any] = {}
    if dimension == ASKED[0]:
        evidence = {"question": "Is it free of them?", "method": "logprobs"}
        evidence["probabilities"] = {"Yes": value, "No": 1 - value}
    return Score(value=value, evidence=evidence, calls=(call(dimension),))


def _call(store: RunStore, number: int, model: str, said: str, dimension: str) -> str:
    """Keep a call to a judge and its reply; the call's key."""
    parts = (
        Text(f"How well was {dimension} done? " + "Look at the whole picture. " * 20),
        Picture(b"", "image/png", (96, 64), "source", f"sha256:{number:064x}"),
        Text(f"make cup {number} red, by {model}", is_data=True),
    )
    prompt = Prompt("You look at pictures.", parts)
    call = Call(_JUDGE, prompt, {"dimension": dimension})
    told = {"text": said, "finish": "stop", "outside": 0.01}
    store.ledger._put(call, Reply(told, "judge-8b", Usage(900, 0, 20), 0.001))
    return call.key
