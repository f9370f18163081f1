from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.panel.choices import check_choices, check_logprobs, list_labels, make_distribution, select_label_tokens

LEVELS = ("excellent", "good", "fair", "poor", "bad")


def test_a_label_is_a_prefix_of_exactly_one_choice() -> None:
    found = list_labels(("better", "bad", "good"))
    lower = {text: choice for text, choice in found.items() if text.islower() and text[0] != " "}
    assert lower == {
        **dict.fromkeys(("be", "bet", "bett", "bette", "better"), "better"),
        **dict.fromkeys(("ba", "bad"), "bad"),
        **dict.fromkeys(("g", "go", "goo", "good"), "good"),
    }
    assert {"b", "B", " b"}.isdisjoint(found)


@pytest.mark.parametrize("choices", [("Yes", "No"), ("yes", "no"), LEVELS])
def test_spellings_of_a_choice_are_that_choice(choices: tuple[str, ...]) -> None:
    found = list_labels(choices)
    for choice in choices:
        for spelt in (choice, choice.lower(), choice.capitalize(), choice.upper()):
            assert found[spelt] == found[f" {spelt}"] == choice
    assert list(found)[: len(choices[0])] == [choices[0][: i + 1] for i in range(len(choices[0]))]


def test_as_many_spellings_as_leave_room_for_what_is_no_label() -> None:
    texts = list(list_labels(LEVELS))
    # Lower, capitalised and upper, with and without a space; no first letter is shared.
    assert len(texts) == 2 * (3 * sum(map(len, LEVELS)) - len(LEVELS))
    tokens: dict[str, int | None] = {text: i for i, text in enumerate(texts)}
    found = select_label_tokens(LEVELS, tokens)
    assert len(found) == 64 < len(texts)
    assert set(found.values()) == set(LEVELS)
    assert found == {i: list_labels(LEVELS)[text] for i, text in enumerate(texts[:64])}
    many = tuple(f"{i:03}" for i in range(100))
    tokens = dict.fromkeys(list_labels(many)) | {text: int(text) for text in many}
    assert len(select_label_tokens(many, tokens)) == 100, "the choices' own are never left out"


def test_a_token_of_two_choices_speaks_for_neither() -> None:
    tokens = dict.fromkeys(list_labels(("Yes", "No"))) | {"Yes": 1, "No": 2, "YES": 3, "NO": 3}
    assert select_label_tokens(("Yes", "No"), tokens) == {1: "Yes", 2: "No"}


@pytest.mark.parametrize(
    "choices", ["", ["Yes"], "AA", ["Yes", ""], ["A", "AB"], ["good", "good enough"], "yY"], ids=str
)
def test_choices_that_no_token_tells_apart(choices: Sequence[str]) -> None:
    with pytest.raises(ValueError, match="choice"):
        check_choices(tuple(choices))


_LOGITS = st.lists(st.floats(-40, 40), min_size=6, max_size=12)


@given(_LOGITS)
def test_equals_the_softmax_over_the_label_set(logits: list[float]) -> None:
    """Tokens 0 and 1 speak for Yes, 2 for No, the others for nothing."""
    z = np.array(logits)
    logprobs = z - (z.max() + np.log(np.exp(z - z.max()).sum()))
    found = make_distribution(
        ("Yes", "No"), [("Yes", logprobs[0]), ("Yes", logprobs[1]), ("No", logprobs[2])], "logprobs"
    )
    p = np.exp(z[:3] - z[:3].max())
    assert found.probabilities["Yes"] == pytest.approx((p[0] + p[1]) / p.sum(), abs=1e-12)
    assert math.fsum(found.probabilities.values()) == pytest.approx(1, abs=1e-12)
    assert found.outside == pytest.approx(1 - np.exp(logprobs[:3]).sum(), abs=1e-9)


def test_tiny_probabilities_keep_their_ratio() -> None:
    found = make_distribution(("Yes", "No"), [("Yes", -800.0), ("No", -801.0)], "logprobs")
    assert found.probabilities["Yes"] == pytest.approx(1 / (1 + math.exp(-1)))
    assert found.outside == 1


def test_a_choice_without_a_token_has_no_probability() -> None:
    found = make_distribution(("Yes", "No"), [("Yes", -0.1)], "top_logprobs", outside=0.25)
    assert found.probabilities == {"Yes": 1.0, "No": 0.0}
    assert found.outside == 0.25


@pytest.mark.parametrize("given", [[], [("Yes", -math.inf)]])
def test_what_is_no_distribution(given: list[tuple[str, float]]) -> None:
    with pytest.raises(ValueError, match="probability"):
        make_distribution(("Yes", "No"), given, "logprobs")


@pytest.mark.parametrize("given", [[math.nan], [0.5, -1.0], [math.log(0.6), math.log(0.5)]], ids=str)
def test_what_is_no_log_probability(given: list[float]) -> None:
    with pytest.raises(ValueError, match="no log-probability|sum to 1.1"):
        check_logprobs(given)


def test_expectation() -> None:
    weights = dict(zip(LEVELS, (1, 0.75, 0.5, 0.25, 0), strict=True))
    found = make_distribution(LEVELS, [(c, math.log(0.2)) for c in LEVELS], "logprobs")
    assert found.expectation(weights) == pytest.approx(0.5)
