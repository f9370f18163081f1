"""Probabilities of choices: which tokens stand for which choice, and how they are summed.

A tokenizer may write a choice in several tokens (Qwen: ex+cellent, po+or), so one token per choice
cannot be assumed. The label set is every token whose text is a non-empty prefix of exactly one
choice, in any of its usual spellings: `yes`, `Yes`, ` Yes` and `YES` are one choice. The
probability of a choice is the sum over its tokens of the first token's probability, normalised over
the label set.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, Literal, TypeAlias

Method: TypeAlias = Literal["logprobs", "top_logprobs", "sampled", "bound"]
IN_WORDS: Final = ("sampled", "bound")
"""The methods without probabilities."""
LABELS = 2
"""Raised whenever other texts stand for a choice as a first token; what is judged by choices names
it."""
LABEL_TOKENS = 64
_ROUNDING = 1e-3
"""By how much a logarithm that should not be above 0 may be."""


@dataclass(frozen=True, slots=True)
class ChoiceDistribution:
    """How an answer is distributed over the choices.

    Attributes:
        probabilities: By choice, in the order of the choices; they sum to 1.
        outside: Probability that fell on no choice; None where replies are sampled.
        method: `logprobs` of the whole label set, `top_logprobs` of the tokens that the server
            lists, or the share of `sampled` replies, of `bound` ones where the server holds them to
            the choices.
        samples: How many replies it rests on; 1 where they are not sampled.
    """

    probabilities: Mapping[str, float]
    outside: float | None
    method: Method
    samples: int = 1

    def expectation(self, weights: Mapping[str, float]) -> float:
        """The mean weight of the choices.

        Args:
            weights: Weight of each choice.
        """
        return math.fsum(weights[name] * p for name, p in self.probabilities.items())


@lru_cache(256)
def check_choices(choices: tuple[str, ...]) -> tuple[str, ...]:
    """The choices; refused where no first token could tell them apart.

    Raises:
        ValueError: fewer than two, an empty one, one twice, or one that begins another; case does
            not tell choices apart.
    """
    texts = tuple(choices)
    if len(texts) < 2 or not all(choice.strip() for choice in texts):
        raise ValueError(f"give at least two different choices, none empty: {texts}")
    for place, choice in enumerate(texts):
        others = texts[:place] + texts[place + 1 :]
        if any(_begins(other, choice) for other in others):
            raise ValueError(f"choice {choice!r} is the beginning of another")
    return texts


@lru_cache(256)
def list_labels(choices: tuple[str, ...]) -> Mapping[str, str]:
    """The texts that stand for a choice, each with its choice.

    They are the beginnings of a choice that begin no other choice, as spelt, in lower case,
    capitalised and in capitals, with and without a space before it: a tokenizer has separate tokens
    for these, and a judge means the same. The likeliest spellings stand first.
    """
    choice_by_prefix = {
        choice[:end]: choice
        for choice in choices
        for end in range(1, len(choice) + 1)
        if sum(_begins(other, choice[:end]) for other in choices) == 1
    }
    spellings = (str, str.lower, str.capitalize, str.upper)
    return {
        f"{space}{spelt(text)}": choice
        for spelt in spellings
        for space in ("", " ")
        for text, choice in choice_by_prefix.items()
    }


def select_label_tokens(choices: tuple[str, ...], tokens: Mapping[str, int | None]) -> dict[int, str]:
    """The tokens that stand for one choice each, with this choice.

    They are the tokens of the choices as spelt, and as many of other spellings as make 64 in all:
    over gRPC a server lists 128 tokens, and tokens that are no labels have to be among them. What
    is left out counts as outside.

    Args:
        choices: The choices.
        tokens: By text of `list_labels`, the one token that is this text; None where there is none.
    """
    texts = list_labels(choices)
    choice_of: dict[int, str] = {}
    shared_tokens = set()
    for text, choice in texts.items():
        token = tokens[text]
        # A tokenizer that folds case or maps the unknown to one token gives the same id to
        # beginnings of different choices: it speaks for neither.
        if token is not None and choice_of.setdefault(token, choice) != choice:
            shared_tokens.add(token)
    alone = {token: choice for token, choice in choice_of.items() if token not in shared_tokens}
    own = {tokens[text] for text, choice in texts.items() if choice.startswith(text)}
    return dict(islice(alone.items(), max(LABEL_TOKENS, len(own & alone.keys()))))


def _begins(text: str, beginning: str) -> bool:
    return text.casefold().startswith(beginning.casefold())


def check_logprobs(values: Collection[float]) -> None:
    """Refuse what cannot be the log-probabilities of different first tokens.

    Args:
        values: Natural logarithms.

    Raises:
        ValueError: a value is NaN or above 0, or the probabilities sum to more than 1.
    """
    for value in values:
        if math.isnan(value) or value > _ROUNDING:
            raise ValueError(f"{value:.6g} is no log-probability")
    if (total := math.fsum(map(math.exp, values))) > 1.01:
        raise ValueError(f"the probabilities of the first token sum to {total:.3f}")


def make_distribution(
    choices: tuple[str, ...], logprobs: Iterable[tuple[str, float]], method: Method, outside: float | None = None
) -> ChoiceDistribution:
    """Sum and normalise the log-probabilities of first tokens.

    Args:
        choices: The choices, in the order of the result.
        logprobs: Natural logarithms, see `check_logprobs`, each with the choice that its token stands for.
        method: How the log-probabilities were found.
        outside: Probability of all other tokens, where it is known by other means; by default what
            these leave of 1.

    Raises:
        ValueError: no choice has any probability.
    """
    terms: dict[str, list[float]] = {choice: [] for choice in choices}
    for choice, value in logprobs:
        terms[choice].append(value)
    everything = [value for values in terms.values() for value in values]
    top = max(everything, default=-math.inf)
    if top == -math.inf:
        raise ValueError("no choice has any probability")
    # Relative to the largest, so that a label set of tiny probabilities is still exact.
    sums = {c: math.fsum(math.exp(v - top) for v in values) for c, values in terms.items()}
    total = math.fsum(sums.values())
    if outside is None:
        outside = min(1.0, max(0.0, 1.0 - total * math.exp(top)))
    return ChoiceDistribution({c: s / total for c, s in sums.items()}, outside, method)
