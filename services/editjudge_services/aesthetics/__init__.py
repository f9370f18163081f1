"""Aesthetics specialists."""
