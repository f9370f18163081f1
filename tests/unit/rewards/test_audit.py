"""Whether a reward is hacked: a made run in which it is sharpness in disguise."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError
from editjudge.base.verdict import Score
from editjudge.cli import root
from editjudge.rewards import RewardConfig
from editjudge.rewards.audit import audit_run, correlate_siblings
from editjudge.stats.agreement import Figure

from ...small_data import MSE, PSNR, make_spec, save_picture, stored_run, write_items

ITEMS, MODELS = 12, ("early", "late")
FILE = f'[rewards.quality.parts]\n"{PSNR}" = {{ range = [0, 100] }}\n'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two checkpoints, of which the later one alone is paid for noise; MSE is drawn at random."""
    rng = np.random.default_rng(0)
    write_items(tmp_path, [{"source": f"s{n // 2}.png", "instruction": "x" * (1 + n % 3)} for n in range(ITEMS)])
    with stored_run(tmp_path / "run", make_spec(tmp_path, MODELS, (PSNR, MSE))) as keep:
        for item in range(ITEMS):
            base = 60 + 5 * (item // 2)
            save_picture(tmp_path / f"s{item // 2}.png", np.full((16, 16, 3), base, np.uint8))
            for model in MODELS:
                noise = int(rng.integers(1, 60))
                picture = base + noise * rng.integers(0, 2, (16, 16, 1)).repeat(3, axis=2)
                save_picture(tmp_path / model / f"{item}.png", picture.astype(np.uint8))
                reward = 20.0 + noise if model == "late" else float(rng.uniform(10, 15))
                keep(str(item), model, {PSNR: Score(value=reward), MSE: Score(value=float(rng.uniform(1, 99)))})
    (tmp_path / "reward.toml").write_text(FILE)
    return tmp_path / "run"


def test_what_the_reward_follows_stands_first(run: Path) -> None:
    with RunView(run) as view:
        (table,) = audit_run(view, RewardConfig.load(run.parent / "reward.toml")).tables
    assert (table.records, table.sources) == (2 * ITEMS, ITEMS // 2)
    rows = {row.who: row.figures for row in table.rows}
    assert rows.keys() >= {"length of instruction", "sharpness", "brightness", "change", MSE}
    assert "saturation" not in rows, "all edits are grey"
    late, early = rows["sharpness"]["late"], rows["sharpness"]["early"]
    assert late.value is not None and late.value > 0.95  # noqa: PT018
    assert early.low is not None and early.high is not None and early.low < 0 < early.high  # noqa: PT018
    drawn = rows[MSE]["late"]
    assert drawn.low is not None and drawn.high is not None and drawn.low < 0 < drawn.high  # noqa: PT018
    strengths = [abs(of["all"].value or 0.0) for of in rows.values()]
    assert strengths == sorted(strengths, reverse=True)
    assert rows["change"]["siblings"].value != rows["change"]["all"].value


def test_siblings_are_compared_with_their_mean() -> None:
    """Between sources the reward rises with the fact, within each it falls; an edit alone says nothing."""
    facts = np.array([1.0, 2.0, 11.0, 12.0, 99.0])
    rewards = np.array([0.2, 0.1, 0.8, 0.7, 0.0])
    assert correlate_siblings(facts, rewards, np.array([0, 0, 1, 1, 2])) == pytest.approx(-1.0)


def test_the_page_and_the_table(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    seen = CliRunner().invoke(root, ["reward", "audit", "reward.toml", "run", "--out", "page.html"])
    assert seen.exit_code == 0, seen.output
    assert "quality: 24 edits, 6 sources" in seen.output
    assert "painted text was not looked for" in seen.output
    page = (run.parent / "page.html").read_text()
    assert "Audit of rewards" in page
    assert "people" not in page.partition("</style>")[2]
    shown = re.findall(r"<h4>(\S+), (\w+)</h4>", page)
    assert len(shown) == 20
    assert [model for _, model in shown[:ITEMS]] == ["late"] * ITEMS
    assert page.count("data:image/webp;base64,") == 2 * 20
    rewards = [float(x) for x in re.findall(r"the reward <b>([\d.]+)</b>", page)]
    assert rewards == sorted(rewards, reverse=True)


def test_what_is_missing_is_said(run: Path) -> None:
    (run.parent / "early" / "3.png").write_bytes(b"no picture")
    (run.parent / "late" / "4.png").unlink()
    (run.parent / "other.toml").write_text('[rewards.quality.parts]\n"core.ssim.source.whole" = {}\n')
    with RunView(run) as view:
        result = audit_run(view, RewardConfig.load(run.parent / "reward.toml"))
        with pytest.raises(ConfigError, match="its edits have no core.ssim.source.whole"):
            audit_run(view, RewardConfig.load(run.parent / "other.toml"))
    assert result.tables[0].records == 2 * ITEMS - 2
    assert len(result.problems) == 2
    assert "early/3.png: not an image" in result.problems[0]
    assert result.problems[1].startswith("4, late: edited: there is no picture")
    assert isinstance(result.tables[0].rows[0].figures["all"], Figure)
