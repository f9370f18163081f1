"""OpenAI-compatible HTTP: vLLM, providers' APIs, gateways."""

from .transport import OpenAiTransport

__all__ = ["OpenAiTransport"]
