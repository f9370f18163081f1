"""On which terms calls are made for a caller, by what its headers say."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from editjudge.base.contracts import CLASS_HEADER
from editjudge.panel.context import Terms

_URGENT = "interactive"


def terms_in(headers: Mapping[str, str], seconds: float | None = None) -> Terms:
    """Those of class `interactive` go first; who says nothing is not one of them.

    Args:
        headers: As the front door says them; without one they are the caller's own word.
        seconds: For which the caller still waits; None where it does not say.
    """
    end = math.inf if seconds is None else asyncio.get_running_loop().time() + seconds
    return Terms(end, headers.get(CLASS_HEADER) == _URGENT)
