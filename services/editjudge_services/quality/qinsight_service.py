"""Q-Insight behind Triton: role `quality`, model `quality_qinsight`, weights on vLLM.

github.com/bytedance/Q-Insight: a multimodal LLM that reasons and then rates 1 to 5.
"""

import re
from typing import ClassVar

from editjudge.base.contracts import QUALITY
from editjudge.base.errors import Abstention
from editjudge.base.images import RGB
from editjudge.base.prompt_releases import prompt_releases

from ..runtime.vllm_specialist import LmmSpecialist, image_part, text_part
from ..zoo.artefact import digest_weights

LOWEST, HIGHEST = 1.0, 5.0
MAX_TOKENS = 1024
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_RATING = re.compile(r'"rating"\s*:\s*"?(-?[\d.]+)"?')


def parse_rating(reply: str) -> float:
    """Parse the rating in a reply.

    Returns:
        1 (worst) to 5 (best).

    Raises:
        Abstention: kind `unparsable`, with the reason.
    """
    answers = _ANSWER.findall(reply)
    if len(answers) != 1:
        raise Abstention("unparsable", f"{len(answers)} answers in the reply, not one")
    ratings = _RATING.findall(answers[0])
    if len(ratings) != 1:
        raise Abstention("unparsable", f"{len(ratings)} ratings in the answer, not one")
    try:
        value = float(ratings[0])
    except ValueError:
        raise Abstention("unparsable", f"the rating {ratings[0]!r} is no number") from None
    if not LOWEST <= value <= HIGHEST:
        raise Abstention("unparsable", f"the rating {value:g} is outside {LOWEST:g}..{HIGHEST:g}")
    return value


class QInsight(LmmSpecialist):
    """SCORE = (rating - 1) / 4, greedy decoding, the image after the question.

    The official demo samples at temperature 1; greedy decoding makes the score repeatable.
    """

    name = "quality_qinsight"
    contract = QUALITY
    prompts = prompt_releases()["qinsight"].texts
    identity: ClassVar = {"implementation": "qinsight.1", "prompts": digest_weights(prompts), "temperature": "0"}
    variable = "QINSIGHT"

    def _score(self, image: RGB) -> float:
        system, question = (self._prompts[name] for name in self.prompts)
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
            raise Abstention("unparsable", f"the reply was cut at {MAX_TOKENS} tokens")
        value = parse_rating(choice.get("message", {}).get("content") or "")
        return (value - LOWEST) / (HIGHEST - LOWEST)
