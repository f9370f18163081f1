"""What a notebook sees: indexing, values, text, tables, JSON, frames and objects of one's own."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import editjudge
from editjudge import Dimension, Edit, Judgement, Reading, RunSpec, RunView, Score, Scorer
from editjudge.app.results import Results
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError, InputError, MissingExtra
from editjudge.base.verdict import Failure, LeftOut, MissingOutput, NoScore, NotApplicable, NotServed, Outcome, Pending
from editjudge.cli import root

from ...small_data import PSNR, save_picture, write_items

PIXELS = np.full((24, 32, 3), 100, np.uint8)
HOSTILE = "<script>alert(1)</script>&\x1b[2J"
ASKED = ["core.psnr.source.*", "core.text_content_accuracy"]


@dataclass(frozen=True)
class Brightness(Scorer):
    """How bright an output is."""

    name: ClassVar[str] = "brightness"

    async def score(self, edit: Edit, panel: Any, fields: frozenset[str]) -> Mapping[str, Score]:
        return {"mean": Score(value=float(edit.output.rgb.mean()) / 255)}


BRIGHT = Dimension(id="lab.brightness", asks="How bright?", how=Reading(Brightness(), "mean"), source="notes")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    monkeypatch.chdir(tmp_path)
    for name, value in {"data": 100, "out/a": 110, "out/b": 100}.items():
        save_picture(Path(f"{name}/s.png"), PIXELS * 0 + np.uint8(value))
    write_items(Path("data"), [{"id": "s"}])
    outputs = {"a": "out/a", HOSTILE.rstrip("\x1b[2J"): "out/b"}
    return RunSpec(benchmark="core", data="data", outputs=outputs, dimensions=[PSNR, BRIGHT])


@pytest.fixture
def judgement() -> Judgement:
    return score(edited=PIXELS + np.uint8(10), item_id=HOSTILE, dimensions=ASKED)


def score(**given: Any) -> Judgement:
    edit = {"source": PIXELS, "edited": PIXELS, "instruction": "x", "settings": Settings()}
    return editjudge.score(**(edit | given))


def run(spec: RunSpec, **how: Any) -> editjudge.RunResult:
    return editjudge.run(spec, out="run", settings=Settings(), **how)


def results_of(spec: RunSpec) -> Results:
    run(spec)
    with RunView("run", dimensions=[BRIGHT]) as view:
        return view.results()


@pytest.mark.parametrize(
    "outcome",
    [
        Score(value=0.5),
        NoScore(kind="unparsable", reason="chatty"),
        Failure(error="gone"),
        *(kind(reason="so") for kind in (NotApplicable, NotServed, MissingOutput)),
        *(Pending(), LeftOut()),
    ],
    ids=lambda outcome: outcome.status,
)
def test_every_outcome_has_value_reason_and_json(outcome: Outcome) -> None:
    assert (outcome.value is None) == (outcome.status != "scored")
    assert (outcome.reason is None) == (outcome.status == "scored")
    assert json.loads(json.dumps(outcome.to_dict(), allow_nan=False))["status"] == outcome.status
    assert "value" not in outcome.to_dict() or outcome.status == "scored"


def test_an_outcome_is_found_by_a_part_of_its_id(judgement: Judgement) -> None:
    whole = judgement[PSNR]
    assert judgement["psnr.source.whole"] is judgement["whole"] is whole
    assert whole.value == pytest.approx(28.13, abs=0.01)
    assert judgement["text_content_accuracy"].value is None
    assert dict(judgement) == dict(judgement.outcomes)
    assert judgement.get("nothing") is None
    with pytest.raises(KeyError, match=r"did you mean .*core\.psnr\.source\.whole"):
        judgement["psnr.source.hole"]
    with pytest.raises(KeyError, match=r"'psnr' means any of core\.psnr\.source\.whole, "):
        judgement["psnr"]


def test_its_text_is_a_line_per_dimension(judgement: Judgement) -> None:
    lines = repr(judgement).splitlines()
    assert len(lines) == 1 + len(judgement)
    assert len(repr(judgement)) < 300
    assert lines[1].split()[1:] == ["28.1308", "dB"]
    assert lines[-1].endswith("not_applicable: needs a target text")
    assert "\x1b" not in repr(judgement)


def test_its_table_is_escaped(judgement: Judgement) -> None:
    outcomes = {**judgement.outcomes, ASKED[1]: NoScore(kind="refused", reason=HOSTILE)}
    page = Judgement(judgement.edit, judgement.dimensions, outcomes, judgement.signatures)._repr_html_()
    assert page.startswith("<table>")
    there = [text in page for text in ("&lt;script&gt;", "<script", "\x1b")]
    assert there == [True, False, False]


def test_its_json_is_that_of_the_command_line(judgement: Judgement, tmp_path: Path) -> None:
    file = str(save_picture(tmp_path / "a.png"))
    arguments = ["--source", file, "--edited", file, "--instruction", "x", "-d", PSNR, "--json"]
    printed = json.loads(CliRunner().invoke(root.commands["score"], arguments).stdout)
    assert printed.keys() == judgement.to_dict().keys()
    assert printed["verdicts"][0].keys() == judgement.to_dict()["verdicts"][0].keys()
    json.dumps(judgement.to_dict(), allow_nan=False)


def test_a_judgement_is_pickled(judgement: Judgement) -> None:
    again = pickle.loads(pickle.dumps(judgement))  # noqa: S301 - our own
    assert repr(again) == repr(judgement)


def test_results_are_text_markdown_table_json_and_frame(spec: RunSpec) -> None:
    result = run(spec)
    assert repr(result) == "RunResult: done, 2 edits judged in this session, run in run"
    results = results_of(spec)
    assert len(repr(results)) < 200
    assert "\n\n| model | psnr.source.whole ↑ | brightness ↑ |" in results.to_markdown()
    page = results._repr_html_()
    assert "<table>" in page
    assert "<script" not in page
    assert results.to_dict()["models"]["a"]["lab.brightness"]["value"] == pytest.approx(110 / 255)
    frame = results.to_pandas()
    assert list(frame.columns[:5]) == ["model", "column", "group", "title", "value"]
    assert len(frame) == 4
    assert frame["value"].dtype == float
    printed = CliRunner().invoke(root.commands["summary"], ["run", "--json"])
    assert "lab.brightness" in str(printed.exception or printed.output)


def test_without_pandas_the_extra_is_named(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_of(spec)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"^to_pandas needs .*\[pandas\]"):
        results.to_pandas()


def test_a_run_takes_a_dimension_as_an_object_and_goes_on(spec: RunSpec) -> None:
    first = run(spec)
    assert first.cells["a"]["lab.brightness"].value == pytest.approx(110 / 255)
    assert run(spec).last_event.edits == 0
    again = pickle.loads(pickle.dumps(spec))  # noqa: S301 - our own
    assert again == spec
    assert run(again).last_event.edits == 0


def test_without_its_object_the_dimension_is_named(spec: RunSpec) -> None:
    run(spec)
    plain = RunSpec.model_validate_json(spec.model_dump_json())
    words = r"not known here: lab\.brightness; give each as an object"
    with pytest.raises(ConfigError, match=words):
        run(plain)
    with RunView("run") as view, pytest.raises(ConfigError, match=words):
        view.results()


def test_an_object_may_not_take_the_id_of_another(spec: RunSpec) -> None:
    other = Dimension(id=PSNR, asks="?", how=BRIGHT.how, source="notes")
    taken = RunSpec(benchmark="core", data="data", outputs=spec.outputs, dimensions=[other])
    with pytest.raises(ConfigError, match="another dimension is called core.psnr.source.whole"):
        run(taken)


def test_a_judge_may_be_a_dictionary(spec: RunSpec) -> None:
    judges = {"judge": {"url": "http://127.0.0.1:9/v1", "model": "m"}}
    client = editjudge.Client(Settings(), judges=judges)
    assert client.settings.judges["judge"].model == "m"
    asked = "core.instruction_following"
    edit = {"source": PIXELS, "edited": PIXELS, "instruction": "x"}
    settings = Settings(attempts=1)
    (many,) = editjudge.score_many([edit], asked, settings=settings, judges=judges)  # type: ignore[list-item]
    assert isinstance(many, Judgement)
    assert "127.0.0.1:9" in str(many[asked].reason)
    with pytest.raises(ConfigError, match=r"judges\['judge'\] url: "):
        editjudge.Client(Settings(), judges={"judge": {"model": "m"}})
    with pytest.raises(ConfigError, match=r"no judge 'other'; RunSpec\(judges=\['other'\]\)"):
        editjudge.run(spec, out="run", judges={"other": judges["judge"]})


def test_an_option_that_is_none_is_refused(spec: RunSpec) -> None:
    with pytest.raises(TypeError, match="run has no option 'max_costs'; it has settings, "):
        editjudge.run(spec, out="run", max_costs=1)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="unknown 'instruktion'; Edit.load takes source"):
        editjudge.score(source="data/s.png", edited="out/a/s.png", instruktion="x")  # type: ignore[call-arg]


async def test_inside_a_running_loop_all_of_it_works(spec: RunSpec) -> None:
    """As in a notebook."""
    assert asyncio.get_running_loop()
    paths = {"source": "data/s.png", "edited": "out/a/s.png"}
    alone = score(**paths, dimensions=BRIGHT)
    whole = run(spec)
    assert alone["brightness"].value == whole.cells["a"]["lab.brightness"].value
    async with editjudge.Client(Settings()) as client:
        same = await client.score({**paths, "instruction": "x"}, BRIGHT)  # type: ignore[arg-type]
    assert dict(same) == dict(alone)


def test_pandas_is_loaded_by_its_method_alone() -> None:
    code = "import sys, editjudge.app.results; print('pandas' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_run_of_no_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="spec: dict is no RunSpec"):
        editjudge.run({"benchmark": "core"}, out=tmp_path / "run")  # type: ignore[arg-type]


def test_a_judgement_has_no_dimension_that_is_no_text() -> None:
    judged = score(dimensions=BRIGHT)
    assert 3 not in judged
    assert judged.get(3) is None  # type: ignore[call-overload]
    with pytest.raises(KeyError, match="3"):
        judged[3]  # type: ignore[index]


def test_a_judge_of_another_name_is_not_the_one_that_is_missing() -> None:
    judges = {"other": {"url": "http://127.0.0.1:9/v1", "model": "m"}}
    judged = score(dimensions="core.instruction_following", judges=judges)
    assert "no judge is configured as 'judge'" in str(judged["instruction_following"].reason)


def test_a_spec_takes_one_dimension_as_score_does(spec: RunSpec) -> None:
    def make(dimensions: Any) -> RunSpec:
        return RunSpec(benchmark="core", data=spec.data, dimensions=dimensions)

    assert make("core.psnr.*") == make(["core.psnr.*"])
    assert make(BRIGHT) == make([BRIGHT])


def test_a_closed_view_says_so(spec: RunSpec, tmp_path: Path) -> None:
    run(spec)
    with RunView(tmp_path / "run") as view:
        assert repr(view) == f"RunView({str(tmp_path / 'run')!r})"
    with pytest.raises(editjudge.EditjudgeError, match="was closed; open it again"):
        view.results()
