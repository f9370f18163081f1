"""Probes: one generated request for each role, and the reply that a sound service gives to it.

A service declares its reply in its identity, as its fingerprint. That of exported weights is taken
at the export. OCR services have a known answer instead.
"""

import io
from collections.abc import Callable, Mapping

import numpy as np
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont

from .contracts import CONTRACTS, Tensors
from .identity import FINGERPRINT, ServiceName
from .images import RGB, load_image

PROBE_TEXT = "JUDGE 2047"
TOLERANCE = 1e-3
_MOST = 8


def text_image() -> RGB:
    """Black letters on white, 128x384, uint8 RGB."""
    picture = Pil.new("RGB", (384, 128), "white")
    font = ImageFont.load_default(size=48)
    ImageDraw.Draw(picture).text((24, 34), PROBE_TEXT, fill="black", font=font)
    return np.asarray(picture)


def texture_image() -> RGB:
    """A smooth gradient with seeded noise, 128x128, uint8 RGB: integer arithmetic only."""
    rows, columns = np.mgrid[0:128, 0:128]
    noise = np.random.default_rng(0).integers(-24, 25, size=(128, 128))
    grey = np.clip(rows + columns // 2 + 32 + noise, 0, 255).astype(np.uint8)
    return np.stack([grey] * 3, axis=-1)


def probe_inputs(role: str) -> dict[str, bytes]:
    """Make the request of the probe of a role."""
    text, texture = (load_image(make()).encoded_bytes for make in (text_image, texture_image))
    match role:
        case "lpips":
            mirror_image = load_image(np.ascontiguousarray(texture_image()[::-1])).encoded_bytes
            return {"IMAGE_A": texture, "IMAGE_B": mirror_image}
        case "segmenter":
            return {"IMAGE": text, "PROMPT": b"the text."}
        case "ocr":
            return {"IMAGE": text}
    return {"IMAGE": texture}


def fingerprint(role: str, reply: Tensors) -> list[float]:
    """Reduce a reply to the probe to at most eight numbers, rounded to four decimals."""
    match role:
        case "ocr":
            values = [float(ord(letter)) for letter in bytes(reply["TEXT"]).decode("utf-8")]
        case "segmenter":
            mask = bytes(reply["MASK"])
            values = [_mask_share(mask) if mask else -1.0, *np.asarray(reply["SCORE"]).tolist()]
        case _:
            values = np.asarray(reply[CONTRACTS[role].outputs[0].name]).tolist()
    return [round(value, 4) for value in values[:_MOST]]


def wrong_answer(service: str, reply: Tensors, facts: Mapping[str, str]) -> str | None:
    """Describe what is wrong with a service's reply to its probe; None if nothing is.

    Args:
        facts: The facts of its identity.
    """
    if service in _CHECKS:
        return _CHECKS[service](reply)
    if FINGERPRINT not in facts:
        return None
    reference = [float(value) for value in facts[FINGERPRINT].split(",") if value]
    numbers = fingerprint(ServiceName.parse(service).role, reply)
    if len(numbers) == len(reference) and np.allclose(numbers, reference, rtol=TOLERANCE, atol=TOLERANCE):
        return None
    return f"says {numbers} to the probe, and declares that it says {reference}"


def has_known_answer(service: str, facts: Mapping[str, str]) -> bool:
    """Whether there is an answer that `wrong_answer` can compare with."""
    return service in _CHECKS or FINGERPRINT in facts


def _mask_share(mask: bytes) -> float:
    with Pil.open(io.BytesIO(mask)) as picture:
        return float(np.asarray(picture.convert("L")).astype(bool).mean())


def _check_text(reply: Tensors) -> str | None:
    read = bytes(reply["TEXT"]).decode("utf-8", "replace")
    same = "".join(read.split()).upper() == PROBE_TEXT.replace(" ", "")
    return None if same else f"read {read!r}, the image says {PROBE_TEXT!r}"


_CHECKS: Mapping[str, Callable[[Tensors], str | None]] = {"ocr.ppocr": _check_text}
