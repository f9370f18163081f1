"""The photographs of the demo set: files inside scikit-image's wheel, cropped and made smaller.

They are read from the installed package, so nothing is committed and nothing is downloaded.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..base.errors import ImageError, MissingExtra

RGB: TypeAlias = NDArray[np.uint8]
Box: TypeAlias = tuple[int, int, int, int]

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
