"""Pairs: a run that asks which of two edits is better, and the ranking that it makes."""

from __future__ import annotations

import asyncio
import base64
import io
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import editjudge
from editjudge.app.pair_ranking import rank_pairs
from editjudge.app.rescoring import rescore_run
from editjudge.app.spec import ask_about_pairs
from editjudge.app.view import RunView
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.base.errors import ConfigError, InputError
from editjudge.benchmarks.pairs import FILE, PAIR, PREFERENCE
from editjudge.cli import main
from editjudge.stats.preferences import rank_models

from ...fakes.openai import ScriptedOpenAi
from ...small_data import make_spec, save_picture, write_items

QUALITY = {"good": 200, "fair": 120, "poor": 40}
ITEMS, FAVOUR = 12, 0.2


class Chooser(ScriptedOpenAi):
    """Prefers the brighter edit, and favours the one that it sees first."""

    def make_reply(self) -> dict[str, Any]:
        pictures = []
        for message in self.requests[-1]["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else ():
                if part["type"] == "image_url":
                    data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
                    pictures.append(float(np.asarray(Image.open(io.BytesIO(data)).convert("L"), dtype=float).mean()))
        if len(pictures) == 3:
            share = 1 / (1 + np.exp(-(pictures[1] - pictures[2]) / 60 - FAVOUR))
            self.probabilities = {"A": 0.9 * share, "B": 0.9 * (1 - share), "tie": 0.1}
        return super().make_reply()


def make_data(folder: Path, models: tuple[str, ...] = tuple(QUALITY)) -> Path:
    rng = np.random.default_rng(0)
    write_items(folder, [{"source": f"s{item}.png"} for item in range(ITEMS)])
    for item in range(ITEMS):
        save_picture(folder / f"s{item}.png", rng.integers(0, 256, (8, 8, 3), np.uint8))
        for model in models:
            level = QUALITY[model] + rng.normal(0, 40)
            picture = np.clip(level + rng.normal(0, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            save_picture(folder / model / f"{item}.png", picture)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data")


def pairs_of(folder: Path, per_item: int | None = None, models: tuple[str, ...] = tuple(QUALITY)) -> editjudge.RunSpec:
    return ask_about_pairs(make_spec(folder, models, dimensions=None), folder / "run" / FILE, per_item)


async def judge(spec: editjudge.RunSpec, out: Path, server: ScriptedOpenAi) -> editjudge.RunResult:
    async with server.serving() as url:
        return await editjudge.run_async(spec, out=out, settings=Settings(judges={"judge": JudgeEndpoint(url=url)}))


async def test_models_are_ranked_by_pairs_in_both_orders(folder: Path) -> None:
    server = Chooser()
    result = await judge(pairs_of(folder), folder / "run", server)
    assert result.status == "done"
    with RunView(folder / "run") as view:
        (ranking,) = rank_pairs(view)
        verdicts = [*view.verdicts()]
    assert [*ranking.wins] == ["good", "fair", "poor"]
    assert (ranking.dimension, ranking.pairs) == (PREFERENCE, 3 * ITEMS)
    assert len(verdicts) == 2 * ranking.pairs
    wins = ranking.wins.values()
    assert sum(each.value or 0 for each in wins) == pytest.approx(1.5)
    assert all(each.low is not None and each.value is not None and each.low < each.value for each in wins)
    assert ranking.first_wins.low is not None
    assert ranking.first_wins.low > 0.5, "the favour shows"
    (reply,) = verdicts[0].replies
    assert isinstance(reply.reply, dict)
    chances = reply.reply["probabilities"]
    assert [*chances] == ["A", "tie", "B"]
    assert verdicts[0].verdict.value == pytest.approx(chances["A"] + chances["tie"] / 2)
    assert len(server.requests) >= 2 * ranking.pairs

    again = Chooser()
    resumed = await judge(pairs_of(folder), folder / "run", again)
    assert resumed.last_event.edits == 0, "nothing is judged twice"
    changes = await asyncio.to_thread(rescore_run, folder / "run")
    assert [change.changed for change in changes] == [0]


async def test_a_new_model_is_added_to_a_run(folder: Path) -> None:
    await judge(pairs_of(folder, models=("good", "poor")), folder / "run", Chooser())
    result = await judge(pairs_of(folder), folder / "run", Chooser())
    assert result.last_event.edits == 4 * ITEMS, "only pairs with the new one"


def test_pairs_are_drawn_at_random_and_asked_in_both_orders(folder: Path) -> None:
    (folder / "poor" / "3.png").unlink()
    dataset = load_data(pairs_of(folder, per_item=1))
    keys = [tuple(ref.texts["extra"][PAIR]) for ref in dataset.items()]
    assert len(keys) == 2 * ITEMS
    assert {(item, b, a) for item, a, b in keys} == set(keys)
    assert len({tuple(sorted(models)) for _, *models in keys}) == 3, "not always the same models"
    assert ("3", "good", "fair") in keys
    assert [ref.id for ref in dataset.items({5})] == [[*dataset.items()][5].id]
    assert dataset.doubts() == ()
    (folder / "good" / "3.png").unlink()
    assert "no pair" in load_data(pairs_of(folder)).doubts()[0]
    every = Counter(ref.texts["extra"][PAIR][0] for ref in load_data(pairs_of(folder)).items())
    assert every == {str(item): 6 for item in range(ITEMS) if item != 3}


def load_data(spec: editjudge.RunSpec) -> Any:
    from editjudge.app.spec import ResolvedSpec

    return ResolvedSpec(spec).dataset


def test_what_cannot_be_compared_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="twice or more"):
        pairs_of(folder, models=("good",))
    spec = pairs_of(folder)
    (folder / "run" / FILE).write_text("{}")
    with pytest.raises(InputError, match=r"pairs\.json"):
        load_data(spec)


def test_the_command_estimates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [word for model in QUALITY for word in ("--outputs", f"{model}={folder / model}")]
    data = ["run", "core", "--data", str(folder / "items.jsonl"), "--out", str(folder / "run")]
    with pytest.raises(SystemExit, match="0"):
        main([*data, *outputs, "--per-item", "2", "--dry-run"])
    assert f"{4 * ITEMS}" in capsys.readouterr().out
    assert not (folder / "run").exists()


def test_a_favour_for_the_first_edit_cancels_out() -> None:
    """By the sums: A wins .8 first and .4 second, so .6 over both; the edit shown first wins .7."""
    shares = {(str(i), a, b): {"A": 0.8, "B": 0.6}[a] for i in range(20) for a, b in permutations("AB")}
    of = rank_models("core.preference", shares, {key: key[0] for key in shares})
    assert {model: round(each.value or 0, 9) for model, each in of.wins.items()} == {"A": 0.6, "B": 0.4}
    assert of.first_wins.value == pytest.approx(0.7)
    assert of.strengths["A"].value is None, "who wins all has no finite strength"
    assert "won, or lost, all" in of.strengths["A"].reason


def test_a_pair_with_one_order_does_not_count() -> None:
    shares = {("1", "A", "B"): 1.0, ("2", "A", "B"): 0.5, ("2", "B", "A"): 0.5}
    of = rank_models("core.preference", shares, {key: key[0] for key in shares})
    assert (of.pairs, of.ties) == (1, 1)
