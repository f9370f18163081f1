"""Output contracts: how a judge's reply must look, and the one way it is read.

A contract owns the instruction that ends the prompt, the JSON schema for constrained
decoding and the parser, so that the three cannot drift apart. A reply that breaks it is
`Unparsable`: no clamping, no first digit in the text, no default.
"""

from __future__ import annotations

from .contract import OutputContract
from .questions import (
    ChoiceQuestion,
    MultipleChoiceQuestion,
    QuestionAnswer,
    QuestionAnswers,
    Questions,
)
from .reply import Refusal, Unparsable
from .scores import ScoreField, Scores, ScoresAnswer
from .segmentation import Command, Commands, TargetPhrases, Targets
from .texts import FirstWord, OneText, Option, ShortAnswer, Verbatim

__all__ = [
    "ChoiceQuestion",
    "Command",
    "Commands",
    "FirstWord",
    "MultipleChoiceQuestion",
    "OneText",
    "Option",
    "OutputContract",
    "QuestionAnswer",
    "QuestionAnswers",
    "Questions",
    "Refusal",
    "ScoreField",
    "Scores",
    "ScoresAnswer",
    "ShortAnswer",
    "TargetPhrases",
    "Targets",
    "Unparsable",
    "Verbatim",
]
