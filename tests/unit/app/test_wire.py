"""Every JSON that is printed or stored: its fields, its statuses, and its schema as a file."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import models_json_schema

from editjudge.app import catalogue, verdicts
from editjudge.app.agreement import Agreement
from editjudge.app.canary import CanaryResult
from editjudge.app.comparison import ModelComparison, Rankings
from editjudge.app.doctor import Finding
from editjudge.app.estimate import Estimate
from editjudge.app.gate import Gate, PlanRow
from editjudge.app.judgement_import import ImportSummary
from editjudge.app.rating_sample import Stratum
from editjudge.app.rescoring import RescoreEntry
from editjudge.app.results import Results
from editjudge.app.run_difference import RunDifference
from editjudge.app.spec import RunSpec
from editjudge.app.validation import Validation
from editjudge.base.strict import Strict, to_json
from editjudge.base.verdict import Failure, NoScore, NotApplicable, Outcome, Score, Status
from editjudge.benchmarks.dimension import Dimension, Reading
from editjudge.engine import events
from editjudge.engine.judge import judge
from editjudge.engine.run_header import RunHeader
from editjudge.engine.score_report import ScoreReport
from editjudge.prepare.gie import ConversionResult
from editjudge.prepare.preparation import PreparationResult
from editjudge.prepare.review import ReviewResult
from editjudge.rewards.audit import Movement
from editjudge.rewards.schema import RewardReply
from editjudge.stats.agreement import Figure
from editjudge_services.cli.status import Stack

from ...fakes.scorers import FakePanel, ScriptedScorer, edit
from ...golden.text import read_kept

SCHEMA = Path(__file__).with_name("schema.json")
PRINTED = (
    *(events.StartEvent, events.ProgressEvent, events.NoteEvent, events.FinishEvent),
    *(Results, verdicts.ShownItem, verdicts.Row, ScoreReport),
    *(Estimate, Validation, RescoreEntry),
    *(Agreement, ImportSummary, RunDifference, CanaryResult, ModelComparison, Rankings, Gate, PlanRow),
    *(Finding, Stack),
    *(catalogue.DimensionEntry, catalogue.TemplateEntry, PreparationResult, ReviewResult, ConversionResult),
    *(RewardReply, Movement, Stratum),
)


def test_the_schema_is_the_one_that_is_kept() -> None:
    models = [(one, "serialization") for one in (*PRINTED, RunSpec, RunHeader)]
    _, schema = models_json_schema(models)  # type: ignore[arg-type]
    text = json.dumps(schema, indent=1, sort_keys=True) + "\n"
    assert text == read_kept(SCHEMA, text), "a JSON changed; make golden keeps the new"


def test_every_printed_form_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "json.md").read_text("utf-8")
    assert [each.__name__ for each in PRINTED if f"\n## {each.__name__}\n" not in page] == []


def test_every_printed_field_has_a_meaning() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "json.md").read_text("utf-8")
    assert page.count("| field | type | meaning |") > 50
    assert [line for line in page.splitlines() if line.endswith("|  |")] == []


def below(model: type[Strict]) -> set[type[Strict]]:
    return {model}.union(*(below(one) for one in model.__subclasses__()))


def test_what_is_described_is_there() -> None:
    described = {
        model: set(re.findall(r"^ {8}(\w+): ", (model.__doc__ or ""), re.MULTILINE)) for model in below(Strict)
    }
    assert any(described.values())
    absent = {one: names - {*one.model_fields} for one, names in described.items()}
    assert {one.__name__: names for one, names in absent.items() if names} == {}


def test_no_model_is_forgotten() -> None:
    kept = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    abstract = {"Strict", "_NoNumber", "Event", "CountsEvent", "Outcomes", "_SchemaModel"}
    inner = {one.__name__ for one in get_args(Outcome)} | {"CountedMissing"}
    files = {"RubricFile", "TemplateFile", "RewardRequest", "RewardEdit", "PictureSource", "GateRules"}  # read only
    files |= {"Measurement", "RewardConfig", "RewardTable", "Part", "Listener"}
    ours = [one for one in below(Strict) if one.__module__.startswith("editjudge.")]
    # What the service says besides is in its OpenAPI document, which is kept too.
    names = {one.__name__ for one in ours}
    assert names - abstract - inner - files <= {name.rpartition("__")[2] for name in kept}


def test_there_is_one_vocabulary_of_statuses() -> None:
    outcomes = [one.model_fields["status"].default for one in get_args(Outcome)]
    assert sorted(get_args(Status)) == sorted(outcomes)


OUTCOMES: dict[str, tuple[Outcome, Any, Any]] = {
    "scored": (Score(value=0.5, evidence={"read": "x"}), 0.5, None),
    "unscored": (NoScore(kind="refused", reason="no"), None, "refused"),
    "failed": (Failure(error="gone"), None, None),
    "not_applicable": (NotApplicable(reason="nothing to ask"), None, None),
}


@pytest.mark.parametrize("status", OUTCOMES)
async def test_a_judged_edit(status: str) -> None:
    outcome, value, kind = OUTCOMES[status]
    dimension = Dimension("core.d", "?", "here", Reading(ScriptedScorer(key="k"), "f"), (0, 1))
    judged = await judge(edit(f=outcome), [dimension], {}, FakePanel())  # type: ignore[arg-type]
    data = json.loads(to_json(ScoreReport.of(judged)))
    (told,) = data["verdicts"]
    assert (told["status"], told["value"], told["kind"]) == (status, value, kind)
    assert told["range"] == [0, 1]
    assert told["higher_is_better"] is True
    assert told["signature"].startswith("dimension:core.d|")
    assert (told["reason"] is None) == (status == "scored")
    assert set(data) == {"sample", "verdicts", "services", "usage"}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        Figure(value=value)


def test_events_are_read_back() -> None:
    adapter: TypeAdapter[events.RunEvent] = TypeAdapter(events.RunEvent)
    note = events.NoteEvent(text="said \ud800")
    text = to_json(note, indent=None)
    assert list(json.loads(text)) == ["event", "time", "text"]
    assert adapter.validate_python(json.loads(text)) == note
    with pytest.raises(ValidationError):
        adapter.validate_python(json.loads(text) | {"more": 1})
