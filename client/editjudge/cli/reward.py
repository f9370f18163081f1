"""`editjudge reward`: check a file of rewards, and try it on a few edits."""

from pathlib import Path
from typing import Any

from ..base.errors import ConfigError
from ..base.parse import parse_json
from ..base.terminal import print_notice, print_text
from ..report.agreement_page import write_agreement
from ..rewards.audit import audit_run, compare_rewards
from ..rewards.config import RewardConfig
from ..rewards.reward import Reward
from ..rewards.schema import RewardValue
from .agreement import print_agreement
from .options import open_run, settings_from
from .output import print_json

_PICTURES = {"source", "edited", "mask", "target"}


def check_command(file: Path, *, json: bool, **options: Any) -> int:
    """Check a file of rewards and print what it means; return the exit code."""
    config = RewardConfig.load(file)
    with Reward(config, settings_from(options)) as reward:
        signatures, missing = reward.describe()
    if json:
        print_json({"signatures": signatures, "missing": missing, **config.model_dump()})
    for name, table in () if json else config.rewards.items():
        pin = "" if table.pin in {"", signatures[name]} else f", but the pin is {table.pin}"
        print_text(f"{name}: signature {signatures[name]}{pin}")
        for part, own in table.parts.items():
            worst, best = config.range_of(name, part)
            print_text(f"  {part}: weight {own.weight:g}, {worst:g} is worst, {best:g} is best")
        for label, gate in table.gates.items():
            print_text(f"  gate.{label}: {gate}")
    for role, why in missing.items():
        print_notice(f"{role}: {why}")
    return 3 if missing else 0


def preview_command(file: Path, edits: Path, *, json: bool, **options: Any) -> int:
    """Score a few edits and print their rewards, and how these differ from stored ones; return the exit code."""
    rows, kept_rewards = _read_edits(edits)
    with Reward(RewardConfig.load(file), settings_from(options)) as reward:
        reply, budget = reward.score(rows), reward.client.budget
    movements = {}
    for name in reply.summary:
        numbers, before = reply.numbers(name, "skip"), [each.get(name) for each in kept_rewards]
        if any(name in each for each in kept_rewards):
            movements[name] = compare_rewards([each.id for each in reply.results], before, numbers)
    if json:
        print_json({**reply.model_dump(), "movements": movements})
    for result in () if json else reply.results:
        for name, value in result.rewards.items():
            print_text(f"{result.id}: {name} {_describe(value)}")
    for name, summary in () if json else reply.summary.items():
        facts_of_batch = summary.model_dump(exclude_none=True).items()
        print_text(f"{name}: " + ", ".join(f"{key} {fact}" for key, fact in facts_of_batch if fact))
        if name in movements:
            changes = movements[name].model_dump(exclude_none=True).items()
            print_text(
                f"{name}, compared with stored rewards: " + ", ".join(f"{key} {value}" for key, value in changes)
            )
    print_notice(f"{budget.calls} calls, cost {budget.cost:g}, {reply.seconds:.1f} s")
    return 3 if any(each.unscored for each in reply.summary.values()) else 0


def audit_command(file: Path, run: Path, out: Path | None, *, json: bool) -> None:
    """Print what the rewards of the edits of a run follow beside their purpose."""
    config = RewardConfig.load(file)
    with open_run(run) as view:
        result = audit_run(view, config)
        if out:
            write_agreement(result, [view], out, {name: config.list_ids(name) for name in config.rewards})
    print_agreement(result, json=json)


def _describe(value: RewardValue) -> str:
    closed_gates = [name for name, part in value.parts.items() if part.cap is not None]
    numbers = [f"{k} {p.value:.3g}" for k, p in value.parts.items() if p.value is not None]
    number = "-" if value.reward is None else f"{value.reward:.3f}"
    gates = "".join(f", {name} is closed" for name in closed_gates)
    why = f": {value.unscored.reason}" if value.unscored else ""
    return f"{number} ({', '.join(numbers)}){gates}{why}"


def _read_edits(path: Path) -> tuple[list[Any], list[dict[str, float | None]]]:
    """Read the edits of a file, a line of JSON for each, and the rewards that were kept of each.

    Raises:
        ConfigError: naming the line that is no edit.
    """
    edits, kept_rewards = [], []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            row = dict(parse_json(line))
            row["item_id"] = str(row.pop("id", number))
            before = {name: None if r is None else float(r) for name, r in dict(row.pop("rewards", {})).items()}
            paths = {key: path.parent / row[key] for key in _PICTURES & row.keys()}
            edits.append({**row, **paths})
            kept_rewards.append(before)
        except (ValueError, TypeError) as error:
            fix = 'write {"source": "a.png", "instruction": "…", "edited": "b.png"}'
            raise ConfigError(f"{path}:{number}: this line is not an edit", fix) from error
    return edits, kept_rewards
