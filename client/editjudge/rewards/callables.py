"""A `Reward` in the shapes of functions that trainers call in their own process."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..base.item import EditArguments
from .reward import Reward
from .schema import RewardError


def make_compute_score(reward: Reward, name: str, source: str = "source") -> Callable[..., Awaitable[dict[str, float]]]:
    """Make a `compute_score` as verl and verl-omni call it, once for each edit.

    It returns `score` and the values of the parts. An edit without a number raises, because a NaN
    or a 0.0 would be taken for a reward: set `required: true` there, so that the step ends.

    Args:
        source: The key of `extra_info` that holds the source picture.

    Raises:
        RewardError: on the call: the edit has no number.
        InputError: on the call: `extra_info` has no source.
    """

    async def compute_score(
        data_source: object,
        solution_image: Any,
        ground_truth: str,
        extra_info: Mapping[str, Any] | None = None,
        **_: object,
    ) -> dict[str, float]:
        if not extra_info or extra_info.get(source) is None:
            fix = f"put the picture before the edit into extra_info[{source!r}]"
            raise InputError("extra_info", "there is no source picture", fix)
        edit: EditArguments = {
            "source": _to_picture(extra_info[source]),
            "edited": _to_picture(solution_image),
            "instruction": ground_truth,
        }
        reply = await reward.score_async([edit], [name])
        (score,) = reply.numbers(name)
        parts = reply.results[0].rewards[name].parts
        if score is None:
            raise RewardError(f"the edit has no reward {name}")
        return {"score": score, **{k: p.value for k, p in parts.items() if p.value is not None}}

    return compute_score


def make_reward_function(
    reward: Reward, name: str, make_edit: Callable[[Mapping[str, Any]], EditArguments]
) -> Callable[..., Awaitable[list[float | None]]]:
    """Make a reward function as TRL calls it, once for a batch.

    An edit without a number gives None, which TRL leaves out, or by `without_number = "error"`
    raises and so ends the step.

    Args:
        make_edit: Makes the arguments of `Edit.load` of one row: `prompt`, `completion`, and the
            columns of the data set by name.
    """

    async def reward_function(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
        lists = {key: each for key, each in columns.items() if isinstance(each, list)}
        lists |= {"prompt": prompts, "completion": completions}
        rows = [{key: lists[key][i] for key in lists} for i in range(len(completions))]
        reply = await reward.score_async([make_edit(row) for row in rows], [name])
        return reply.numbers(name, reward.config.without_number)

    reward_function.__name__ = name
    return reward_function


def _to_picture(image: Any) -> Any:
    """Turn a tensor or array of shape (3, H, W) into (H, W, 3); other pictures stay."""
    if not hasattr(image, "shape"):
        return image
    pixels = np.asarray(image.cpu() if hasattr(image, "cpu") else image)
    is_chw = pixels.ndim == 3 and pixels.shape[0] in {1, 3, 4} and pixels.shape[2] not in {3, 4}
    return np.ascontiguousarray(pixels.transpose(1, 2, 0)) if is_chw else pixels
