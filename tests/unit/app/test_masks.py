"""Shares of masks, and their figure."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image as Pil

from editjudge.benchmarks.items import ItemsFile
from editjudge.cli.plot import mask_shares
from editjudge.report.figures import draw_mask_sizes


def test_the_shares_of_the_masks_there_are(tmp_path: Path) -> None:
    Pil.new("RGB", (20, 10), "red").save(tmp_path / "source.png")
    lines = [{"id": "none", "instruction": "x", "source": "source.png"}]
    for columns in (0, 2, 20):
        mask = np.zeros((10, 20), np.uint8)
        mask[:, :columns] = 255
        Pil.fromarray(mask).save(tmp_path / f"{columns}.png")
        lines.append({**lines[0], "id": f"{columns}", "mask": f"{columns}.png"})
    (tmp_path / "broken.png").write_bytes(b"no picture")
    lines.append({**lines[0], "id": "broken", "mask": "broken.png"})
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert mask_shares(ItemsFile(tmp_path / "items.jsonl")) == [0.0, 0.1, 1.0]


def test_the_figure_counts_them_and_marks_what_is_printed() -> None:
    shares = [0.01, 0.04, 0.06, 0.5]
    picture = draw_mask_sizes(shares, "svg", 0.2).decode()
    assert "(4 masks)" in picture
    assert "† most below 20%" in picture
    assert "most below" not in draw_mask_sizes(shares, "svg").decode()
    assert draw_mask_sizes(shares, "png") == draw_mask_sizes(shares, "png")
    assert Pil.open(io.BytesIO(draw_mask_sizes([0.0, 1.0], "png"))).size[0] > 500
