"""The public API: runs as they are asked for, and as they are read."""
