"""The demo set: edits of photographs built on the spot, and three editors of known quality.

The extra `demo` installs packages that contain the photographs and a font with Han characters.
Nothing is downloaded, and the repository contains none of the pictures.
"""

from .editors import EDITORS, edit_jpeg
from .edits import DEMO, draw_demo_set
from .files import write_demo_set

__all__ = ["DEMO", "EDITORS", "draw_demo_set", "edit_jpeg", "write_demo_set"]
