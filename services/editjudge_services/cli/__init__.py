"""The commands that need the services; `editjudge` finds them by an entry point.

This module is read for every `--help`, so it imports nothing.
"""

from __future__ import annotations

COMMANDS = {
    "down": (f"{__name__}.down", "End the local stack."),
    "front": (f"{__name__}.front", "Tokens, keys and Envoy's file of the front door."),
    "models": (f"{__name__}.models", "Pull, export and verify model weights."),
    "serve": (f"{__name__}.serve", "Judge for callers of other languages, over gRPC."),
    "up": (f"{__name__}.up", "Start the local stack in the background."),
}
"""The module whose `command` does it and the line for `--help`, by verb."""
