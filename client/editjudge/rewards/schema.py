"""The reply of the reward schema (docs/reward_schema.md), in process and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field

from ..base.errors import EditjudgeError
from ..base.strict import Strict

NoRewardKind: TypeAlias = Literal[
    "abstained",
    "unparsable",
    "refused",
    "degenerate",
    "failed",
    "not_applicable",
    "not_served",
    "missing_output",
    "input",
    "deadline",
]


class RewardError(EditjudgeError):
    """An edit of a batch has no reward, and `without_number` is `error`."""


class _SchemaModel(Strict):
    model_config = ConfigDict(use_attribute_docstrings=True)


class PartValue(_SchemaModel):
    """One dimension of a reward, or the dimension of a gate (`gate.NAME`)."""

    value: float | None = None
    """The value on the dimension's own scale; null where there is none."""
    range: tuple[float, float] | None = None
    """The values at the worst and the best end of the reward's scale; null for a gate."""
    weight: float = 0.0
    """The share of the mix, relative to the other parts; 0 for a gate."""
    cap: float | None = None
    """Of a closed gate: the highest reward that it lets through."""
    reason: str | None = None
    """Why there is no value."""


class NoReward(_SchemaModel):
    """Why an edit has no reward."""

    kind: NoRewardKind
    """What went wrong. `failed` and `deadline` say nothing about the edit."""
    reason: str
    """One line for people."""
    retry: bool = False
    """Whether the same request may succeed later."""


class RewardValue(_SchemaModel):
    """One reward of an edit."""

    reward: float | None = None
    """The number; null where there is none."""
    parts: dict[str, PartValue] = Field(default_factory=dict)
    """What it was made of, by dimension; a gate is `gate.NAME`."""
    unscored: NoReward | None = None
    """Why there is no number; null where there is one."""
    imputed: bool = False
    """Whether the number is the constant of `without_number`, with `unscored` beside it."""
    signature: str = ""
    """All that the number depends on, in 12 hex digits."""


class EditReward(_SchemaModel):
    """The rewards of one edit."""

    id: str
    """The id of the edit in the request."""
    rewards: dict[str, RewardValue]
    """By name of the reward."""


class Summary(_SchemaModel):
    """One reward over a batch: what a trainer should look at."""

    edits: int
    """How many edits there are."""
    unscored: dict[NoRewardKind, int]
    """How many have no number, by kind."""
    imputed: int
    """How many of these got the constant instead."""
    lowest: int
    """How many have the lowest reward of the scale."""
    highest: int
    """How many have the highest reward of the scale."""
    gates: dict[str, int]
    """How many stand at each closed gate."""
    groups: int
    """How many sources have at least two rewards."""
    flat_groups: int
    """How many of these have no spread: they teach nothing."""
    spread: float | None
    """The mean standard deviation of the reward within a group; null without groups."""
    agreement: dict[str, float]
    """Rank correlation of two parts, -1 to 1, by `part~part`; absent where one is constant."""


class RewardReply(_SchemaModel):
    """The reply to a batch."""

    results: tuple[EditReward, ...]
    """In the order of the edits."""
    summary: dict[str, Summary]
    """By name of the reward."""
    seconds: float
    """How long the batch took."""

    def numbers(self, name: str, without_number: object = "error") -> list[float | None]:
        """Return one reward of every edit.

        Args:
            without_number: `error` raises for an edit without a number; else it has None.

        Raises:
            RewardError: naming the first edit without a number, and the reason.
        """
        values: Mapping[str, RewardValue] = {}
        for result in self.results if without_number == "error" else ():
            values = result.rewards
            if (why := values[name].unscored) and values[name].reward is None:
                raise RewardError(f"{result.id} has no reward {name}: {why.reason}")
        return [result.rewards[name].reward for result in self.results]
