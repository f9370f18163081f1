"""The generic dimensions."""
