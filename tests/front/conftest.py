"""The real Triton behind the front door."""

from ..integration.conftest import panel, triton

__all__ = ["panel", "triton"]
