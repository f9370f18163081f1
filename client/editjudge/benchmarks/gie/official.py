"""How the released script asks the judge (github.com/apple/ml-gie-bench): the authors' words.

Both images stand before the question, each after its label; the options are joined in the text.
"""

from __future__ import annotations

from ...answers import Verbatim
from ...prompts.originals import Labels, OriginalPrompt

ORIGINALS = "gie"


def _original(name: str, images: tuple[str, ...]) -> OriginalPrompt:
    return OriginalPrompt(
        f"gie/{name}",
        ORIGINALS,
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
"""The authors' prompts by the names of ours."""
