"""A choice at the start of a reply, as models write it."""

from __future__ import annotations

import pytest

from editjudge.answers.reply import Unparsable
from editjudge.answers.texts import FirstWord

YES_NO = FirstWord(("Yes", "No"))
LEVELS = FirstWord(("excellent", "good", "fair", "poor", "bad"))


@pytest.mark.parametrize(
    "reply", ["Yes", "yes", " Yes", "YES.", '"Yes"', "**Yes**", "Yes, the vase is gone.", "Yes\nIt"]
)
def test_spellings_of_yes(reply: str) -> None:
    assert YES_NO.parse(reply) == "Yes"


def test_a_level_at_the_start() -> None:
    assert LEVELS.parse("Excellent") == LEVELS.parse(" excellent: no seam") == "excellent"
    assert LEVELS.parse("<think>bad?</think>\nGood") == "good"


@pytest.mark.parametrize("reply", ["Not at all", "Nothing", "Maybe", "I say yes", "Yesterday"])
def test_what_begins_with_no_choice(reply: str) -> None:
    with pytest.raises(Unparsable, match="none of the options"):
        YES_NO.parse(reply)


def test_a_word_that_was_cut_is_none() -> None:
    with pytest.raises(Unparsable, match="cut at the token limit"):
        YES_NO.parse("No", cut=True)
    assert YES_NO.parse("No, the", cut=True) == "No"
