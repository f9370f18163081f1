"""The commands that need the services' package; `editjudge` finds them by an entry point.

Every `--help` imports this module, so it imports nothing heavy.
"""

from pathlib import Path

COMMANDS = Path(__file__).with_name("commands.toml")
