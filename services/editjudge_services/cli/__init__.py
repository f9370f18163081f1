"""The commands that need the services; `editjudge` finds them by an entry point.

This module is read for every `--help`, so it imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path

COMMANDS = Path(__file__).with_name("commands.toml")
