"""How the official scripts of KRIS-Bench read replies.

The release has one script for each group of tasks and none that summarises. Its authors point to
the one of BAGEL (`eval/gen/kris/summarize.py`), whose own scripts for judging differ from theirs
again: they give the judge the instruction.
"""

from ...answers.first_digit import FirstDigit
from .taxonomy import KNOWLEDGE_TASKS, MULTI_ELEMENT, TEMPORAL_TASKS

SEVERAL = (*TEMPORAL_TASKS, MULTI_ELEMENT)
"""Tasks with several sources, which two scripts of their own judge."""


def readers(metric: str) -> tuple[tuple[str, FirstDigit], ...]:
    """What reads the replies about one metric, by task: every script has its own.

    Where knowledge is judged, a reply about the instruction has its score too.
    """
    key, joint = f"{metric}_score", metric == "instruction"
    keys = (key, "knowledge_score") if joint else (key,)
    knowing = FirstDigit(keys, colon="required", anywhere=not joint, null_ends=True)
    return (
        ("", FirstDigit((key,), colon="optional")),
        *((task, knowing) for task in KNOWLEDGE_TASKS),
        *((task, FirstDigit((key,))) for task in SEVERAL),
    )
