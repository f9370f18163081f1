"""Output contracts: how a judge's reply must look, and the one way it is read.

A contract owns the instruction that ends the prompt, the JSON schema for constrained
decoding and the parser, so that the three cannot drift apart. A reply that breaks it is
`Unparsable`: no clamping, no first digit in the text, no default.
"""

from __future__ import annotations

from .contract import OutputContract, Unparsable
from .options import Option, YesNoAnswer
from .questions import QuestionAnswer, QuestionAnswers, Questions
from .scores import ScoreField, Scores, ScoresAnswer

__all__ = [
    "Option",
    "OutputContract",
    "QuestionAnswer",
    "QuestionAnswers",
    "Questions",
    "ScoreField",
    "Scores",
    "ScoresAnswer",
    "Unparsable",
    "YesNoAnswer",
]
