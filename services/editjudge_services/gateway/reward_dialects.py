"""How trainers speak to reward servers of other kinds: what they send, and what they take.

A dialect reads a body into a `RewardRequest` and writes the reply. What a trainer would take for a
number where there is none is never written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from editjudge.base.errors import InputError
from editjudge.rewards.config import RewardConfig
from editjudge.rewards.schema import RewardError, RewardReply, RewardValue

Fields = Mapping[str, Any]


class Dialect(NamedTuple):
    """A dialect.

    Attributes:
        path: Where it is posted.
        read: Makes the fields of a `RewardRequest` of the JSON of a body, and of the name of the
            reward in the path, "" without one.
        write: Makes the JSON of the answer of a reply.
        is_single: Whether it has room for one reward only.
    """

    path: str
    read: Callable[[Any, str], Fields]
    write: Callable[[RewardReply, RewardConfig], object]
    is_single: bool = False


def check_lengths(**lists: Any) -> int:
    """Check that lists are there and have one length, and return it.

    Some clients send each half of a batch with the words of all: its edits would be judged by the
    words of others.

    Raises:
        InputError: naming the list.
    """
    first, *_ = lists
    for name, values in lists.items():
        if not isinstance(values, Sequence) or isinstance(values, str | bytes) or not values:
            fix = f"send a list with one entry for each of {first}"
            raise InputError(name, "there is none", fix)
        if len(values) != len(lists[first]):
            reason = f"{len(values)} entries for {len(lists[first])} of {first}"
            raise InputError(name, reason, "send one for each edit, in one order")
    return len(lists[first])


def _read_own(data: Any, reward: str) -> Fields:
    return {**data, "want": [reward]} if reward and isinstance(data, dict) else data


def _read_unirl(data: Any, reward: str) -> Fields:
    requests: Any = data.get("requests") if isinstance(data, dict) else None
    edits, wants = [], [[reward]] if reward else []
    for place in range(check_lengths(requests=requests)):
        request, at = requests[place], f"requests[{place}]"
        turns = request.get("history") if isinstance(request, dict) else None
        if not isinstance(turns, list) or len(turns) < 2:
            fix = "send two turns: the picture before the edit, and the one after it"
            raise InputError(f"{at}.history", "the source picture is missing", fix)
        *before, after = ({"data": _get(turn, "image_b64", at)} for turn in turns)
        edits.append(
            {"source": before[0], "references": before[1:], "instruction": _get(turns[-1], "text", at), "edited": after}
        )
        names = request.get("required_rewards")
        wants += [names] if names and names not in wants else []
    if len(wants) > 1:
        fix = "send one list for all, in a batch of its own"
        raise InputError("required_rewards", "several lists in one batch", fix)
    return {"edits": edits, "want": wants[0] if wants else ()}


def _write_unirl(reply: RewardReply, _: RewardConfig) -> object:
    """The first number of a reward is used, and any that is null fails the sample."""

    def parts(value: RewardValue) -> Fields:
        numbers = {k: p.value for k, p in value.parts.items() if p.value is not None}
        return {"reward": value.reward, **numbers}

    rows = [each.rewards.items() for each in reply.results]
    results = [{k: parts(v) for k, v in row if v.reward is not None} for row in rows]
    errors = [{k: v.unscored.reason for k, v in row if v.unscored and v.reward is None} for row in rows]
    return {"results": results, "errors": errors}


def _read_flow_factory(data: Any, reward: str) -> Fields:
    data = data if isinstance(data, dict) else {}
    lists = {key: data.get(key) for key in ("prompt", "image", "condition_images")}
    edits = []
    for place in range(check_lengths(**lists)):
        pictures = lists["condition_images"][place]
        check_lengths(**{f"condition_images[{place}]": pictures})
        source, *references = ({"data": each} for each in pictures)
        output = {"data": lists["image"][place]}
        edit = {"source": source, "references": references, "edited": output}
        edits.append({**edit, "instruction": lists["prompt"][place]})
    return {"edits": edits, "want": (reward,) if reward else ()}


def _write_flow_factory(reply: RewardReply, _: RewardConfig) -> object:
    """It takes numbers alone: `error` ends its step, and is not asked again."""
    (name,) = reply.summary
    try:
        return {"rewards": reply.numbers(name)}
    except RewardError as error:
        return {"error": str(error)}


def _get(turn: Any, field: str, at: str) -> Any:
    if not isinstance(turn, dict) or not isinstance(turn.get(field), str):
        raise InputError(f"{at}.history", f"a turn has no {field}", f"send {field}")
    return turn[field]


DIALECTS = (
    Dialect("/v1/rewards", _read_own, lambda reply, _: reply),
    Dialect("/score", _read_unirl, _write_unirl),
    Dialect("/compute", _read_flow_factory, _write_flow_factory, is_single=True),
)
PICKLE_PATHS = ("/", "/mode/logits_non_cot")
"""Where trainers post pickles. Reading one may run what its sender wrote, so none is read."""
