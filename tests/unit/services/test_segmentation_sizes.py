"""The sizes that segmenters work at, as the authors' code rounds them."""

from __future__ import annotations

import pytest

from editjudge_services.segmentation.pixels import fit_longer_edge, fit_shorter_edge


@pytest.mark.parametrize(
    ("height", "width", "fitted"),
    [
        (90, 130, (709, 1024)),  # 708.9
        (130, 90, (1024, 709)),
        (1000, 300, (1024, 307)),  # 307.2
        (2048, 1025, (1024, 513)),  # 512.5, which Python's `round` rounds down
        (1024, 1024, (1024, 1024)),
    ],
)
def test_the_longer_edge_is_that_of_sam(height: int, width: int, fitted: tuple[int, int]) -> None:
    assert fit_longer_edge(height, width, 1024) == fitted


@pytest.mark.parametrize(
    ("height", "width", "fitted"),
    [
        (90, 130, (800, 1155)),  # 1155.6 is rounded down
        (130, 90, (1155, 800)),
        (100, 300, (444, 1333)),  # the longer edge limits it
        (800, 1000, (800, 1000)),
    ],
)
def test_the_shorter_edge_is_that_of_detr(height: int, width: int, fitted: tuple[int, int]) -> None:
    assert fit_shorter_edge(height, width, 800, 1333) == fitted
