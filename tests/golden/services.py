"""Judges and specialists whose answers are functions of what they are asked, and of nothing else.

An edit that is one flat grey is one that nothing can be said of: judges answer in no form or
refuse, specialists abstain. For one of flat magenta services fail. Everything else has an answer.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from grpc import StatusCode
from PIL import Image as Pil

from ..fakes.openai import SURE, ScriptedOpenAi, bound_to, choices_of, reply
from ..fakes.triton import ScriptedTriton
from ..fakes.triton import reply as tensors

GREY, MAGENTA = (127, 127, 127), (255, 0, 255)
LEVELS = ("excellent", "good", "fair", "poor", "bad")
PHRASES = ("left part", "right part", "upper part")
PROBE = "frozen water"
"""A word of the question by which it is found out whether a judge tells probabilities."""


def number(*parts: object) -> int:
    """Of what is given, the same everywhere."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:6], "big")


def open_picture(data: bytes) -> np.ndarray:
    """Some pixels of a picture, of a large one every few; uint8 (H, W, 3)."""
    with Pil.open(io.BytesIO(data)) as picture:
        step = max(1, picture.width // 64)
        return np.asarray(picture.convert("RGB"))[::step, ::step]


def is_flat(pixels: np.ndarray, colour: tuple[int, int, int]) -> bool:
    """Whether all of it is that colour, or nearly: JPEG changes it a little."""
    return bool((np.abs(pixels.astype(int) - colour) <= 6).all())


class Judge(ScriptedOpenAi):
    """Answers in the form that it is asked for, by a digest of the text, the seed and its name.

    Args:
        refuses: Whether it refuses where another answers in no form, and fails for magenta.
    """

    def __init__(self, name: str, *, refuses: bool) -> None:
        super().__init__(models=(name,), answers_as=name, binds=True)
        self.name = name
        self.refuses = refuses

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        if self.refuses and any(is_flat(one, MAGENTA) for one in images(asked)):
            return web.json_response({"error": {"message": "magenta is too much"}}, status=400)
        return await super()._chat(request)

    def make_reply(self) -> dict[str, Any]:
        asked = self.requests[-1]
        text = text_of(asked)
        if PROBE in text:
            self.probabilities = SURE
            return super().make_reply()
        shown = [_colours(one) for one in images(asked)]
        seed = number(self.name, text, shown, asked.get("seed"))
        lost = any(is_flat(one, GREY) for one in images(asked))
        if lost and self.refuses:
            return reply(None, message={"refusal": "I cannot help with that."})
        if asked.get("logprobs"):
            self.probabilities = {"Maybe": 0.9, "Yes": 0.1} if lost else _spread(text, seed)
            return super().make_reply()
        schema = asked.get("response_format", {}).get("json_schema", {}).get("schema")
        if lost:
            return reply("I cannot put that in a form.")
        if schema is None:
            return reply(_answer_in_words(text, seed))
        if choices := choices_of(asked):
            return reply(bound_to(asked, fill_schema({"enum": choices}, seed, "")))
        answer = fill_schema(schema, seed, "")
        return reply(answer if isinstance(answer, str) else json.dumps(answer))


def text_of(asked: Mapping[str, Any]) -> str:
    """All text of a request."""
    return "\n".join(p["text"] for p in _parts(asked) if p["type"] == "text")


def images(asked: Mapping[str, Any]) -> list[np.ndarray]:
    """The pictures of a request."""
    urls = [p["image_url"]["url"] for p in _parts(asked) if p["type"] == "image_url"]
    return [open_picture(base64.b64decode(url.partition(",")[2])) for url in urls]


def _parts(asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for message in asked["messages"]:
        content = message["content"]
        yield from content if isinstance(content, list) else [{"type": "text", "text": content}]


def _colours(pixels: np.ndarray) -> list[int]:
    """The mean colour of a picture, so coarse that decoders may differ in a bit."""
    return [int(value) for value in np.round(pixels.reshape(-1, 3).mean(0) / 4 + 0.25)]


def _spread(text: str, seed: int) -> dict[str, float]:
    """Probabilities of the choices that a prompt lists; they sum to 1."""
    words = LEVELS if "excellent:" in text else ("True", "False")
    if words != LEVELS and "Somebody answered it" not in text:
        words = ("Yes", "No")
    weights = [1 + (seed >> 4 * index) % 16 for index in range(len(words))]
    return {word: weight / sum(weights) for word, weight in zip(words, weights, strict=True)}


def _answer_in_words(text: str, seed: int) -> str:
    """An answer where no schema tells its form: an option, or scores in somebody else's words."""
    if listed := re.search(r"of: (.+)\nPick\.", text):
        options = listed[1].split(", ")
        return options[seed % len(options)]
    if "end the reply with one JSON object" in text:
        scores = [number(seed, index) % 11 for index in range(4)]
        return f"What {{was}} asked for is there.\n{json.dumps({'score': scores})}"
    if found := re.search(r"Rate by (\w+)\.txt", text):
        keys = {"dual": ("instruction_score", "knowledge_score")}
        about = next((name for name in keys if name in found[1]), "")
        names = keys.get(about, (f"{_name_score(found[1])}_score",))
        scores = {name: 1 + (seed >> index) % 5 for index, name in enumerate(names)}
        return json.dumps(scores) if seed % 3 else f"All in all it is worth {1 + seed % 5}/5."
    return "The new one"


def _name_score(file: str) -> str:
    told = (name for name in ("consistency", "quality", "instruction") if name[:7] in file)
    return next(told, "instruction")


def fill_schema(schema: Mapping[str, Any], seed: int, key: str) -> Any:
    """A value of a JSON schema; `key` is what it is called."""
    if "enum" in schema:
        return schema["enum"][seed % len(schema["enum"])]
    match schema["type"]:
        case "object":
            return {name: fill_schema(of, number(seed, name), name) for name, of in schema["properties"].items()}
        case "array":
            count = schema.get("minItems", 1)
            count += seed % (min(schema.get("maxItems", count), count + 1) - count + 1)
            return [_entry(schema["items"], seed + index, key, index) for index in range(count)]
        case "integer" | "number":
            low = schema.get("minimum", 0)
            return low + seed % (int(schema.get("maximum", low)) - int(low) + 1)
    return {"answer": ("yes", "no")[seed % 2], "question": "Is it right?"}.get(key, "seen")


def _entry(schema: Mapping[str, Any], seed: int, key: str, index: int) -> Any:
    """Entries that have to differ do."""
    if key == "commands":
        phrase = PHRASES[(seed + index) % len(PHRASES)]
        if schema["type"] == "string":
            return phrase
        return {"source_index": fill_schema(schema["properties"]["source_index"], seed, ""),
                "phrase": phrase}  # fmt: skip
    if schema["type"] == "string":
        return f"Is part {index} right?"
    entry = fill_schema(schema, seed, key)
    if isinstance(entry, dict) and "question" in entry:
        entry["question"] = f"Is part {index} of it right?"
    return entry


class Specialists(ScriptedTriton):
    """Every role's answer by the coarse colours of what is sent."""

    def __init__(self, models: tuple[str, ...]) -> None:
        super().__init__(models=models)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        names = (one.name for one in request.inputs)
        raw = dict(zip(names, request.raw_input_contents, strict=True))
        inputs = {name: data[4 : 4 + struct.unpack("<I", data[:4])[0]] for name, data in raw.items()}
        pictures = [open_picture(inputs[name]) for name in sorted(inputs) if name.startswith("IMAGE")]
        # A part of an edit may come in a frame, or on the source.
        parts = [_select_region(one, inputs) for one in pictures]
        if any(_has_much(one, MAGENTA) for one in parts):
            await context.abort(StatusCode.INTERNAL, "magenta is too much")
        if any(is_flat(one, GREY) for one in parts):
            await context.abort(StatusCode.INVALID_ARGUMENT, "abstained/degenerate: one flat grey")
        role = request.model_name.partition("_")[0]
        told = sorted((name, one.string_param) for name, one in request.parameters.items())
        asked = [request.model_name, told]
        return getattr(self, f"_{role}")(asked, inputs, pictures)

    def _quality(self, asked: Any, inputs: Mapping[str, bytes], pictures: Any) -> Any:
        seed = number(asked, [_colours(one) for one in pictures])
        return tensors(SCORE=np.array([[seed % 65 / 64]], np.float32))

    _aesthetics = _quality

    def _lpips(self, asked: Any, inputs: Mapping[str, bytes], pictures: Any) -> Any:
        seed = number(asked, [_colours(one) for one in pictures], _share(inputs))
        return tensors(DISTANCE=np.array([[seed % 65 / 64]], np.float32))

    def _features(self, asked: Any, inputs: Mapping[str, bytes], pictures: Any) -> Any:
        seed = number(asked, _share(inputs))
        turned = [1 + (seed >> 3 * index) % 8 for index in range(3)]
        means = [a * b for a, b in zip(turned, _colours(pictures[0]), strict=True)]
        return tensors(EMBEDDING=np.array([means], np.float32))

    _clip = _features

    def _ocr(self, asked: Any, inputs: Mapping[str, bytes], pictures: Any) -> Any:
        seed = number(asked, _colours(pictures[0]))
        return tensors(
            TEXT=("NEW 1", "NEW", "now 1", "")[seed % 4],
            BOXES=np.zeros((1, 0, 4, 2), np.float32),
            CONFIDENCE=np.zeros((1, 0), np.float32),
        )

    def _segmenter(self, asked: Any, inputs: Mapping[str, bytes], pictures: Any) -> Any:
        with Pil.open(io.BytesIO(inputs["IMAGE"])) as picture:
            width, height = picture.size
        mask = np.zeros((height, width), bool)
        side = {phrase.encode(): index for index, phrase in enumerate(PHRASES)}
        parts = (np.s_[:, : width // 2], np.s_[:, width // 2 :], np.s_[: height // 2])
        mask[parts[side.get(inputs["PROMPT"], 0)]] = True
        buffer = io.BytesIO()
        Pil.fromarray(mask).save(buffer, "PNG")
        response = tensors(SCORE=np.full((1, 1), 0.5, np.float32))
        data = buffer.getvalue()
        response.outputs.add(name="MASK", datatype="BYTES", shape=[1, 1])
        response.raw_output_contents.append(struct.pack("<I", len(data)) + data)
        return response


def _select_region(pixels: np.ndarray, inputs: Mapping[str, bytes]) -> np.ndarray:
    """The pixels of the region that is given with two pictures; all of them without."""
    if "MASK" not in inputs or "IMAGE_A" not in inputs:
        return pixels
    region = open_picture(inputs["MASK"])[..., 0] > 0
    return pixels[region] if region.shape == pixels.shape[:2] and region.any() else pixels


def _has_much(pixels: np.ndarray, colour: tuple[int, int, int]) -> bool:
    """Whether a quarter of it is that colour, or nearly."""
    return float((np.abs(pixels.astype(int) - colour) <= 6).all(-1).mean()) > 1 / 4


def _share(inputs: Mapping[str, bytes]) -> int:
    """Of the region, in 64ths; -1 where none is given."""
    return round(open_picture(inputs["MASK"]).mean() / 255 * 64) if "MASK" in inputs else -1


@asynccontextmanager
async def serve_models(folder: Path, models: tuple[str, ...]) -> AsyncIterator[Path]:
    """Two judges and the specialists of these models; a settings file that names them."""
    judges = {"judge": ("auto", False), "second": ("never", True)}
    # Canaries have tests of their own, and their calls have keys that are never alike.
    lines = ["attempts = 2", "retry_wait = 0.001"]
    async with AsyncExitStack() as stack:
        for name, (logprobs, refuses) in judges.items():
            server = Judge(f"model-{name}", refuses=refuses)
            url = await stack.enter_async_context(server.serving())
            lines += [f"[judges.{name}]", f'url = "{url}"', f'logprobs = "{logprobs}"',
                      "price = { input = 1000.0, output = 10.0 }"]  # fmt: skip
        if models:
            address = await stack.enter_async_context(Specialists(models).serving())
            lines += ["[endpoints.scripted]", f'url = "{address}"']
        path = folder / "editjudge.toml"
        path.write_text("\n".join(lines) + "\n")
        yield path
