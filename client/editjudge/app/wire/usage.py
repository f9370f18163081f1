"""What teams have used as JSON: `serve usage`."""

from __future__ import annotations

from ...base.strict import Number, Strict


class UsedOnDay(Strict):
    """An entry of `serve usage --json`, and a row of `--csv`.

    Attributes:
        day: In UTC, as ISO 8601 writes it.
        team: Empty where nobody said.
        edits: That were judged.
        refused: Requests that were not: unusable, without room, too late, given up.
        calls: To generalists and specialists, made and answered.
        cached: Answered from the cache instead.
        failed: Calls that failed, after all attempts.
        prompt_tokens: Read by generalists, for calls that were made.
        cached_tokens: Of these, found in the generalist's own cache of prefixes.
        completion_tokens: Written by generalists.
        cost: In the currency of the prices.
    """

    day: str
    team: str
    edits: int
    refused: int
    calls: int
    cached: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: Number
