"""From the outcomes of an edit to its rewards, and from a batch of them to a summary.

Nothing here calls a service. Without a number there is a reason, never a number by default.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import combinations
from statistics import mean, pstdev

import numpy as np

from ..base.errors import ConfigError
from ..base.item import Edit
from ..base.signature import Signature
from ..base.text import group_by_key
from ..base.verdict import Failure, NoScore, Outcome
from ..engine.judge import Judgement
from ..stats.agreement import NotDefined, spearman
from .config import Gate, RewardConfig
from .schema import EditReward, NoReward, PartValue, RewardValue, Summary

_FORMULA = 1
"""Raised where the same outcomes give another reward than before."""


def reward_edit(config: RewardConfig, names: Iterable[str], judgement: Judgement) -> dict[str, RewardValue]:
    """Compute the rewards of one edit.

    Args:
        names: The names of the rewards.
        judgement: Has the outcomes of all parts and gates.

    Raises:
        ConfigError: a reward has a number that another signature than its `pin` made.
    """
    rewards = {}
    for name in names:
        value = mix(config, name, judgement.edit, judgement.outcomes)
        signature = sign_reward(config, name, judgement.signatures)
        pin = config.rewards[name].pin
        if pin not in {"", signature} and value.reward is not None:
            raise ConfigError(
                f"rewards.{name}: the judge, a service or this file has changed: its signature is"
                f" {signature}, and the pin is {pin}",
                "go back to what was pinned, or pin what `editjudge reward check` prints",
            )
        took, ids = judgement.seconds, config.list_ids(name)
        seconds = {one: sum(took.get(scorer, 0.0) for scorer in config.scorers[one]) for one in ids if took}
        rewards[name] = impute(config, value.model_copy(update={"signature": signature, "seconds": seconds}))
    return rewards


def sign_reward(config: RewardConfig, name: str, signatures: Mapping[str, Signature]) -> str:
    """Return the signature of a reward: 12 hex digits of all that its numbers depend on."""
    table = config.rewards[name].model_dump_json(exclude={"pin"})
    return _sign_table(table, tuple((one, signatures[one]) for one in config.list_ids(name)))


@lru_cache(256)
def _sign_table(table: str, signatures: tuple[tuple[str, Signature], ...]) -> str:
    parts = {name: signature.digest for name, signature in signatures}
    return Signature.of({"formula": _FORMULA, "table": table, **parts}).digest


def impute(config: RewardConfig, value: RewardValue) -> RewardValue:
    """Fill in the constant of `without_number`, if the file has one; `unscored` stays."""
    constant = config.without_number
    if value.unscored is None or isinstance(constant, str):
        return value
    return value.model_copy(update={"reward": constant, "imputed": True})


def fail_edit(config: RewardConfig, names: Iterable[str], why: NoReward) -> dict[str, RewardValue]:
    """Make the rewards of an edit of which nothing was judged."""
    return {name: impute(config, RewardValue(unscored=why)) for name in names}


def mix(config: RewardConfig, name: str, edit: Edit, outcomes: Mapping[str, Outcome]) -> RewardValue:
    """Mix one reward of an edit, without its signature and without the constant of `without_number`."""
    table = config.rewards[name]
    low, high = table.scale
    parts: dict[str, PartValue] = {}
    total = weights = 0.0
    gaps: list[tuple[str, Outcome]] = []
    for part, own in table.parts.items():
        outcome, (worst, best) = outcomes[part], config.range_of(name, part)
        parts[part] = PartValue(value=outcome.value, range=(worst, best), weight=own.weight, reason=outcome.reason)
        if outcome.value is None:
            gaps.append((part, outcome))
            continue
        share = min(max((outcome.value - worst) / (best - worst), 0.0), 1.0)
        total, weights = total + own.weight * share, weights + own.weight
    cap, undecided_id = high, ""
    for gate_name, gate in table.gates.items():
        value, is_closed, reason = _try_gate(gate, edit, outcomes)
        closed_cap = (low if gate.cap is None else gate.cap) if is_closed else None
        parts[f"gate.{gate_name}"] = PartValue(value=value, cap=closed_cap, reason=reason)
        cap = cap if closed_cap is None else min(cap, closed_cap)
        undecided_id = undecided_id or (gate.dimension if is_closed is None else "")
    if cap == low:  # whatever the missing values are, the reward is this
        return RewardValue(reward=low, parts=parts)
    minimum = table.minimum_parts or len(table.parts)
    failures = [gap for gap in gaps if isinstance(gap[1], Failure)]
    if undecided_id:
        gaps, minimum = [(undecided_id, outcomes[undecided_id])], len(table.parts)
    elif failures:
        gaps, minimum = failures, len(table.parts)
    if gaps and len(table.parts) - len(gaps) < minimum:
        return RewardValue(parts=parts, unscored=_explain(*gaps[0]))
    return RewardValue(reward=min(low + (high - low) * min(total / weights, 1.0), cap), parts=parts)


def _try_gate(gate: Gate, edit: Edit, outcomes: Mapping[str, Outcome]) -> tuple[float | None, bool | None, str | None]:
    """Return the value of a gate, whether it is closed (None if undecided), and why not."""
    if gate.size_differs:
        source = edit.item.sources[0].size if edit.item.sources else None
        return None, bool(edit.image and edit.image.size != source), None
    outcome = outcomes[gate.dimension]
    if outcome.value is None:
        return None, None, outcome.reason
    is_above = gate.above is not None and outcome.value > gate.above
    is_below = gate.below is not None and outcome.value < gate.below
    return outcome.value, is_above or is_below, None


def _explain(name: str, outcome: Outcome) -> NoReward:
    kind = outcome.kind if isinstance(outcome, NoScore) else outcome.status
    retry = getattr(outcome, "retryable", False) or outcome.status == "not_served"
    return NoReward.model_validate({"kind": kind, "reason": f"{name}: {outcome.reason}", "retry": retry})


def summarise(config: RewardConfig, name: str, results: Sequence[EditReward], groups: Sequence[str]) -> Summary:
    """Summarise one reward over a batch.

    Args:
        groups: Of each edit what its siblings have in common: the source and the instruction.
    """
    values = [result.rewards[name] for result in results]
    low, high = config.rewards[name].scale
    numbers = [value.reward for value in values if value.reward is not None]
    pairs = ((g, v.reward) for g, v in zip(groups, values, strict=True) if v.reward is not None)
    siblings = [each for each in group_by_key(pairs).values() if len(each) > 1]
    spreads = [pstdev(each) for each in siblings]
    closed_gates = (
        part.removeprefix("gate.") for value in values for part, each in value.parts.items() if each.cap is not None
    )
    timings = group_by_key(pair for value in values for pair in value.seconds.items())
    return Summary(
        edits=len(values),
        unscored=Counter(value.unscored.kind for value in values if value.unscored),
        imputed=sum(value.imputed for value in values),
        lowest=numbers.count(low),
        highest=numbers.count(high),
        gates=Counter(closed_gates),
        groups=len(siblings),
        flat_groups=spreads.count(0.0),
        spread=mean(spreads) if spreads else None,
        agreement=_correlate(config.rewards[name].parts, values),
        seconds={dimension: mean(each) for dimension, each in timings.items()},
    )


def _correlate(parts: Iterable[str], values: Sequence[RewardValue]) -> dict[str, float]:
    agreement: dict[str, float] = {}
    for a, b in combinations(parts, 2):
        all_pairs = [(v.parts[a].value, v.parts[b].value) for v in values if v.parts]
        pairs = [(x, y) for x, y in all_pairs if x is not None and y is not None]
        with suppress(NotDefined):
            agreement[f"{a}~{b}"] = spearman(*(np.array([each[n] for each in pairs]) for n in (0, 1)))
    return agreement
