"""The edits of the demo set: signs put up, things in another colour, things removed.

The photographs are files inside scikit-image's wheel, cropped and made smaller. They are read from
the installed package, so nothing is committed and nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..base.errors import ImageError, MissingExtra
from ..pixels.opencv import cv2

RGB: TypeAlias = NDArray[np.uint8]
Box: TypeAlias = tuple[int, int, int, int]
Kind: TypeAlias = Literal["text", "recolour", "removal"]
Colour: TypeAlias = tuple[int, int, int]

_LONGEST_SIDE = 480
# A file in scikit-image's data folder; left, top, right and bottom of what is shown of it.
_PHOTOGRAPHS: dict[str, tuple[str, Box]] = {
    "astronaut": ("astronaut.png", (0, 0, 400, 512)),
    "bricks": ("brick.png", (0, 0, 512, 360)),
    "cat": ("chelsea.png", (0, 0, 451, 300)),
    "coffee": ("coffee.png", (60, 0, 572, 400)),
    "coins": ("coins.png", (0, 0, 384, 303)),
    "grass": ("grass.png", (0, 0, 512, 400)),
    "motorcycle": ("motorcycle_left.png", (0, 0, 741, 500)),
}
# Hues as OpenCV counts them: 0..179 for 0..358 degrees.
_LIME, _GREEN, _TEAL, _BLUE = 36, 60, 92, 108
_HUES = 180
_COLOURFUL = 100
_CLOSED = np.ones((9, 9), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class DemoEdit:
    """One editing task with its ground truth. The arrays are read-only.

    Attributes:
        id: A slug, unique in the set.
        instruction: What an editor is asked to do, in English.
        source: uint8 (H, W, 3), RGB, 0..255.
        target: uint8 (H, W, 3), RGB, the right result.
        mask: bool (H, W), True = may change; source and target are equal elsewhere.
        target_text: The letters an OCR should read in a right result, None if no text is asked.
    """

    id: str
    kind: Kind
    instruction: str
    source: RGB
    target: RGB
    mask: NDArray[np.bool_]
    target_text: str | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """A board with a frame and one line of letters `size` pixels high; it covers its box."""

    box: Box
    text: str
    size: int
    ink: Colour
    paper: Colour

    kind: ClassVar[Kind] = "text"

    def paint(self, source: RGB) -> RGB:
        """The sign over what was there."""
        picture = Image.fromarray(source)
        draw = ImageDraw.Draw(picture)
        draw.rectangle(self.box, self.ink)
        left, top, right, bottom = self.box
        draw.rectangle((left + 4, top + 4, right - 4, bottom - 4), self.paper)
        font = ImageFont.truetype(extra_folder("matplotlib_fontja") / "fonts/ipaexg.ttf", self.size)
        centre = ((left + right) / 2, (top + bottom) / 2)
        draw.text(centre, self.text, self.ink, font, "mm", stroke_width=1)
        return np.array(picture)


@dataclass(frozen=True, slots=True)
class Recolour:
    """Whatever in a box is colourful and within `near` of a hue gets another hue."""

    box: Box
    hue: int
    to: int
    near: int

    kind: ClassVar[Kind] = "recolour"

    def paint(self, source: RGB) -> RGB:
        """The picture with the new hue."""
        left, top, right, bottom = self.box
        target = source.copy()
        part = target[top:bottom, left:right]
        hsv = cv2.cvtColor(part, cv2.COLOR_RGB2HSV)
        away = np.abs(hsv[..., 0].astype(int) - self.hue)
        chosen = (np.minimum(away, _HUES - away) <= self.near) & (hsv[..., 1] >= _COLOURFUL)
        # The median drops lone pixels and fills lone gaps.
        chosen = cv2.medianBlur(chosen.astype(np.uint8), 5) > 0
        hsv[..., 0] = self.to
        part[chosen] = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[chosen]
        return target


@dataclass(frozen=True, slots=True)
class Removal:
    """The round thing that just fits into a box is covered up with what lies around it."""

    box: Box

    kind: ClassVar[Kind] = "removal"

    def paint(self, source: RGB) -> RGB:
        """The picture without it."""
        hole = Image.new("L", (source.shape[1], source.shape[0]))
        ImageDraw.Draw(hole).ellipse(self.box, 255)
        return np.asarray(cv2.inpaint(source, np.array(hole), 3, cv2.INPAINT_TELEA), np.uint8)


_EDITS: tuple[tuple[str, str, str, Sign | Recolour | Removal], ...] = (
    (
        "bricks-sale-sign",
        "bricks",
        'Put a yellow sign on the bricks that says "SALE 50%" in red letters.',
        Sign((110, 100, 390, 230), "SALE 50%", 52, (200, 25, 30), (250, 215, 60)),
    ),
    (
        "coffee-card",
        "coffee",
        "Put a cream-coloured card that reads 珈琲 on the table.",
        Sign((384, 296, 474, 358), "珈琲", 36, (70, 35, 20), (245, 236, 215)),
    ),
    (
        "grass-keep-off",
        "grass",
        "Put up a white sign on the lawn with 立入禁止 (keep off) in red letters.",
        Sign((150, 150, 330, 220), "立入禁止", 37, (190, 25, 25), (246, 244, 238)),
    ),
    (
        "coffee-blue-crockery",
        "coffee",
        "Make the red cup and saucer blue.",
        Recolour((10, 55, 396, 368), 2, _BLUE, near=5),
    ),
    (
        "coffee-matcha",
        "coffee",
        "Turn the coffee in the cup into green matcha tea.",
        Recolour((134, 92, 296, 181), 13, _LIME, near=5),
    ),
    (
        "cat-blue-eyes",
        "cat",
        "Give the cat blue eyes.",
        Recolour((130, 70, 350, 165), 29, _BLUE, near=9),
    ),
    (
        "motorcycle-green",
        "motorcycle",
        "Make everything red green: the motorcycle's paint and the can behind it.",
        Recolour((50, 95, 430, 210), 0, _GREEN, near=5),
    ),
    (
        "astronaut-teal-suit",
        "astronaut",
        "Change the colour of the spacesuit from orange to teal.",
        Recolour((20, 195, 350, 480), 7, _TEAL, near=6),
    ),
    (
        "astronaut-green-flag",
        "astronaut",
        "Make the red stripes of the flag green.",
        Recolour((0, 40, 80, 260), 175, _GREEN, near=6),
    ),
    (
        "astronaut-no-patch",
        "astronaut",
        "Remove the round patch from the spacesuit.",
        Removal((122, 322, 200, 402)),
    ),
    *(
        (f"coins-without-{slug}", "coins", f"Remove the {words}.", Removal(box))
        for slug, words, box in (
            ("largest", "large coin at the right end of the first row", (304, 12, 366, 74)),
            ("second", "second coin of the second row", (82, 104, 122, 146)),
            ("third", "third coin of the third row", (132, 176, 174, 218)),
            ("first", "first coin of the last row", (16, 230, 76, 290)),
        )
    ),
)


def demo_set() -> list[DemoEdit]:
    """Draw the demo set: fourteen edits of photographs that come with scikit-image.

    Everything is built from installed files, the same pixels on every run. Each edit leaves at
    least a quarter of its picture outside the mask.

    Raises:
        MissingExtra: The extra `demo` is not installed.
    """
    return [_drawn(*row) for row in _EDITS]


def _drawn(name: str, shown: str, instruction: str, change: Sign | Recolour | Removal) -> DemoEdit:
    source = photograph(shown)
    target = change.paint(source)
    changed = (source != target).any(axis=2).astype(np.uint8)
    mask = cv2.morphologyEx(changed, cv2.MORPH_CLOSE, _CLOSED) > 0
    for array in (source, target, mask):
        array.setflags(write=False)
    text = change.text if isinstance(change, Sign) else None
    return DemoEdit(name, change.kind, instruction, source, target, mask, text)


def photograph(name: str) -> RGB:
    """Read one of the demo set's photographs.

    Args:
        name: A key of the table above, such as `coffee`.

    Returns:
        uint8 of shape (H, W, 3), RGB, 0..255; 300 to 480 pixels on a side.

    Raises:
        MissingExtra: scikit-image is not installed.
        ImageError: The installed scikit-image carries no such file.
    """
    file, box = _PHOTOGRAPHS[name]
    path = extra_folder("skimage") / "data" / file
    if not path.is_file():
        raise ImageError(
            str(path), "not in this release of scikit-image", "install scikit-image 0.26"
        )
    with Image.open(path) as stored:
        picture = stored.convert("RGB").crop(box)
    picture.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE), Image.Resampling.LANCZOS)
    return np.array(picture, dtype=np.uint8)


def extra_folder(package: str) -> Path:
    """Where a package of the extra `demo` is installed, without importing it.

    Raises:
        MissingExtra: It is not installed.
    """
    # Importing scikit-image takes a second, and the font's package changes matplotlib's settings.
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"the demo set (for {package})", "demo")
    return Path(spec.submodule_search_locations[0])
