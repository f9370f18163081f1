"""vLLM's own gRPC protocol."""

from __future__ import annotations

from .transport import VllmTransport

__all__ = ["VllmTransport"]
