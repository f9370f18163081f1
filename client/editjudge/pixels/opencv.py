"""OpenCV, imported when it is first used: a run that shows pictures to a judge computes on none."""

from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from ..base.errors import MissingExtra

DISTRIBUTION = "opencv-python-headless"


def missing_opencv() -> str:
    """Why nothing is computed on pixels here, with the fix; empty where OpenCV is installed."""
    # Looked for on the path alone: while a thread imports it, what is loaded is half of it.
    return "" if PathFinder.find_spec("cv2") else str(_missing())


def _missing() -> MissingExtra:
    return MissingExtra("comparing pixels", "pixels")


class _OnUse:
    def __getattr__(self, name: str) -> Any:
        try:
            import cv2
        except ImportError as error:
            raise _missing() from error

        value = getattr(cv2, name)
        setattr(self, name, value)  # found without this detour from now on
        return value


if TYPE_CHECKING:
    import cv2
else:
    cv2 = _OnUse()

__all__ = ["DISTRIBUTION", "cv2", "missing_opencv"]
