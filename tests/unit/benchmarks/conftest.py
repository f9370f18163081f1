from __future__ import annotations

import pytest

from editjudge.base.prompt_releases import PromptRelease

from .gie.stand_ins import TEXTS as GIE
from .kris.stand_ins import TEXTS as KRIS


@pytest.fixture
def official_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up texts are the official prompts of every benchmark, as if they were imported."""
    texts = {"gie": GIE, "kris": KRIS}
    monkeypatch.setattr(PromptRelease, "text", lambda self, name: texts[self.name][name])
