"""OpenAI-compatible HTTP: vLLM, providers' APIs, gateways."""

from __future__ import annotations

from .transport import OpenAiTransport

__all__ = ["OpenAiTransport"]
