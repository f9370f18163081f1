"""`editjudge list benchmarks` and `list switches` say what is declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from editjudge.base.errors import ConfigError
from editjudge.benchmarks.registry import load_benchmarks
from editjudge.cli import root

command = root.commands["list"]


def run_list(*arguments: str) -> str:
    return CliRunner().invoke(command, arguments, catch_exceptions=False).output


def list_as_json(*arguments: str) -> Any:
    return json.loads(run_list(*arguments, "--json"))


def test_every_benchmark_is_listed_with_its_protocols() -> None:
    found = {one["benchmark"]: one for one in list_as_json("benchmarks")}
    assert list(found) == list(load_benchmarks())
    assert found["core"]["protocols"] == ""
    assert found["kris"]["protocols"].split(", ")[0] == "paper"
    for one in found.values():
        # A protocol that is not there has a reason.
        assert one["benchmark"] == "core" or (("official" in one["protocols"]) == (one["not_official_because"] is None))


@pytest.mark.parametrize("name", list(load_benchmarks()))
def test_every_switch_is_listed_with_where_it_is_on(name: str) -> None:
    switches = list_as_json("switches", name)
    assert [one["switch"] for one in switches] == [one.name for one in load_benchmarks()[name].switches.list_switches()]
    for one in switches:
        assert one["what"]
        assert one["source"]
        on = set(filter(None, one["on_in"].split(", ")))
        assert on <= set(load_benchmarks()[name].protocols)
    text = run_list("switches", name)
    assert all(one["switch"] in text for one in switches)


def test_without_a_benchmark_the_switches_of_all_are_listed() -> None:
    assert [(each["benchmark"], each["switch"]) for each in list_as_json("switches")] == [
        (name, each.name)
        for name, benchmark in load_benchmarks().items()
        for each in benchmark.switches.list_switches()
    ]
    text = run_list("switches")
    assert "kris:\n" in text


def test_services_stand_as_they_are_called_those_of_parts_too() -> None:
    (one,) = list_as_json("dimensions", "co_edit.overall")
    services = ["clip.vit_b_32", "features.dinov2", "generalist.judge", "lpips.vgg"]
    assert one["services"] == services
    assert list_as_json("dimensions", "core.psnr.source.outside")[0]["services"] == []
    text = run_list("dimensions", "co_edit.overall")
    assert f"needs {', '.join(services)}" in text
    masked = run_list("dimensions", "core.text_content_accuracy")
    assert "needs target text, ocr.ppocr" in masked


def test_a_benchmark_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="no benchmark is called 'chess'; there are core"):
        run_list("switches", "chess")


def test_dimensions_in_ones_own_words(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "question.toml").write_text('user = "{sources}{edited}{instruction}{question}"')
    asked = ["dimensions", "core.physical_plausibility", "core.editing_artifacts"]
    found = {one["id"]: one["prompts"] for one in list_as_json(*asked, "--prompts", str(tmp_path))}
    assert found == {"core.physical_plausibility": "custom+own", "core.editing_artifacts": "own"}
    assert list_as_json("dimensions", "core.psnr.source.whole")[0]["prompts"] is None
    text = run_list(*asked, "--prompts", str(tmp_path))
    assert text.count("prompts in custom+own words") == 1


def test_prompts_by_their_names() -> None:
    every = [one["name"] for one in list_as_json("prompts")["own"]]
    kris = [name for name in every if name.startswith("kris/")]
    assert kris
    for pattern in ("kris", "kris/", "kris/*"):
        assert [one["name"] for one in list_as_json("prompts", pattern)["own"]] == kris
    two = list_as_json("prompts", "core/editing_artifacts", "i2i/text_style")
    assert [one["name"] for one in two["own"]] == ["core/editing_artifacts", "i2i/text_style"]
    assert two["originals"] == []
    assert [one["prompts"] for one in list_as_json("prompts", "gie")["originals"]] == ["gie"]
    text = run_list("prompts", "i2i/text_style")
    assert "i2i/text_style" in text
    assert "kris/" not in text
    with pytest.raises(ConfigError, match=r"no prompt matches i2i/txt.*choose from .*kris"):
        run_list("prompts", "i2i/txt")
