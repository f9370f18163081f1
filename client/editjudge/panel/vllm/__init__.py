"""vLLM's own gRPC protocol."""

from .transport import VllmTransport

__all__ = ["VllmTransport"]
