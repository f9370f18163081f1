"""OpenCV, imported when it is first used: a run that shows pictures to a judge computes on none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class _OnUse:
    def __getattr__(self, name: str) -> Any:
        import cv2

        value = getattr(cv2, name)
        setattr(self, name, value)  # found without this detour from now on
        return value


if TYPE_CHECKING:
    import cv2
else:
    cv2 = _OnUse()

__all__ = ["cv2"]
