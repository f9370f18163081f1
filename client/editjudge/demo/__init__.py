"""The demo set: edits of photographs built on the spot, and three editors of known quality.

Needs the extra `demo`, whose packages bring the photographs and a font with Han characters;
nothing is downloaded, and nothing of it is kept in the repository.
"""

from .editors import EDITORS, edit_jpeg, edit_picture
from .edits import DEMO, DemoEdit, draw_demo_set
from .files import write_demo_set

__all__ = [
    "DEMO",
    "EDITORS",
    "DemoEdit",
    "draw_demo_set",
    "edit_jpeg",
    "edit_picture",
    "write_demo_set",
]
