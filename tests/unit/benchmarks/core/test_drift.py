from __future__ import annotations

import numpy as np
import pytest

from editjudge.base.images import load_image
from editjudge.base.item import Item
from editjudge.benchmarks.pixel_dimensions import PIXEL_DIMENSIONS

PICTURE = load_image(np.zeros((8, 8, 3), np.uint8))
(SHIFT,) = (each for each in PIXEL_DIMENSIONS if each.id == "core.drift.shift")


@pytest.mark.parametrize(
    ("task", "applies"),
    [
        *(
            (task, False)
            for task in ("viewpoint_change", "style_editing", "perspective_editing", "camera move", "style")
        ),
        *((task, True) for task in ("", "color_change", "food_lifestyle", "review", "text_content", "restyled")),
    ],
)
def test_tasks_that_change_the_whole_picture_have_no_drift(task: str, applies: bool) -> None:
    reason = SHIFT.why_not_applicable(Item("one", "x", (PICTURE,), task=task))
    assert (reason is None) == applies
    assert applies or task in str(reason)
