"""A run with the places of its pictures: as rows, and as tasks of Label Studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from editjudge.app.label_studio import control_name, picture_paths
from editjudge.app.view import RunView
from editjudge.base.verdict import Failure, NoScore
from editjudge.cli import root

from ...small_data import MSE, PSNR, make_spec, save_picture, stored_run, write_items
from ..benchmarks.omni_iie import release as omni
from ..storage.small_store import make_score

WORDS = "core.text_content_accuracy"
UNREAD = NoScore(kind="unparsable", reason="no JSON")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two items, one of them with two sources and a mask; of one there is no output."""
    for name in ("s.png", "t u.png", "alpha/one.png", "alpha/two.png"):
        save_picture(tmp_path / name)
    lines: list[dict[str, Any]] = [
        {"id": "one", "instruction": 'say <"hi">', "source": "t u.png"},
        {"id": "two", "instruction": "\N{GRINNING FACE}", "sources": ["s.png", "t u.png"]},
        {"id": "gone"},
    ]
    write_items(tmp_path, lines)
    spec = make_spec(tmp_path, ["alpha"], (PSNR, MSE, WORDS))
    with stored_run(tmp_path / "run", spec) as keep:
        keep("one", "alpha", {PSNR: make_score(31.5), MSE: UNREAD})
        keep("two", "alpha", {PSNR: make_score(0.0), MSE: Failure(error="gone")})
        keep("gone", "alpha")
    return tmp_path / "run"


def ran(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(root.commands[command], list(map(str, arguments)))


def tasks_of(run: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    """What is exported for Label Studio."""
    out = ran("export", run, "--format", "label-studio", *arguments)
    assert "tasks.json: 2 tasks" in out.output
    next_step = "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=/"
    assert (next_step in out.output) is not bool(arguments), "it serves what has no address"
    tasks: list[dict[str, Any]] = json.loads((run / "tasks.json").read_text("ascii"))
    return tasks


def test_tasks_are_what_label_studio_documents(run: Path) -> None:
    """Basic Label Studio JSON: `data` for the tags' variables, `predictions` for their results."""
    tasks = tasks_of(run)
    config = ElementTree.fromstring((run / "tasks.xml").read_text("utf-8"))  # noqa: S314 - ours
    assert config.tag == "View"
    tags = {tag.get("name"): tag for tag in config.iter() if tag.get("name")}
    variables = {str(tag.get("value"))[1:] for tag in tags.values() if tag.get("value")}
    assert {"source", "edited", "instruction", "without_number"} == variables
    for task in tasks:
        assert task.keys() == {"data", "predictions"}
        assert variables <= task["data"].keys(), "Label Studio refuses tasks that lack one"
        for prediction in task["predictions"]:
            assert prediction["model_version"] == "editjudge core.1"
            for result in prediction["result"]:
                tag = tags[result["from_name"]]
                assert (tag.tag, tag.get("toName")) == ("Number", result["to_name"])
                assert tags[result["to_name"]].tag == "Image"
                assert result["type"] == tag.tag.lower()
                (value,) = result["value"].values()
                assert float(str(tag.get("min"))) <= value <= float(str(tag.get("max")))
    values = [{r["from_name"]: r["value"]["number"] for p in t["predictions"] for r in p["result"]} for t in tasks]
    number = control_name(PSNR)
    assert values == [{number: 31.5}, {number: 0.0}], "a failure is no number"
    assert tags.keys() == {"instruction", "source", "edited", number, "without_number"}
    assert tasks[0]["data"]["without_number"] == f"{MSE}: unscored (no JSON)"
    assert tasks[1]["data"]["without_number"].startswith(f"{MSE}: ")
    assert tasks[0]["data"]["instruction"] == 'say <"hi">'


def test_pictures_are_named_as_they_are_served(run: Path) -> None:
    one, two = (task["data"] for task in tasks_of(run))
    there = run.parent.as_posix()[1:]
    assert one["source"] == f"/data/local-files/?d={there}/t%20u.png"
    assert one["edited"].endswith("/alpha/one.png")
    assert two["source_2"].endswith("t%20u.png")
    one, _ = tasks_of(run, "--url", f"{run.parent}=https://pictures.example/a/")
    assert one["data"]["source"] == "https://pictures.example/a/t%20u.png"
    out = ran("export", run, "--format", "jsonl", "--url", "/nowhere=https://x")
    assert "is in none of /nowhere; give its folder a --url too" in str(out.exception)


def test_pictures_go_by_the_field_of_their_benchmark(tmp_path: Path) -> None:
    """Omni IIE's lists name the target before the mask, others the mask first."""
    data = omni.write_release(tmp_path / "data", [omni.record("coco2017val", "0001", "low")], [])
    (tmp_path / "alpha").mkdir()
    roots = {omni.AUTHORS: data / "files"}
    spec = make_spec(tmp_path, ["alpha"], None, benchmark="omni_iie", data=data, roots=roots)
    with stored_run(tmp_path / "run", spec):
        pass
    with RunView(tmp_path / "run") as view:
        (item,) = (ref.id for ref in view.resolved_spec.dataset.items())
        shown, paths = view.make_picture_finder().find(item), picture_paths(view, {})(item, "alpha")
        assert view.pictures(item) == shown
    mask = data / "files/masks/coco2017val/0001_low_target.png"
    target = data / "files/synthesized_images/coco2017val/0001_low.png"
    assert (shown.mask, shown.target) == (mask, target)
    assert (paths["mask"], paths["target"]) == (str(mask), str(target))


def test_only_some_dimensions(run: Path) -> None:
    some = run / "some.jsonl"
    out = ran("export", run, "--format", "jsonl", "--dimension", "MSE ↓", "--out", some)
    assert "some.jsonl: 3 rows" in out.output
    rows = [json.loads(line) for line in some.read_text().splitlines()]
    assert {row["dimension"] for row in rows} == {None, MSE}, "missing outputs are told as ever"
    ran("export", run, "--format", "csv", "--wide", "--dimension", "psnr.source.whole")
    assert (run / "edits.csv").read_text().splitlines()[0] == f"item,model,missing,{PSNR}"
    shown = ran("show", run, "one", "--dimension", "psnr").output
    assert (PSNR in shown, MSE in shown) == (True, False)
    assert "did you mean" in str(ran("show", run, "one", "--dimension", "psmr").exception)


@pytest.mark.parametrize("wide", [True, False])
def test_parquet_with_the_paths_of_pictures(run: Path, *, wide: bool) -> None:
    ran("export", run, "--format", "parquet", "--pictures", *["--wide"] * wide)
    rows = parquet.read_table(run / ("edits.parquet" if wide else "verdicts.parquet")).to_pylist()
    places = {row["item"]: row for row in rows if row["item"]}
    source, edited = run.parent / "t u.png", run.parent / "alpha" / "one.png"
    assert {"source": str(source), "edited": str(edited), "mask": None}.items() <= places["one"].items()
    assert places["gone"]["edited"] is None
    assert places["gone"]["source"] == str(run.parent / "s.png")
