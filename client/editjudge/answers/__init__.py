"""Output contracts: how a judge's reply must look, and the one way it is read.

A contract owns the instruction that ends the prompt, the JSON schema for constrained
decoding and the parser, so that the three cannot drift apart. A reply that breaks it is
`Unparsable`: no clamping, no first digit in the text, no default.
"""

from __future__ import annotations

from .contract import OutputContract, Unparsable
from .multiple_choice import ChoiceQuestion, MultipleChoiceQuestion
from .one_text import OneText
from .options import Option
from .questions import QuestionAnswer, QuestionAnswers, Questions
from .scores import ScoreField, Scores, ScoresAnswer
from .segmentation import Command, Commands
from .targets import TargetPhrases, Targets
from .verbatim import Verbatim

__all__ = [
    "ChoiceQuestion",
    "Command",
    "Commands",
    "MultipleChoiceQuestion",
    "OneText",
    "Option",
    "OutputContract",
    "QuestionAnswer",
    "QuestionAnswers",
    "Questions",
    "ScoreField",
    "Scores",
    "ScoresAnswer",
    "TargetPhrases",
    "Targets",
    "Unparsable",
    "Verbatim",
]
