"""The edits of the demo set: added signs, changed colours and removed objects.

The photographs are cropped and reduced from files of the installed scikit-image package, so nothing
is committed and nothing is downloaded.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from editjudge.base.errors import ImageError, MissingExtra
from editjudge.pixels.opencv import cv2

RGB: TypeAlias = NDArray[np.uint8]
Box: TypeAlias = Sequence[int]
Kind: TypeAlias = Literal["text", "recolour", "removal"]
Colour: TypeAlias = Sequence[int]

DEMO = tomllib.loads(Path(__file__).with_name("demo.toml").read_text("utf-8"))
_LONGEST_SIDE = 480
_HUES = 180
_MIN_SATURATION = 100
_CLOSING_KERNEL = np.ones((9, 9), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class DemoEdit:
    """One editing task with its ground truth. The arrays are read-only.

    Attributes:
        id: A slug, unique in the set.
        instruction: What an editor is asked to do, in English.
        source: uint8 (H, W, 3), RGB, 0..255.
        target: uint8 (H, W, 3), RGB, the right result.
        mask: bool (H, W), True = may change; source and target are equal elsewhere.
        target_text: The text that an OCR should read in a right result; None without text.
    """

    id: str
    kind: Kind
    instruction: str
    source: RGB
    target: RGB
    mask: NDArray[np.bool_]
    target_text: str | None = None


def _draw_sign(source: RGB, box: Box, text: str, size: int, ink: Colour, paper: Colour) -> RGB:
    """Draw a framed board that fills a box, with one line of text, `size` pixels high."""
    picture = Image.fromarray(source)
    draw = ImageDraw.Draw(picture)
    left, top, right, bottom = box
    draw.rectangle((left, top, right, bottom), tuple(ink))
    draw.rectangle((left + 4, top + 4, right - 4, bottom - 4), tuple(paper))
    font = ImageFont.truetype(package_folder("matplotlib_fontja") / "fonts/ipaexg.ttf", size)
    centre = ((left + right) / 2, (top + bottom) / 2)
    draw.text(centre, text, tuple(ink), font, "mm", stroke_width=1)
    return np.array(picture)


def _recolour(source: RGB, box: Box, hue: int, to: int, near: int) -> RGB:
    """Replace the hue of saturated pixels in a box whose hue differs by at most `near`."""
    left, top, right, bottom = box
    target = source.copy()
    part = target[top:bottom, left:right]
    hsv = cv2.cvtColor(part, cv2.COLOR_RGB2HSV)
    distance = np.abs(hsv[..., 0].astype(int) - hue)
    selection = (np.minimum(distance, _HUES - distance) <= near) & (hsv[..., 1] >= _MIN_SATURATION)
    # The median drops lone pixels and fills lone gaps.
    selection = cv2.medianBlur(selection.astype(np.uint8), 5) > 0
    hsv[..., 0] = to
    part[selection] = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[selection]
    return target


def _remove_object(source: RGB, box: Box) -> RGB:
    """Remove the round object that just fits into a box, by inpainting from its surroundings."""
    hole = Image.new("L", (source.shape[1], source.shape[0]))
    ImageDraw.Draw(hole).ellipse(tuple(box), 255)
    return np.asarray(cv2.inpaint(source, np.array(hole), 3, cv2.INPAINT_TELEA), np.uint8)


_PAINTERS: Mapping[Kind, Callable[..., RGB]] = {"text": _draw_sign, "recolour": _recolour, "removal": _remove_object}


def draw_demo_set() -> list[DemoEdit]:
    """Draw the demo set: fourteen edits of photographs that come with scikit-image.

    Everything is built from installed files, the same pixels on every run. Each edit leaves at
    least a quarter of its picture outside the mask.

    Raises:
        MissingExtra: The extra `demo` is not installed.
    """
    return [_draw_edit(row) for row in DEMO["edits"]]


def _draw_edit(row: Mapping[str, Any]) -> DemoEdit:
    source = load_photograph(row["photograph"])
    (kind,) = (kind for kind in _PAINTERS if kind in row)
    target = _PAINTERS[kind](source, **row[kind])
    difference = (source != target).any(axis=2).astype(np.uint8)
    mask = cv2.morphologyEx(difference, cv2.MORPH_CLOSE, _CLOSING_KERNEL) > 0
    for array in (source, target, mask):
        array.setflags(write=False)
    text = row[kind].get("text")
    return DemoEdit(row["id"], kind, row["instruction"], source, target, mask, text)


def load_photograph(name: str) -> RGB:
    """Read one of the demo set's photographs.

    Args:
        name: One of `demo.toml`, such as `coffee`.

    Returns:
        uint8 of shape (H, W, 3), RGB, 0..255; 300 to 480 pixels on a side.

    Raises:
        MissingExtra: scikit-image is not installed.
        ImageError: The installed scikit-image carries no such file.
    """
    entry = DEMO["photographs"][name]
    path = package_folder("skimage") / "data" / entry["file"]
    if not path.is_file():
        raise ImageError(str(path), "not in this scikit-image", "install scikit-image 0.26")
    with Image.open(path) as image:
        picture = image.convert("RGB").crop(tuple(entry["box"]))
    picture.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE), Image.Resampling.LANCZOS)
    return np.array(picture, dtype=np.uint8)


def package_folder(package: str) -> Path:
    """Where a package of the extra `demo` is installed, without importing it.

    Raises:
        MissingExtra: It is not installed.
    """
    # Importing scikit-image takes a second, and the font's package changes matplotlib's settings.
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"the demo set (for {package})", "demo")
    return Path(spec.submodule_search_locations[0])
