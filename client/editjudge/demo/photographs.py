"""The photographs of the demo set: files inside scikit-image's wheel, cropped and scaled.

They are read from the installed package, so nothing is committed and nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import ImageError, MissingExtra

RGB: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Photograph:
    """A file in scikit-image's data folder and the part of it that is shown.

    Attributes:
        box: Left, top, right and bottom of the crop, in pixels of the file (once turned).
        size: Width and height after scaling, in pixels.
        turned: Turned a quarter counter-clockwise before cropping.
    """

    file: str
    box: tuple[int, int, int, int]
    size: tuple[int, int]
    turned: bool = False


# Every outline in `outlines` is drawn on these sizes.
_PHOTOGRAPHS = {
    "astronaut": _Photograph("astronaut.png", (0, 0, 512, 512), (400, 400)),
    "bricks": _Photograph("brick.png", (0, 60, 480, 380), (480, 320), turned=True),
    "cameraman": _Photograph("camera.png", (0, 0, 512, 512), (384, 384)),
    "cat": _Photograph("chelsea.png", (0, 0, 451, 300), (451, 300)),
    "coffee": _Photograph("coffee.png", (0, 0, 600, 400), (480, 320)),
    "coins": _Photograph("coins.png", (0, 0, 384, 303), (384, 303)),
    "galaxies": _Photograph("hubble_deep_field.jpg", (100, 60, 900, 860), (400, 400)),
    "launch pad": _Photograph("rocket.jpg", (0, 0, 640, 427), (480, 320)),
    "motorcycle": _Photograph("motorcycle_left.png", (0, 0, 741, 500), (480, 324)),
    "rocket": _Photograph("rocket.jpg", (130, 0, 530, 427), (400, 427)),
}


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
    wanted = _PHOTOGRAPHS[name]
    path = extra_folder("skimage") / "data" / wanted.file
    if not path.is_file():
        raise ImageError(
            str(path), "not in this release of scikit-image", "install scikit-image 0.26"
        )
    with Image.open(path) as file:
        picture: Image.Image = file.convert("RGB")
    if wanted.turned:
        picture = picture.transpose(Image.Transpose.ROTATE_90)
    picture = picture.crop(wanted.box)
    if picture.size != wanted.size:
        picture = picture.resize(wanted.size, Image.Resampling.LANCZOS)
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
