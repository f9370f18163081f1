"""The edits of the demo set: a table of what is changed, where and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import outlines
from .drawing import Ellipse, Panel, Polygon, Shape, blend, coverage
from .paints import (
    Paint,
    Patch,
    dyed,
    healed,
    lettered,
    lit_by,
    magnified,
    pencilled,
    replaced_by,
    with_moon,
)
from .photographs import RGB, photograph

Kind: TypeAlias = Literal[
    "recolour", "attribute", "text", "removal", "addition", "background", "resize", "style"
]


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
class _Recipe:
    """A demo edit before it is drawn.

    Attributes:
        region: Where the paint shows.
        feather: Blur of the region's edge in pixels.
    """

    id: str
    kind: Kind
    instruction: str
    photograph: str
    region: tuple[Shape, ...]
    paint: Paint
    feather: float = 0.0
    target_text: str | None = None


_SALE = Panel(
    text="SALE 50%",
    corners=((110, 103), (390, 76), (390, 230), (110, 230)),
    size=(280, 140),
    letters=52,
    ink=(200, 25, 30),
    paper=(250, 215, 60),
    border=5,
    weight=1,
)
_COFFEE_CARD = Panel(
    text="珈琲",
    corners=((376, 34), (466, 26), (470, 84), (380, 94)),
    size=(92, 60),
    letters=38,
    ink=(70, 35, 20),
    paper=(245, 236, 215),
    weight=1,
    han=True,
)
_KEEP_OUT = Panel(
    text="立入禁止",
    corners=((255, 196), (379, 196), (379, 244), (255, 244)),
    size=(126, 48),
    letters=27,
    ink=(190, 25, 25),
    paper=(246, 244, 238),
    border=2,
    han=True,
)
_SHADE, _WOOD = (84, 84, 84), (120, 92, 66)
_SUPPORT = (
    (Ellipse((284, 301), (9, 2.5)), _SHADE),
    (Ellipse((357, 301), (9, 2.5)), _SHADE),
    (Polygon(((279, 240), (285, 240), (285, 301), (279, 301))), _WOOD),
    (Polygon(((351, 240), (357, 240), (357, 301), (351, 301))), _WOOD),
)
# Each part of the rocket, and where the sky or the clouds to cover it with are taken from. The
# gantry stands before the left half of a lamp's rays: the right half is mirrored.
_ROCKET_PATCHES = (
    Patch(outlines.ROCKET, across=-70),
    Patch(outlines.GANTRY_LEFT, across=-50),
    Patch(outlines.GANTRY_RIGHT, across=-84),
    Patch(outlines.LAMP_LEFT, across=2 * 235, mirrored=True, feather=2.5),
)
_DUSK = ((0, (62, 66, 128)), (60, (196, 104, 120)), (110, (250, 150, 84)), (142, (255, 206, 122)))

_RECIPES = (
    _Recipe(
        "coffee-blue-crockery",
        "recolour",
        "Make the red cup and saucer blue.",
        "coffee",
        outlines.CROCKERY,
        dyed((0.06, 0.36, 0.95), colourful=(0.25, 0.5)),
    ),
    _Recipe(
        "coffee-matcha",
        "attribute",
        "Turn the coffee in the cup into green matcha tea.",
        "coffee",
        outlines.COFFEE,
        dyed((0.42, 0.72, 0.05), colourful=(0.35, 0.55)),
        feather=1.0,
    ),
    _Recipe(
        "coffee-card",
        "text",
        "Put a cream-coloured card that reads 珈琲 on the table.",
        "coffee",
        (_COFFEE_CARD.outline,),
        lettered(_COFFEE_CARD),
        target_text="珈琲",
    ),
    _Recipe(
        "cat-blue-eyes",
        "attribute",
        "Give the cat bright blue eyes.",
        "cat",
        outlines.EYES,
        dyed((0.1, 0.75, 1.75), colourful=(0.15, 0.35)),
        feather=1.5,
    ),
    _Recipe(
        "rocket-gone",
        "removal",
        "Remove the rocket and its gantry from the launch pad.",
        "rocket",
        tuple(patch.shape for patch in _ROCKET_PATCHES),
        healed(_ROCKET_PATCHES),
        feather=1.0,
    ),
    _Recipe(
        "launch-pad-moon",
        "addition",
        "Add a full moon to the sky on the right.",
        "launch pad",
        (outlines.MOONLIGHT,),
        with_moon(outlines.MOON, outlines.PLAINS),
    ),
    _Recipe(
        "motorcycle-green",
        "recolour",
        "Repaint the red parts of the motorcycle green.",
        "motorcycle",
        outlines.PAINTWORK,
        dyed((0.02, 0.75, 0.25), colourful=(0.2, 0.4)),
    ),
    _Recipe(
        "motorcycle-sketch",
        "style",
        "Redraw the motorcycle as a pencil sketch and leave the garage as it is.",
        "motorcycle",
        outlines.MOTORCYCLE,
        pencilled(1.1),
        feather=0.8,
    ),
    _Recipe(
        "astronaut-teal-suit",
        "recolour",
        "Change the colour of the spacesuit from orange to teal.",
        "astronaut",
        outlines.SUIT,
        dyed((0.0, 0.62, 0.66), colourful=(0.25, 0.5)),
        feather=0.8,
    ),
    _Recipe(
        "astronaut-in-space",
        "background",
        "Replace everything behind the astronaut with a sky full of galaxies.",
        "astronaut",
        outlines.BEHIND_ASTRONAUT,
        replaced_by("galaxies", 1.15),
        feather=0.7,
    ),
    _Recipe(
        "cameraman-sunset",
        "background",
        "Replace the grey sky with a colourful sunset and keep the rest black and white.",
        "cameraman",
        outlines.SKY,
        lit_by(_DUSK, 208.0),
        feather=0.7,
    ),
    _Recipe(
        "cameraman-keep-out",
        "text",
        "Put up a white sign on the lawn with 立入禁止 (keep out) in red letters.",
        "cameraman",
        (_KEEP_OUT.outline, *(shape for shape, _ in _SUPPORT)),
        lettered(_KEEP_OUT, _SUPPORT),
        target_text="立入禁止",
    ),
    _Recipe(
        "coins-larger-coin",
        "resize",
        "Make the small coin at the right end of the second row half as large again.",
        "coins",
        outlines.LARGER_COIN,
        magnified((336, 130.5), 1.5),
    ),
    _Recipe(
        "bricks-sale-sign",
        "text",
        'Put a yellow sign on the brick wall that says "SALE 50%" in red letters.',
        "bricks",
        (_SALE.outline,),
        lettered(_SALE),
        target_text="SALE 50%",
    ),
)


def demo_set() -> list[DemoEdit]:
    """Draw the demo set: fourteen edits of photographs that come with scikit-image.

    Everything is built from installed files, the same pixels on every run. Each edit leaves at
    least a quarter of its picture outside the mask.

    Raises:
        MissingExtra: The extra `demo` is not installed.
    """
    return [_drawn(recipe) for recipe in _RECIPES]


def _drawn(recipe: _Recipe) -> DemoEdit:
    source = photograph(recipe.photograph)
    alpha = coverage(recipe.region, (source.shape[1], source.shape[0]), recipe.feather)
    target = blend(source, recipe.paint(source), alpha)
    mask = alpha > 0
    for array in (source, target, mask):
        array.setflags(write=False)
    return DemoEdit(
        recipe.id, recipe.kind, recipe.instruction, source, target, mask, recipe.target_text
    )
