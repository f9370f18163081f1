"""Text in images."""
