"""Known answers: one generated input per role, and what a sound service says to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont

from ..images import RGB, load_image
from .triton import Reply

PROBE_TEXT = "JUDGE 2047"


@dataclass(frozen=True, slots=True)
class Probe:
    """A question with a known answer.

    Attributes:
        image: Makes the input: uint8 RGB (H, W, 3), the same on every machine.
        wrong: Says what is wrong with a reply; None where it is right.
    """

    image: Callable[[], RGB]
    wrong: Callable[[Reply], str | None]

    def inputs(self) -> Mapping[str, bytes]:
        """The request."""
        return {"IMAGE": load_image(self.image(), "probe image").encoded}


def text_image() -> RGB:
    """Black letters on white, 128x384."""
    picture = Pil.new("RGB", (384, 128), "white")
    font = ImageFont.load_default(size=48)
    ImageDraw.Draw(picture).text((24, 34), PROBE_TEXT, fill="black", font=font)
    return np.asarray(picture)


def texture_image() -> RGB:
    """A smooth gradient with seeded noise, 128x128: integer arithmetic only."""
    rows, columns = np.mgrid[0:128, 0:128]
    noise = np.random.default_rng(0).integers(-24, 25, size=(128, 128))
    grey = np.clip(rows + columns // 2 + 32 + noise, 0, 255).astype(np.uint8)
    return np.stack([grey] * 3, axis=-1)


def reads_the_text(reply: Reply) -> str | None:
    """Whether a reader read `PROBE_TEXT`."""
    read = bytes(reply["TEXT"]).decode("utf-8", "replace")
    same = "".join(read.split()).upper() == PROBE_TEXT.replace(" ", "")
    return None if same else f"read {read!r}, the image says {PROBE_TEXT!r}"


def scores(expected: float, tolerance: float) -> Callable[[Reply], str | None]:
    """Whether a score is the known one."""

    def check(reply: Reply) -> str | None:
        value = float(np.asarray(reply["SCORE"])[0])
        off = abs(value - expected) > tolerance
        return f"scored {value:.6f}, not {expected:.6f} ± {tolerance:g}" if off else None

    return check


PROBES: Mapping[str, Probe] = {
    "ocr.ppocr": Probe(text_image, reads_the_text),
    "quality.piqe": Probe(texture_image, scores(0.26997, 1e-3)),
}
"""By `role.variant`."""
