"""ArtiMuse behind Triton: role `aesthetics`, model `aesthetics_artimuse`, weights on vLLM.

github.com/thunderbolt215/ArtiMuse: the score is an expectation over 101 level tokens at the
first position of the reply, so one forward pass and no generation.
"""

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from PIL import Image as Pil

from editjudge.base.contracts import AESTHETICS
from editjudge.base.errors import Abstention
from editjudge.base.images import RGB
from editjudge.base.prompt_releases import prompt_releases

from ..runtime.vllm_specialist import LmmSpecialist, image_part, text_part
from ..zoo.artefact import digest_weights

# Levels 0..100 are written as two letters: aa..az, ca..cy, da..dy, ea..ey.
LEVELS = tuple(
    first + second
    for first, count in (("a", 26), ("c", 25), ("d", 25), ("e", 25))
    for second in string.ascii_lowercase[:count]
)


def mean_level(logprobs: Mapping[int, float], ids: Sequence[int]) -> float:
    """Compute the mean level under the distribution over the level tokens.

    Args:
        logprobs: Log-probability by token id, of every level token at least.
        ids: Token id of each level, 0 first.

    Returns:
        0 (worst) to 1 (best); in double precision, since half precision would quantise it.

    Raises:
        Abstention: `unparsable`, when a level has no log-probability.
    """
    missing = [level for level, one in enumerate(ids) if not math.isfinite(logprobs.get(one, math.nan))]
    if missing:
        raise Abstention("unparsable", f"{len(missing)} of {len(ids)} levels have no probability")
    values = np.array([logprobs[one] for one in ids], dtype=np.float64)
    weights = np.exp(values - values.max())
    levels = np.arange(len(ids)) / (len(ids) - 1)
    return float(weights @ levels / weights.sum())


class ArtiMuse(LmmSpecialist):
    """SCORE = expected level / 100.

    The network sees one tile: the picture squashed to a square, as the authors' code does it.
    """

    name = "aesthetics_artimuse"
    contract = AESTHETICS
    prompts = prompt_releases()["artimuse"].texts
    identity: ClassVar = {"implementation": "artimuse.2", "prompts": digest_weights(prompts)}
    variable = "ARTIMUSE"
    side: ClassVar[int] = 448

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load as the base class does, and look up the level tokens in the served tokenizer.

        Raises:
            RuntimeError: the tokenizer does not write each level as a token of its own.
        """
        super().load(parameters)
        self._ids = [self._model.token_id(level) for level in LEVELS]
        if len(set(self._ids)) != len(LEVELS):
            raise RuntimeError("two levels share a token: not the tokenizer of ArtiMuse")

    def _score(self, image: RGB) -> float:
        (question,) = self._prompts.values()
        square = Pil.fromarray(image).resize((self.side, self.side), Pil.Resampling.BICUBIC)
        choice = self._model.chat(
            [{"role": "user", "content": [image_part(np.asarray(square)), text_part(question)]}],
            max_tokens=1,
            logprobs=True,
            logprob_token_ids=self._ids,
            return_tokens_as_token_ids=True,
        )
        return mean_level(parse_first_logprobs(choice), self._ids)


def parse_first_logprobs(choice: Mapping[str, Any]) -> dict[int, float]:
    """Parse the log-probabilities by token id at the first position of a reply.

    Raises:
        Abstention: `unparsable`, when the reply carries none.
    """
    try:
        entries = choice["logprobs"]["content"][0]["top_logprobs"]
        return {int(one["token"].removeprefix("token_id:")): one["logprob"] for one in entries}
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Abstention("unparsable", f"no log-probabilities in the reply: {error}") from error
