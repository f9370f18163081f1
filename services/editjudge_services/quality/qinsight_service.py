"""Q-Insight behind Triton: role `quality`, model `quality_qinsight`, weights on vLLM.

github.com/bytedance/Q-Insight: a multimodal LLM that reasons and then rates 1 to 5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from editjudge.base.contracts import QUALITY
from editjudge.base.errors import Abstained
from editjudge.base.images import RGB
from editjudge.base.official import official_prompts

from ..runtime.specialist import Outputs, Request, Specialist
from ..runtime.vllm_specialist import Backend, VllmModel, image_part, read_prompts, text_part
from ..zoo.artefact import Precision, digest_of

PROMPTS = official_prompts()["qinsight"].texts
LOWEST, HIGHEST = 1.0, 5.0
MAX_TOKENS = 1024
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_RATING = re.compile(r'"rating"\s*:\s*"?(-?[\d.]+)"?')


def rating(reply: str) -> float:
    """The rating in a reply.

    Returns:
        1 (worst) to 5 (best).

    Raises:
        Abstained: `unparsable`, with the reason; never a guess.
    """
    answers = _ANSWER.findall(reply)
    if len(answers) != 1:
        raise Abstained("unparsable", f"{len(answers)} answers in the reply, not one")
    ratings = _RATING.findall(answers[0])
    if len(ratings) != 1:
        raise Abstained("unparsable", f"{len(ratings)} ratings in the answer, not one")
    try:
        value = float(ratings[0])
    except ValueError:
        raise Abstained("unparsable", f"the rating {ratings[0]!r} is no number") from None
    if not LOWEST <= value <= HIGHEST:
        raise Abstained("unparsable", f"the rating {value:g} is outside {LOWEST:g}..{HIGHEST:g}")
    return value


class QInsight(Specialist):
    """SCORE = (rating - 1) / 4, greedy decoding, the image after the question.

    The official demo samples at temperature 1; greedy decoding makes the score repeatable.
    """

    name = "quality_qinsight"
    contract = QUALITY
    identity: ClassVar = {
        "implementation": "qinsight.1",
        "prompts": digest_of(PROMPTS),
        "temperature": "0",
    }
    max_batch = 16

    @classmethod
    def installed(cls, precision: Precision) -> Mapping[str, str] | None:
        """Served where `EDITJUDGE_QINSIGHT_URL` names a vLLM."""
        backend = Backend.of("QINSIGHT")
        return {"weights": backend.model} if backend.url else None

    def load(self, declared: Mapping[str, str]) -> None:
        """Read the prompts and find the model at the vLLM."""
        backend = Backend.of("QINSIGHT")
        self._prompts = read_prompts(backend.prompts, PROMPTS)
        self._model = VllmModel(backend)

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstained]:
        """Ask for every image, side by side; vLLM batches them."""
        return self._model.map(self._score, [one.tensors["IMAGE"] for one in batch])

    def _score(self, image: RGB) -> Outputs:
        system, question = (self._prompts[name] for name in PROMPTS)
        choice = self._model.chat(
            [
                {"role": "system", "content": system},
                {"role": "user", "content": [text_part(question), image_part(image)]},
            ],
            temperature=0,
            max_tokens=MAX_TOKENS,
            seed=0,
        )
        if choice.get("finish_reason") == "length":
            raise Abstained("unparsable", f"the reply was cut at {MAX_TOKENS} tokens")
        value = rating(choice.get("message", {}).get("content") or "")
        score = (value - LOWEST) / (HIGHEST - LOWEST)
        return {"SCORE": np.array([score], dtype=np.float32)}
