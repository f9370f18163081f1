"""TRL's own GRPOTrainer trains a tiny model on a CPU with rewards of edits.

The model writes words. What it writes says how strongly a picture is changed, so its rewards differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from editjudge.base.config import Settings
from editjudge.base.item import EditArguments
from editjudge.rewards import Reward, RewardConfig
from editjudge.rewards.callables import make_reward_function
from editjudge.rewards.schema import RewardError

pytestmark = pytest.mark.filterwarnings("default")  # of code that is not ours
WORDS = ("<pad>", "<eos>", "<unk>", "make", "it", "red", "warm", "dark")
GREY = np.full((24, 32, 3), 100, np.uint8)
FILE = """
without_number = "{}"
[rewards.quality.parts]
"core.psnr.source.whole" = {{ range = [10, 50] }}
"""


class RecordedReward:
    """The reward function, and what it answered; the first picture of each call is broken."""

    def __init__(self, reward: Reward) -> None:
        self.numbers: list[list[float | None]] = []
        self._score = make_reward_function(reward, "quality", self._make_edit)
        self._is_first = True

    async def quality(self, **columns: Any) -> list[float | None]:
        self._is_first = True
        self.numbers.append(await self._score(**columns))
        return self.numbers[-1]

    def _make_edit(self, row: Mapping[str, Any]) -> EditArguments:
        strength = 1 + sum(map(WORDS.index, row["completion"].split()))
        edited: Any = b"no picture" if self._is_first else GREY + np.uint8(strength)
        self._is_first = False
        return {"source": np.array(row["source"], np.uint8), "edited": edited, "instruction": row["prompt"]}


def make_trainer(folder: Path, asked: RecordedReward) -> Any:
    datasets, tokenizers = pytest.importorskip("datasets"), pytest.importorskip("tokenizers")
    transformers, trl = pytest.importorskip("transformers"), pytest.importorskip("trl")
    words = {word: place for place, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    own = transformers.LlamaConfig(vocab_size=len(WORDS), pad_token_id=0, eos_token_id=1, **size)
    rules: dict[str, Any] = {"max_completion_length": 4, "max_steps": 2, "logging_steps": 1, "learning_rate": 0.01}
    return trl.GRPOTrainer(
        model=transformers.LlamaForCausalLM(own),
        processing_class=transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special),
        reward_funcs=[asked.quality],
        train_dataset=datasets.Dataset.from_list([{"prompt": "make it red", "source": GREY.tolist()}] * 4),
        args=trl.GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=8,
            num_generations=8,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            **rules,
        ),
    )


@pytest.mark.parametrize("without_number", ["skip", "error"])
def test_an_edit_without_a_number_is_left_out_or_ends_the_step(tmp_path: Path, without_number: str) -> None:
    (tmp_path / "reward.toml").write_text(FILE.format(without_number))
    with Reward(RewardConfig.load(tmp_path / "reward.toml"), Settings()) as reward:
        asked = RecordedReward(reward)
        trainer = make_trainer(tmp_path, asked)
        if without_number == "error":
            with pytest.raises(RewardError, match="has no reward quality: edited: not an image"):
                trainer.train()
            return
        trainer.train()
    steps = [step for step in trainer.state.log_history if "loss" in step]
    assert len(steps) == len(asked.numbers) == 2
    for step, numbers in zip(steps, asked.numbers, strict=True):
        assert numbers[0] is None
        scored = [number for number in numbers if number is not None]
        assert len(scored) == 7
        assert step["rewards/quality/mean"] == pytest.approx(fmean(scored), abs=1e-4)
        assert step["reward_std"] > 0.0
        assert math.isfinite(step["loss"])
        assert math.isfinite(step["grad_norm"])
