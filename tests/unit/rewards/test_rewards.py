"""Rewards: what the file means, how parts are mixed, and that a failure is never a number."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError, InputError
from editjudge.base.item import Edit, EditArguments
from editjudge.base.signature import Signature
from editjudge.base.verdict import Failure, NoScore, NotApplicable, NotServed, Outcome, Score
from editjudge.cli import root
from editjudge.engine.judge import Judgement
from editjudge.rewards import Reward, RewardConfig
from editjudge.rewards.audit import compare_facts, compare_rewards, measure_edit
from editjudge.rewards.callables import make_compute_score, make_reward_function
from editjudge.rewards.mix import reward_edit, sign_reward, summarise
from editjudge.rewards.reward import score_siblings
from editjudge.rewards.schema import EditReward, RewardError, RewardValue

from ...small_data import save_picture

SSIM, MSE = "core.ssim.source.whole", "core.mse.source.whole"
ROOT = Path(__file__).parents[3]
FILE = f"""
[rewards.quality.parts]
"{SSIM}" = {{ weight = 3.0, range = [0.0, 1.0] }}
"core.psnr.source.whole" = {{ range = [10, 50] }}
[rewards.quality.gates.unchanged_copy]
dimension = "{MSE}"
below = 0.5
[rewards.quality.gates.wrong_size]
size_differs = true
"""
GREY = np.full((24, 32, 3), 100, np.uint8)
EDIT = Edit.load(source=GREY, edited=GREY + np.uint8(5), instruction="x")
WITHOUT: Mapping[str, Outcome] = {
    "failed": Failure(error="it hung up", retryable=True),
    "abstained": NoScore(kind="abstained", reason="the judge declined"),
    "unparsable": NoScore(kind="unparsable", reason="NaN is no number"),
    "not_applicable": NotApplicable(reason="needs a mask"),
    "not_served": NotServed(reason="no judge here"),
}


def load(folder: Path, text: str = FILE) -> RewardConfig:
    (folder / "reward.toml").write_text(text)
    return RewardConfig.load(folder / "reward.toml")


@pytest.fixture
def config(tmp_path: Path) -> RewardConfig:
    return load(tmp_path)


def mix_reward(config: RewardConfig, edit: Edit = EDIT, **outcomes: Any) -> RewardValue:
    """The reward `quality` where dimensions have these outcomes or values, by their first word."""
    names = {name.split(".")[1]: name for name in config.list_ids()}
    found = {names[key]: one if hasattr(one, "status") else Score(value=one) for key, one in outcomes.items()}
    signatures = dict.fromkeys(names.values(), Signature(()))
    judgement = Judgement(edit, {}, found, signatures)
    return reward_edit(config, ["quality"], judgement)["quality"]


def test_parts_are_clipped_scaled_and_weighted(config: RewardConfig) -> None:
    value = mix_reward(config, ssim=-0.5, psnr=90.0, mse=25.0)
    assert value.reward == 0.25  # 3 x 0 and 1 x 1
    assert value.parts[SSIM].model_dump() == {
        "value": -0.5, "range": (0.0, 1.0), "weight": 3.0, "cap": None, "reason": None,
    }  # fmt: skip
    assert mix_reward(config, ssim=0.5, psnr=30.0, mse=25.0).reward == 0.5


def test_a_closed_gate_caps_the_reward_and_is_named(tmp_path: Path) -> None:
    config = load(tmp_path)
    copy = mix_reward(config, ssim=1.0, psnr=100.0, mse=0.0)
    assert (copy.reward, copy.parts["gate.unchanged_copy"].cap) == (0.0, 0.0)
    small = Edit.load(source=GREY, edited=GREY[:12], instruction="x")
    nothing = NoScore(kind="degenerate", reason="the sizes differ")
    value = mix_reward(config, small, ssim=nothing, psnr=nothing, mse=nothing)
    assert value.reward == 0.0  # whatever the others were
    assert value.parts["gate.wrong_size"].cap == 0.0
    half = load(tmp_path, FILE.replace("below = 0.5", "below = 0.5\ncap = 0.5"))
    assert mix_reward(half, ssim=1.0, psnr=100.0, mse=0.0).reward == 0.5
    assert mix_reward(half, ssim=0.0, psnr=10.0, mse=0.0).reward == 0.0


@pytest.mark.parametrize("form", [("JPEG", 90), ("JPEG", 75), ("WEBP", 75)])
@pytest.mark.parametrize("name", ["coffee", "astronaut", "rocket"])
def test_the_documented_reward_pays_nothing_for_a_copy(tmp_path: Path, name: str, form: tuple[str, int]) -> None:
    text, rubric = (
        (ROOT / f"docs/howto/{page}.md").read_text().partition("```toml\n")[2].partition("```")[0]
        for page in ("rewards", "own")
    )
    (tmp_path / "light.toml").write_text(rubric)
    config = load(tmp_path, text)
    source, saved = Image.fromarray(getattr(skimage.data, name)()), io.BytesIO()
    source.save(saved, form[0], quality=form[1])
    changed: EditArguments = {"source": np.asarray(source), "edited": np.asarray(source)[::-1], "instruction": "x"}
    copy: EditArguments = {**changed, "edited": np.asarray(Image.open(saved).convert("RGB"))}
    with Reward(config, Settings()) as reward:  # without a judge: only a closed gate gives a number
        paid, open_gates = (one.rewards["quality"] for one in reward.score([copy, changed]).results)
    assert paid.reward == 0.0
    assert paid.parts["gate.unchanged_copy"].cap == 0.0
    assert open_gates.reward is None
    assert open_gates.parts["gate.unchanged_copy"].cap is None


@pytest.mark.parametrize("at", ["ssim", "psnr", "mse"])
@pytest.mark.parametrize("kind", WITHOUT)
def test_an_edit_without_a_number_has_the_reason(config: RewardConfig, at: str, kind: str) -> None:
    outcomes = {"ssim": 0.5, "psnr": 30.0, "mse": 25.0, at: WITHOUT[kind]}
    value = mix_reward(config, **outcomes)
    assert value.reward is None
    assert value.unscored is not None
    assert value.unscored.kind == kind
    assert str(WITHOUT[kind].reason) in value.unscored.reason
    assert value.unscored.retry == (kind in {"failed", "not_served"})


def test_minimum_parts_leaves_out_what_the_edit_lacks_and_no_failure(tmp_path: Path) -> None:
    lines = FILE.replace("[rewards.quality.parts]", "[rewards.quality]\nminimum_parts = 1\n[rewards.quality.parts]")
    config = load(tmp_path, lines)
    assert mix_reward(config, ssim=0.5, psnr=WITHOUT["not_applicable"], mse=9.0).reward == 0.5
    assert mix_reward(config, ssim=0.5, psnr=WITHOUT["failed"], mse=9.0).reward is None
    assert mix_reward(config, ssim=0.5, psnr=30.0, mse=WITHOUT["abstained"]).reward is None
    lacking = WITHOUT["not_applicable"]
    assert mix_reward(config, ssim=lacking, psnr=lacking, mse=9.0).reward is None


def test_a_constant_is_counted_and_says_why(tmp_path: Path) -> None:
    config = load(tmp_path, "without_number = -0.5\n" + FILE)
    value = mix_reward(config, ssim=0.5, psnr=WITHOUT["failed"], mse=9.0)
    assert (value.reward, value.imputed) == (-0.5, True)
    assert value.unscored is not None
    results = [EditReward(id="1", rewards={"quality": value})]
    assert summarise(config, "quality", results, ["a"]).imputed == 1


NUMBERS = st.floats(-1e6, 1e6)
OUTCOMES = st.one_of(NUMBERS.map(lambda x: Score(value=x)), st.sampled_from([*WITHOUT.values()]))


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> dict[float, RewardConfig]:
    """The file with each lowest reward."""
    head = "[rewards.quality.parts]"
    folder, by_lowest = tmp_path_factory.mktemp("configs"), {}
    for low in (0.0, -1.0):
        text = FILE.replace(head, f"[rewards.quality]\nscale = [{low}, 1]\n{head}")
        by_lowest[low] = load(folder, text)
    return by_lowest


@given(ssim=OUTCOMES, psnr=OUTCOMES, mse=OUTCOMES, scale=st.sampled_from([0.0, -1.0]))
def test_a_reward_is_on_its_scale_or_has_a_reason(
    configs: dict[float, RewardConfig], ssim: Any, psnr: Any, mse: Any, scale: float
) -> None:
    value = mix_reward(configs[scale], ssim=ssim, psnr=psnr, mse=mse)
    assert (value.reward is None) == (value.unscored is not None)
    if value.reward is not None:
        assert scale <= value.reward <= 1.0
        assert math.isfinite(value.reward)
        closed = value.parts["gate.unchanged_copy"].cap is not None
        assert closed or all(each.value is not None for each in (ssim, psnr, mse))


@given(low=NUMBERS, high=NUMBERS)
def test_a_better_part_never_lowers_the_reward(configs: dict[float, RewardConfig], low: float, high: float) -> None:
    config = configs[0.0]
    low, high = sorted((low, high))
    worse, better = (mix_reward(config, ssim=x, psnr=20.0, mse=9.0).reward for x in (low, high))
    assert worse is not None
    assert better is not None
    assert worse <= better


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "rewards: is missing"),
        ("[rewards.a.parts]\n'core.none' = {}", "no dimension is called 'core.none'"),
        ("[rewards.a.parts]\n'rubric.light' = {}", "a rubric needs `rubrics`"),
        (f"[rewards.a.parts]\n'{SSIM}' = {{ weight = 0 }}", "greater than 0"),
        (f"[rewards.a.parts]\n'{SSIM}' = {{ range = [1, 5] }}", "1 to 5 does not fit -1 to 1"),
        (f"[rewards.a.parts]\n'{SSIM}' = {{ range = [1, 1] }}", "the worst first"),
        (f"[rewards.a.parts]\n'{SSIM}' = {{ range = [nan, 1] }}", "finite number"),
        (f"[rewards.a.parts]\n'{SSIM}' = {{ wieght = 1 }}", "weight"),
        (FILE.replace("below = 0.5", ""), "give `dimension` with `above` or `below`"),
        (FILE.replace("below = 0.5", "below = 0.5\nabove = 3"), "give `dimension` with"),
        (FILE.replace("below = 0.5", "below = 0.5\ncap = 1"), "caps nothing"),
        (FILE + "\n[rewards.quality]\nscale = [0, 5]", "scale is [0, 1] or [-1, 1]"),
        (FILE + "\n[rewards.quality]\nminimum_parts = 3", "more than the 2 parts"),
        ("without_number = 'zero'\n" + FILE, "without_number"),
        ("deadline = 0\n" + FILE, "greater than 0"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)
    assert "reward.toml" in str(caught.value)


def test_a_signature_follows_what_the_number_depends_on(tmp_path: Path) -> None:
    config = load(tmp_path)
    signatures = {name: Signature.of({"by": name}) for name in config.list_ids()}
    first = sign_reward(config, "quality", signatures)
    pinned = FILE + f'[rewards.quality]\npin = "{first}"\n'
    assert sign_reward(load(tmp_path, pinned), "quality", signatures) == first
    other = load(tmp_path, FILE.replace("weight = 3.0", "weight = 2.0"))
    assert sign_reward(other, "quality", signatures) != first
    signatures[MSE] = Signature.of({"by": "another model"})
    assert sign_reward(config, "quality", signatures) != first


def test_a_summary_says_what_a_trainer_must_see(config: RewardConfig) -> None:
    def value(reward: float | None) -> EditReward:
        one = mix_reward(config, ssim=0.5, psnr=WITHOUT["failed"], mse=9.0)
        changes = {"reward": reward} if reward is None else {"reward": reward, "unscored": None}
        return EditReward(id="x", rewards={"quality": one.model_copy(update=changes)})

    rewards = [0.0, 1.0, 0.25, 0.25, None, 0.5]
    found = summarise(config, "quality", [*map(value, rewards)], [*"aabbbc"])
    assert (found.lowest, found.highest, found.unscored) == (1, 1, {"failed": 1})
    assert (found.groups, found.flat_groups, found.spread) == (2, 1, 0.25)


async def test_siblings_follow_one_another() -> None:
    places: list[int] = []

    async def score(_: int, place: int) -> None:
        places.append(place)

    await score_siblings(["a", "b", "a", "c", "b"], score, 1)
    assert places == [0, 2, 1, 4, 3]


def pixels(step: int) -> np.ndarray:
    return GREY + np.uint8(step)


def test_a_batch_is_scored_in_its_order(config: RewardConfig, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    edits: list[Any] = [
        {"source": GREY, "edited": pixels(5), "instruction": "x", "item_id": "a"},
        {"source": GREY, "edited": broken, "instruction": "x"},
        {"source": GREY, "edited": pixels(20), "instruction": "x"},
        {"source": GREY, "edited": pixels(0), "instruction": "x"},
        {"source": GREY, "edited": pixels(5), "instruction": "y"},
        {"source": GREY, "edited": pixels(6), "instruction": "y"},
    ]
    with Reward(config, Settings()) as reward:
        reply = reward.score(edits)
        assert [each.id for each in reply.results] == ["a", "1", "2", "3", "4", "5"]
        first, second, third, copy, *_ = (each.rewards["quality"] for each in reply.results)
        assert first.reward is not None and third.reward is not None  # noqa: PT018
        assert first.reward > third.reward > 0.0
        assert copy.reward == 0.0
        assert second.unscored is not None
        assert second.unscored.kind == "input"
        assert reply.summary["quality"].groups == 2  # of equal source and instruction
        assert first.signature == reward.describe()[0]["quality"]
        with pytest.raises(RewardError, match="1 has no reward quality: .*broken.png"):
            reply.numbers("quality")
        assert reply.numbers("quality", "skip")[1] is None
        with pytest.raises(ConfigError, match="no reward is called 'beauty'; there is quality"):
            reward.score(edits, ["beauty"])


def test_another_signature_than_the_pin_ends_scoring(tmp_path: Path) -> None:
    config = load(tmp_path, FILE + '[rewards.quality]\npin = "0123456789ab"\n')
    edit: Any = {"source": GREY, "edited": pixels(5), "instruction": "x"}
    with Reward(config, Settings()) as reward:
        with pytest.raises(ConfigError, match="its signature is .*, and the pin is 0123456789ab"):
            reward.score([edit])


def test_what_is_late_has_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(tmp_path, "deadline = 0.05\n" + FILE)
    with Reward(config, Settings()) as reward:

        async def judge(*_: object) -> None:
            await asyncio.sleep(3600)

        monkeypatch.setattr(reward.client, "judge_selection", judge)
        (result,) = reward.score([EDIT]).results
    unscored = result.rewards["quality"].unscored
    assert unscored is not None
    assert (unscored.kind, unscored.retry) == ("deadline", True)


def test_trainers_get_their_shapes(config: RewardConfig) -> None:
    with Reward(config, Settings()) as reward:
        compute_score = make_compute_score(reward, "quality")
        chw = pixels(5).transpose(2, 0, 1)
        score = asyncio.run(compute_score("set", chw, "x", {"source": GREY}))
        assert 0.0 < score["score"] < 1.0
        assert score[SSIM] > 0.9
        with pytest.raises(InputError, match=r"extra_info\['source'\]"):
            asyncio.run(compute_score("set", chw, "x", {}))
        with pytest.raises(RewardError):
            asyncio.run(compute_score("set", b"no picture", "x", {"source": GREY}))

        def make_edit(row: Mapping[str, Any]) -> Any:
            return {"source": GREY, "edited": row["picture"], "instruction": row["prompt"]}

        function = make_reward_function(reward, "quality", make_edit)
        assert function.__name__ == "quality"
        columns = {"picture": [pixels(5), b"no picture"], "trainer_state": object()}
        call = function(prompts=["x", "y"], completions=["", ""], **columns)
        with pytest.raises(RewardError):
            asyncio.run(call)
        skipping = reward.config.model_copy(update={"without_number": "skip"})
        reward.config = skipping
        numbers = asyncio.run(function(prompts=["x", "y"], completions=["", ""], **columns))
        assert numbers == [pytest.approx(score["score"]), None]


def test_the_commands_check_and_preview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load(tmp_path)
    for step in (0, 5):
        save_picture(tmp_path / f"{step}.png", pixels(step))
    row = {"id": "one", "source": "0.png", "edited": "5.png", "instruction": "x"}
    (tmp_path / "edits.jsonl").write_text(json.dumps(row))
    checked = CliRunner().invoke(root, ["reward", "check", "reward.toml"])
    assert checked.exit_code is not None
    assert "quality: signature" in checked.output
    assert f"  {SSIM}: weight 3, 0 is worst, 1 is best" in checked.output
    seen = CliRunner().invoke(root, ["reward", "preview", "reward.toml", "edits.jsonl"])
    assert "one: quality 0." in seen.output
    assert "compared with stored rewards" not in seen.output
    rows = [row | {"id": str(step), "edited": f"{step}.png"} for step in (5, 10, 20)]
    for step in (10, 20):
        save_picture(tmp_path / f"{step}.png", pixels(step))
    for each, number in zip(rows, (0.9, None, 0.1), strict=True):
        each["rewards"] = {"quality": number}
    (tmp_path / "edits.jsonl").write_text("\n".join(map(json.dumps, rows)))
    seen = CliRunner().invoke(root, ["reward", "preview", "reward.toml", "edits.jsonl"])
    assert (
        "quality, compared with stored rewards: edits 2, other_numbers 2, new_numbers 1, lost_numbers 0, mean_change"
        in seen.output
    )
    (tmp_path / "edits.jsonl").write_text("[1]")
    refused = CliRunner().invoke(root, ["reward", "preview", "reward.toml", "edits.jsonl"])
    assert "edits.jsonl:1: this line is not an edit" in str(refused.exception)


def test_what_an_editor_may_please_a_judge_with_is_measured() -> None:
    flat = measure_edit(EDIT)
    assert flat == {
        "length of instruction": 1.0,
        "sharpness": 0.0,
        "saturation": 0.0,
        "brightness": 105.0,
        "change": 5.0,
    }
    stripes = GREY.copy()
    stripes[::2] = (200, 100, 0)
    one = measure_edit(Edit.load(source=GREY[:12], edited=stripes, instruction="xyz"))
    assert one == {"length of instruction": 3.0, "sharpness": 0.0, "saturation": 0.5, "brightness": 100.0}
    stripes[::2] = 200
    assert measure_edit(Edit.load(source=GREY, edited=stripes, instruction="x"))["sharpness"] == 100.0


def test_rewards_are_compared_with_those_that_were_kept() -> None:
    before, now = [0.1, 0.5, 0.9, None, 0.3], [0.1, 0.6, 0.4, 0.2, None]
    found = compare_rewards([*"abcde"], before, now)
    assert (found.edits, found.other_numbers, found.new_numbers, found.lost_numbers) == (3, 2, 1, 1)
    assert found.mean_change == pytest.approx(-0.4 / 3)
    assert found.agreement == pytest.approx(0.5)
    assert list(found.furthest) == ["c", "b"]
    nothing = compare_rewards(["a"], [None], [None])
    assert (nothing.edits, nothing.mean_change, nothing.agreement) == (0, None, None)
    of_constant = compare_facts("quality", [("a", "")] * 3, [{"change": 1.0}] * 3, [0.1, 0.2, 0.3], [*"abc"])
    assert of_constant.rows == ()


def test_a_missing_service_is_told_before_training(tmp_path: Path) -> None:
    text = "[rewards.a.parts]\n'core.instruction_following' = {}"
    with Reward(load(tmp_path, text), Settings()) as reward:
        _, missing = reward.describe()
        (result,) = reward.score([EDIT]).results
    assert missing.keys() == {"generalist.judge"}
    unscored = result.rewards["a"].unscored
    assert unscored is not None
    assert unscored.kind == "not_served"
