"""Shares of masks, and their figure."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image as Pil

from editjudge.benchmarks.figures import Figure, load_figures
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.omni_iie.dataset import OmniData
from editjudge.cli.plot import mask_shares
from editjudge.report.figures import draw_mask_sizes

from ...small_data import save_picture, write_items
from ..benchmarks.omni_iie import made


def masks(name: str) -> Figure:
    (figure,) = (figure for figure in load_figures(name) if figure.kind == "masks")
    return figure


def test_the_shares_of_the_masks_there_are(tmp_path: Path) -> None:
    save_picture(tmp_path / "s.png", (20, 10))
    for columns in (0, 2, 20):
        mask = np.full((10, 20), 255, np.uint8) * (np.arange(20) < columns)
        save_picture(tmp_path / f"{columns}.png", mask)
    save_picture(tmp_path / "broken.png", b"no picture")
    files = (None, "0.png", "2.png", "20.png", "broken.png")
    data = write_items(tmp_path, ({"mask": file} for file in files))
    assert mask_shares(ItemsFile(data), masks("gie")) == {"": [0.0, 0.1, 1.0]}


def test_the_shares_by_scale_leave_dialogues_out(tmp_path: Path) -> None:
    singles = [made.record("coco", "1", level) for level in ("low", "high")]
    folder = made.released(tmp_path, singles, [made.record("coco", "2", "1")])
    data = OmniData(folder, roots={made.AUTHORS: str(folder / "files")})
    assert mask_shares(data, masks("omni_iie")) == {
        "low: an attribute changes": [0.25],
        "high: an entity is replaced": [0.25],
    }


def test_the_figure_counts_them_and_marks_what_is_printed() -> None:
    shares = {"": [0.01, 0.04, 0.06, 0.5], "high": [0.4]}
    picture = draw_mask_sizes(shares, "svg", 0.2).decode()
    assert ">(4 masks)<" in picture
    assert ">high (1 mask)<" in picture
    assert "† most below 20%" in picture
    assert "most below" not in draw_mask_sizes(shares, "svg").decode()
    assert draw_mask_sizes(shares, "png") == draw_mask_sizes(shares, "png")
    assert Pil.open(io.BytesIO(draw_mask_sizes({"": [0.0, 1.0]}, "png"))).size[0] > 500
