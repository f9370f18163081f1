"""Judgements of others as a run: what was released, what our reader finds, and what none can take for ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from editjudge.app.human_agreement import measure_agreement
from editjudge.app.judgement_import import import_judgements
from editjudge.app.merge import merge
from editjudge.app.ratings import read_ratings
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError, InputError
from editjudge.base.verdict import NoScore
from editjudge.cli import root

from ...small_data import save_picture, write_items

NAME, REREAD = "imported.overall", "imported.overall.reread"
RECORDS: list[dict[str, Any]] = [
    {"item": "0", "model": "ours", "score": 4, "reply": 'Fine. {"score": 4}'},
    {"item": "1", "model": "ours", "score": 2, "reply": '{"reasoning": "mostly", "score": 3}'},
    {"item": "2", "model": "ours", "score": 0, "reply": "No answer."},
    {"item": "3", "model": "ours", "score": None, "reply": 'Good. {"score": 5}'},
    {"item": "0", "model": "theirs", "score": 1, "reply": "I cannot help with this."},
    {"item": "1", "model": "theirs", "score": 9, "reply": '{"score": 9}'},
    {"item": "2", "model": "theirs", "score": 3},
]


def write(file: Path, records: Iterable[object]) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in records))
    return file


def scores(folder: Path, **more: Any) -> Path:
    texts = {"dimension": "overall", "instruction": "make it red", "category": "colour"} | more
    return write(folder / "gpt.jsonl", [texts | record for record in RECORDS])


def values(run: Path) -> dict[tuple[str, str, str], float | None]:
    with RunView(run) as view:
        return {(v.item, v.model, v.dimension): v.verdict.value for v in view.verdicts()}


def call(command: str, *arguments: object) -> Result:
    done = CliRunner().invoke(root.commands[command], list(map(str, arguments)))
    assert not done.exception, done.output
    return done


def test_each_reply_is_read_twice(tmp_path: Path) -> None:
    run = tmp_path / "run"
    summary = import_judgements([scores(tmp_path)], run, scale=(0, 5))
    assert (summary.judge, summary.edits, summary.replies) == ("gpt", 7, 6)
    assert summary.scores == {NAME: 5, REREAD: 3}
    assert summary.differ == 4, "another number, none where one was released (twice), and one where none was"
    assert [text.partition(", ")[2] for text in summary.problems] == ["line 6: 9 is not from 0 to 5"]
    found = values(run)
    assert (found["1", "ours", NAME], found["1", "ours", REREAD]) == (2, 3)
    assert found["3", "theirs", NAME] is None, "nobody judged it, and no number stands for that"
    with RunView(run) as view:
        table = view.results().models
        assert (table["ours"][NAME].value, table["ours"][REREAD].value) == (2, 4)
        (refused,) = view.verdicts("theirs", REREAD, item="0")
        assert isinstance(refused.verdict, NoScore)
        assert refused.verdict.kind == "refused"
        assert refused.replies[0].reply == {"text": "I cannot help with this."}
        assert view.item("0").task == "colour"
        assert not view.data_note


def test_no_imported_number_can_be_taken_for_ours(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("one", "other")]
    import_judgements([scores(tmp_path)], runs[0], scale=(0, 5))
    import_judgements([scores(tmp_path, category="x")], runs[1], scale=(0, 5))
    signatures = []
    for run in runs:
        with RunView(run) as view:
            signatures.append({v.dimension: v.signature for v in view.verdicts()})
            assert {v.dimension for v in view.verdicts()} == {NAME, REREAD}
    for name in (NAME, REREAD):
        one, other = (each[name] for each in signatures)
        assert "protocol:imported.1" in one
        assert f"{name}:gpt(file=sha256:" in one
        assert "generalist" not in one
        assert one != other, "the digest of the file is in it"
    with pytest.raises(ConfigError, match="leave .* out"):
        merge(runs, tmp_path / "both")


def test_commands_work_on_it(tmp_path: Path) -> None:
    run, file = tmp_path / "run", scores(tmp_path)
    said = call("import", file, "--as", run, "--scale", "0:5").stdout
    assert "gpt, 7 edits: imported.overall 5 scores, imported.overall.reread 3 scores" in said
    assert "of 6 replies our reader reads 4 otherwise than was released" in said
    table = json.loads(call("summary", run, "--json").stdout)
    assert table["models"]["ours"][NAME]["value"] == 2
    assert "gpt replied: Fine." in call("show", run, "0").stdout
    page = tmp_path / "page.html"
    call("report", run, "--out", page)
    assert "imported.overall.reread" in page.read_text()
    call("export", run, "--format", "csv", "--wide")
    assert f"item,model,missing,{NAME},{REREAD}" in (run / "edits.csv").read_text()
    rescored = json.loads(call("rescore", run, "--json").stdout)
    assert {(each["changed"], each["kept"]) for each in rescored} == {(0, 4)}
    people = ["item,model,dimension,rater,value"]
    people += [f"{one['item']},{one['model']},overall,ann,{one['score'] or 0}" for one in RECORDS if one["score"] != 9]
    out = tmp_path / "people.html"
    agreement = call("agreement", run, "--human", write(tmp_path / "p.csv", people), "--out", out, "--json")
    of = {(t["dimension"], t["unit"]): t["rows"][0]["figures"] for t in json.loads(agreement.stdout)["tables"]}
    assert of[NAME, "edit"]["mae"]["value"] == 0
    assert of[REREAD, "edit"]["mae"]["value"] == pytest.approx((0 + 1 + 5) / 3)
    assert "Good. {&#34;score&#34;: 5}" in out.read_text(), "the judge's words on the edit that people see otherwise"


def test_votes_of_a_public_set(tmp_path: Path) -> None:
    """The figures are those of the file itself, by both readings."""
    records = [
        {"idx": n, "source_prompt": f"s{n // 2}", "response": text, "model_vote": vote, "human_vote": "leftvote"}
        for n, (text, vote) in enumerate([("[[A>B]]", "[[A>B]]"), ("so [[ A>B ]]", None), ("[[A=B=Bad]]",) * 2] * 3)
    ]
    file = write(tmp_path / "gpt4o" / "pairwise.json", [json.dumps(records)])
    run = tmp_path / "run"
    summary = import_judgements([file], run)
    assert summary.scores == {"imported.vote": 6, "imported.vote.reread": 9}
    assert summary.differ == 3
    with RunView(run) as view:
        assert view.results().models["A first"]["imported.vote.reread"].value == pytest.approx(5 / 6)
        rows: dict[str, Mapping[str, Any]] = {}
        for views in ([], [view]):
            (table,) = measure_agreement(views, read_ratings([file])).tables
            rows |= {row.who: row.figures for row in table.rows if row.kind == "judge"}
        assert rows.keys() == {"gpt4o", "gpt4o (as released)", "run: imported.vote", "run: imported.vote.reread"}
    assert rows["run: imported.vote.reread"] == rows["gpt4o"]
    assert rows["run: imported.vote"] == rows["gpt4o (as released)"]


def test_votes_in_both_orders(tmp_path: Path) -> None:
    first = {"judgement": "A", "evaluator": "x"}
    file = write(
        tmp_path / "judged.json", [json.dumps({f"p{n}": {"forward": [first], "reverse": [first]} for n in "12"})]
    )
    import_judgements([file], tmp_path / "run")
    with RunView(tmp_path / "run") as view:
        cells = view.results().models
        assert {order: cells[order]["imported.vote"].value for order in cells} == {"A first": 1.0, "B first": 0.0}


def test_pictures_of_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    save_picture(data / "s.png")
    save_picture(data / "ours" / "0.png")
    items = write_items(data, [{}, {}, {}])
    run = tmp_path / "run"
    summary = import_judgements([scores(tmp_path)], run, scale=(0, 5), data=items, outputs={"ours": data / "ours"})
    assert [text.partition(": ")[2] for text in summary.problems][1:] == [f"{items} has no item 3"]
    with RunView(run) as view:
        assert view.results().models["ours"][NAME].value == 2
        pictures = view.pictures("0")
        assert (pictures.sources, pictures.outputs["ours"]) == ((data / "s.png",), data / "ours" / "0.png")


@pytest.mark.parametrize(
    ("records", "scale", "problem"),
    [
        (RECORDS, None, "the judge's scale is not known; name its ends: --scale LOW:HIGH"),
        ([one | {"judge": one["item"]} for one in RECORDS], (0, 5), "several judges: 0, 1, 2, 3"),
        ([{"item": "0", "model": "ours", "value": 3}], (0, 5), "the files hold no judgements"),
        ([{"item": "0", "score": 3}], (0, 5), "no record can be used; .*, line 1: model: is missing"),
    ],
)
def test_files_that_make_no_run(tmp_path: Path, records: Any, scale: Any, problem: str) -> None:
    with pytest.raises((ConfigError, InputError), match=problem):
        import_judgements([write(tmp_path / "a.jsonl", records)], tmp_path / "run", scale=scale)
    assert not (tmp_path / "run").exists()


def test_odd_records_and_a_folder_that_is_there(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [RECORDS[0], "{", RECORDS[0], {"item": "1", "model": "ours", "score": "x"}])
    summary = import_judgements([file], tmp_path / "run", scale=(0, 5))
    assert [text.removeprefix(f"{file}, ") for text in summary.problems] == [
        "line 2: it is no JSON object",
        "line 4: score: must be a number",
        "line 3: item 0 of ours has another imported.score already",
    ]
    with pytest.raises(ConfigError, match="exists; give another --as"):
        import_judgements([file], tmp_path / "run", scale=(0, 5))
