"""What a model thought before it answered, by the tags that models write around it.

Servers take drafts off where they know the model; where they do not, a draft comes in the reply. No
answer is taken out of one.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Draft(NamedTuple):
    """How some models mark a draft, as regular expressions that do not tell case apart.

    Attributes:
        models: Who writes it so.
        opens: The tag before it.
        closes: The tag after it.
    """

    models: str
    opens: str
    closes: str


_NAMES = r"(?:\w{1,16}:)?(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)"
DRAFTS = (
    Draft(
        "Qwen, DeepSeek, GLM, InternVL, MiniMax, Seed-OSS, Claude and most others",
        rf"<{_NAMES}>",
        rf"</{_NAMES}>",
    ),
    Draft("chat templates with tokens for it", rf"<\|{_NAMES}\|>", rf"<\|/{_NAMES}\|>"),
    Draft("Mistral, Magistral", r"\[think\]", r"\[/think\]"),
    Draft("Kimi", "◁think▷", "◁/think▷"),
    Draft("OpenThinker, Sky-T1", r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    Draft("Cohere", r"<\|start_thinking\|>", r"<\|end_thinking\|>"),
    Draft("Apertus", r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    Draft("Gemma", r"<\|channel>\s*thought", r"<channel\|>"),
    Draft("Pangu", r"\[unused16\]", r"\[unused17\]"),
    Draft(
        "gpt-oss",
        r"<\|channel\|>\s*(?:analysis|commentary)",
        r"<\|channel\|>\s*final(?:\s*<\|constrain\|>\s*\w+)?(?:\s*<\|message\|>)?",
    ),
    # What is left of these where a server drops control tokens and keeps their texts.
    Draft(
        "gpt-oss without its tokens",
        r"(?:\A|(?<=assistantfinal))analysis(?=(?-i:[A-Z]))",
        r"(?-i:assistantfinal)",
    ),
)
"""A row for each sort of tag; any closing tag ends any draft."""

OPENS = re.compile("|".join(draft.opens for draft in DRAFTS), re.IGNORECASE)
CLOSES = re.compile("|".join(draft.closes for draft in DRAFTS), re.IGNORECASE)
# What may stand before the first tag of a reply: blanks, and how a turn of gpt-oss begins.
BEFORE = re.compile(r"\s*(?:<\|start\|>\s*assistant\s*)?", re.IGNORECASE)
