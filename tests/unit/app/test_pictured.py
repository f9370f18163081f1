"""A run with the places of its pictures: as rows, and as tasks of Label Studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from editjudge.app.label_studio import control_name, picture_paths
from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.app.view import RunView
from editjudge.base.config import Settings
from editjudge.base.file_states import FileStates
from editjudge.base.item import Missing
from editjudge.base.verdict import Failure, NoScore
from editjudge.cli import root
from editjudge.engine.content_keys import JudgedEdit
from editjudge.storage.store import RunStore

from ..benchmarks.omni_iie import made as omni
from ..storage.stored import scored

export, show = root.commands["export"], root.commands["show"]

PSNR = "core.psnr.source.whole"
MSE = "core.mse.source.whole"
WORDS = "core.text_content_accuracy"
UNREAD = NoScore(kind="unparsable", reason="no JSON")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two items, one of them with two sources and a mask; of one there is no output."""
    picture = b"P6 2 2 255 " + bytes(12)
    for name in ("s.ppm", "t u.ppm", "alpha/one.ppm", "alpha/two.ppm"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(picture)
    lines: list[dict[str, Any]] = [
        {"id": "one", "instruction": 'say <"hi">', "source": "t u.ppm"},
        {"id": "two", "instruction": "\N{GRINNING FACE}", "sources": ["s.ppm", "t u.ppm"]},
        {"id": "gone", "instruction": "x", "source": "s.ppm"},
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    resolved = ResolvedSpec(
        RunSpec(
            benchmark="core",
            data=tmp_path / "items.jsonl",
            outputs={"alpha": tmp_path / "alpha"},
            dimensions=(PSNR, MSE, WORDS),
        )
    )
    signatures = resolved.signatures({})
    with RunStore.open(tmp_path / "run", resolved.header(Settings())) as store:
        judged = {
            "one": {PSNR: scored(31.5), MSE: UNREAD},
            "two": {PSNR: scored(0.0), MSE: Failure(error="gone")},
        }
        for item, verdicts in judged.items():
            seen = FileStates().get_state(str(tmp_path / "alpha" / f"{item}.ppm"))
            store.save_edit_now(JudgedEdit(item, "alpha", seen, None, None), verdicts, signatures)
        store.save_edit_now(
            JudgedEdit("gone", "alpha", None, Missing("absent", "no file gone.png")), {}, {}
        )
    return tmp_path / "run"


def ran(*arguments: str | Path) -> Result:
    return CliRunner().invoke(export, list(map(str, arguments)), catch_exceptions=False)


def test_tasks_are_what_label_studio_documents(run: Path) -> None:
    """Basic Label Studio JSON: `data` for the tags' variables, `predictions` for their results."""
    out = ran(run, "--format", "label-studio")
    assert "tasks.json: 2 tasks" in out.output
    assert "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=/" in out.output, "the next step is told"
    tasks = json.loads((run / "tasks.json").read_text("ascii"))
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
    values = [
        {r["from_name"]: r["value"]["number"] for p in t["predictions"] for r in p["result"]}
        for t in tasks
    ]
    assert values == [{control_name(PSNR): 31.5}, {control_name(PSNR): 0.0}], (
        "a failure is no number"
    )
    assert tags.keys() == {"instruction", "source", "edited", control_name(PSNR), "without_number"}
    assert tasks[0]["data"]["without_number"] == f"{MSE}: unscored (no JSON)"
    assert tasks[1]["data"]["without_number"].startswith(f"{MSE}: ")
    assert tasks[0]["data"]["instruction"] == 'say <"hi">'


def test_pictures_are_named_as_they_are_served(run: Path) -> None:
    ran(run, "--format", "label-studio")
    one, two = (t["data"] for t in json.loads((run / "tasks.json").read_text("ascii")))
    there = run.parent.as_posix()[1:]
    assert one["source"] == f"/data/local-files/?d={there}/t%20u.ppm"
    assert one["edited"].endswith("/alpha/one.ppm")
    assert two["source_2"].endswith("t%20u.ppm")
    ran(run, "--format", "label-studio", "--url", f"{run.parent}=https://pictures.example/a/")
    one, _ = (t["data"] for t in json.loads((run / "tasks.json").read_text("ascii")))
    assert one["source"] == "https://pictures.example/a/t%20u.ppm"
    out = CliRunner().invoke(export, [str(run), "--format", "jsonl", "--url", "/nowhere=https://x"])
    assert "is in none of /nowhere; give its folder a --url too" in str(out.exception)


def test_pictures_go_by_the_field_of_their_benchmark(tmp_path: Path) -> None:
    """Omni IIE's lists name the target before the mask, others the mask first."""
    data = omni.released(tmp_path / "data", [omni.record("coco2017val", "0001", "low")], [])
    (tmp_path / "alpha").mkdir()
    spec = RunSpec(
        benchmark="omni_iie",
        data=data,
        outputs={"alpha": tmp_path / "alpha"},
        roots={omni.AUTHORS: data / "files"},
    )
    RunStore.open(tmp_path / "run", ResolvedSpec(spec).header(Settings())).close()
    with RunView(tmp_path / "run") as view:
        (item,) = (ref.id for ref in view.resolved_spec.dataset.items())
        shown, paths = view.make_pictures_reader()(item), picture_paths(view, {})(item, "alpha")
        assert view.pictures(item) == shown
    mask = data / "files/masks/coco2017val/0001_low_target.png"
    target = data / "files/synthesized_images/coco2017val/0001_low.png"
    assert (shown.mask, shown.target) == (mask, target)
    assert (paths["mask"], paths["target"]) == (str(mask), str(target))


def test_only_some_dimensions(run: Path) -> None:
    out = ran(run, "--format", "jsonl", "--dimension", "MSE ↓", "--out", run / "some.jsonl")
    assert "some.jsonl: 3 rows" in out.output
    rows = [json.loads(line) for line in (run / "some.jsonl").read_text().splitlines()]
    assert {row["dimension"] for row in rows} == {None, MSE}, "missing outputs are told as ever"
    ran(run, "--format", "csv", "--wide", "--dimension", "psnr.source.whole")
    assert (run / "edits.csv").read_text().splitlines()[0] == f"item,model,missing,{PSNR}"
    shown = CliRunner().invoke(show, [str(run), "one", "--dimension", "psnr"])
    assert PSNR in shown.output
    assert MSE not in shown.output
    failed = CliRunner().invoke(show, [str(run), "one", "--dimension", "psmr"])
    assert "did you mean" in str(failed.exception)


@pytest.mark.parametrize("wide", [True, False])
def test_parquet_with_the_paths_of_pictures(run: Path, *, wide: bool) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    ran(run, "--format", "parquet", "--pictures", *["--wide"] * wide)
    rows = parquet.read_table(run / ("edits.parquet" if wide else "verdicts.parquet")).to_pylist()
    places = {row["item"]: row for row in rows if row["item"]}
    assert Path(places["one"]["source"]).read_bytes().startswith(b"P6")
    assert places["one"]["edited"] == str(run.parent / "alpha" / "one.ppm")
    assert places["one"]["mask"] is None
    assert places["gone"]["edited"] is None
    assert places["gone"]["source"] == str(run.parent / "s.ppm")
