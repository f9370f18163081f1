"""What measures a GPU node runs on a CPU with tiny weights too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ..fakes.openai import ScriptedOpenAi, beside

SCRIPT = Path(__file__).parents[2] / "perf" / "gpu.py"
ENTRIES = ("clip-vit-base-patch32",)


def measure(*arguments: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments, "--json"], capture_output=True, text=True, check=True
    )
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def test_specialists_are_measured_without_a_card() -> None:
    names = ("--name", "clip_vit_b_32", "--name", "quality_piqe")
    sizes = ("--batch", "2", "--megapixels", "0.01", "--seconds", "0.01")
    rows = measure("specialists", *names, *sizes)
    assert [row["model"] for row in rows] == ["clip_vit_b_32", "quality_piqe"]
    for row in rows:
        assert "error" not in row
        assert row["calls_per_second"] > 0
        assert ("parity" in row) == (row["model"] == "clip_vit_b_32")
        assert row["peak_mib"] >= row["loaded_mib"] > 0


def test_torch_is_no_part_of_the_memory_of_those_that_do_not_need_it() -> None:
    code = "import gpu, sys; assert not sys.modules.keys() & {'torch', 'transformers'}"
    subprocess.run([sys.executable, "-c", code], cwd=SCRIPT.parent, check=True)


def test_a_judge_is_asked_in_every_order() -> None:
    server = ScriptedOpenAi()
    with beside(server) as url:
        rows = measure(
            *("judge", "--url", url, "--model", "weights@1"), *("--side", "64", "--siblings", "2", "--count", "4")
        )
    assert [(row["first"], row["paper"]) for row in rows] == [("pictures", ""), ("rubric", "")]
    assert all(row["requests_per_second"] > 0 for row in rows)  # type: ignore[operator]
    kinds = [[part["type"] for part in one["messages"][0]["content"]] for one in server.requests]
    image, text = "image_url", "text"
    expected = sorted([[image, image, text, text]] * 4 + [[text, image, image, text]] * 4)
    assert sorted(kinds) == expected
    firsts = [one["messages"][0]["content"][0] for one in server.requests]
    assert len({one["image_url"]["url"] for one in firsts if one["type"] == image}) == 2
