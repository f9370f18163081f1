"""What all wire models are, and their text."""

from __future__ import annotations

from ...base.strict import Number, Strict, text_of
from ...base.verdict import Status

Wire = Strict
__all__ = ["Number", "Status", "Wire", "text_of"]
