"""What measures a GPU node runs on a CPU with tiny weights too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from editjudge_services.runtime.repository import find_specialists
from editjudge_services.zoo.export import export
from editjudge_services.zoo.manifest import find_entry

from ..fakes.openai import ScriptedOpenAi, serve_in_thread

SCRIPT = Path(__file__).parents[2] / "perf" / "gpu.py"
# The huge SAM is, untrained, the base one's network; those on vLLM need a server.
KINDS = [kind for kind in find_specialists() if kind.packages and "huge" not in kind.name]
ENTRIES = [kind.entry for kind in KINDS if kind.entry]


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


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_every_specialist_answers_what_is_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import gpu

    row = gpu.measure_specialist(name, "fp32", 2, 0.01, 0.01)
    assert row["calls_per_second"] > 0
    assert row["peak_mib"] >= row["loaded_mib"] > 0


def test_what_cannot_be_measured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDITJUDGE_QINSIGHT_URL", raising=False)
    names = ("--name", "clip_vit_b_32", "--name", "quality_qinsight")
    # A half precision of the tiny network runs on a CPU too.
    export(find_entry("clip-vit-base-patch32"), "fp16")
    sizes = ("--batch", "1", "--megapixels", "0.01", "--seconds", "0.01")
    *halves, judge = measure("specialists", *names, *sizes, "--precision", "fp32", "--precision", "fp16")
    assert [(row["precision"], row["measure"]) for row in halves] == [("fp32", "difference"), ("fp16", "1 - cosine")]
    assert judge == {"model": "quality_qinsight", "error": "its variable names no vLLM"}


def test_a_model_that_is_not_there_is_refused() -> None:
    command = [sys.executable, str(SCRIPT), "specialists", "--name", "features.dinov2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no model features.dinov2; there are" in done.stderr
    assert "features_dinov2" in done.stderr


def test_every_network_has_a_published_size_but_the_one_of_five_billion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import full_size

    entries = {kind.entry for kind in find_specialists() if kind.entry}
    assert entries - full_size.SIZES.keys() == {"sa2va-qwen3-vl-4b"}


def test_torch_is_no_part_of_the_memory_of_those_that_do_not_need_it() -> None:
    code = "import gpu, sys; assert not sys.modules.keys() & {'torch', 'transformers'}"
    subprocess.run([sys.executable, "-c", code], cwd=SCRIPT.parent, check=True)


def test_a_judge_is_asked_in_every_order() -> None:
    server = ScriptedOpenAi()
    with serve_in_thread(server) as url:
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
