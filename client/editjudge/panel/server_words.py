"""What libraries and front doors say of a failed call, in plain words."""

import re
from collections.abc import Mapping

from ..base.parse import package_tables

_MEANINGS: Mapping[str, str] = package_tables(__package__, "server_words.toml")["meanings"]


def explain_failure(detail: str) -> str:
    """Explain what a library or a front door says; what is not known stays as it is."""
    for pattern, words in _MEANINGS.items():
        if match := re.search(pattern, detail, re.IGNORECASE):
            return match.expand(words)
    return detail
