"""KRIS-Bench: editing that needs knowledge, in 22 tasks of three types of knowledge."""
