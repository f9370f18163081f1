"""A text that a judge writes."""

from __future__ import annotations

import pytest

from editjudge.answers.reply import Unparsable
from editjudge.answers.texts import OneText

CONTRACT = OneText("instruction", 20)


def test_a_text_is_read_in_single_spaces() -> None:
    assert CONTRACT.parse('{"instruction": " Make \\n it red. "}') == "Make it red."


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ('{"instruction": " . "}', "must hold words, not"),
        ('{"instruction": 3}', "must hold words, not"),
        ('{"instruction": "Make it red, and then blue."}', "27 characters, more than 20"),
        ('{"text": "Make it red."}', "instruction"),
        ("Make it red.", "JSON"),
    ],
)
def test_what_is_no_text(reply: str, why: str) -> None:
    with pytest.raises(Unparsable, match=why):
        CONTRACT.parse(reply)
