"""What tests ask of answers that are no number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from editjudge.base.errors import Abstention
from editjudge.base.verdict import NoScore


@contextmanager
def abstains(kind: str, reason: str = "") -> Iterator[pytest.ExceptionInfo[Abstention]]:
    """`pytest.raises` for an abstention of this kind whose reason matches."""
    with pytest.raises(Abstention, match=reason or None) as caught:
        yield caught
    assert caught.value.kind == kind, caught.value.reason


def why_not(verdict: Any, kind: str) -> str:
    """The reason of a verdict that has no score, which is of this kind."""
    assert isinstance(verdict, NoScore), verdict
    assert verdict.kind == kind, verdict.reason
    return verdict.reason
