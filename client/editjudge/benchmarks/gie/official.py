"""How the official script asks the judge (github.com/apple/ml-gie-bench), in the official words.

Both images stand before the question, each after its label; the options are joined in the text.
"""

from __future__ import annotations

from ...answers import Verbatim
from ...prompts import Labels
from ...prompts.official import OfficialPrompt

OFFICIAL_PROMPTS = "gie"


def _original(name: str, images: tuple[str, ...]) -> OfficialPrompt:
    return OfficialPrompt(
        f"gie/{name}",
        OFFICIAL_PROMPTS,
        "user_prompt.txt",
        "Does the edited image show what the instruction asked for, by a multiple-choice question?",
        "GIE-Bench, section 3.5 (Functional Correctness), as released",
        images,
        Labels(source="Original image:", edited="Edited image:"),
        Verbatim(),
        (("question", "question"), ("', '.join(options)", "options")),
        system="system_prompt.txt",
        images_first=True,
    )


PROMPTS = (
    _original("user_prompt", ("edited",)),
    _original("user_prompt_with_source", ("sources", "edited")),
)

THEIRS = {
    "gie/choice": "gie/user_prompt",
    "gie/choice_with_source": "gie/user_prompt_with_source",
}
"""The official prompts by the names of ours."""
