"""A judge as it was when stored calls were made."""

from collections.abc import Callable, Mapping
from typing import Any

from ..base.config import JudgeEndpoint
from ..base.identity import ModelIdentity, ServiceName
from .calls import ReplyStore
from .judge import Judge
from .prompt import parse_max_pixels
from .transport import parse_limit

_SETTINGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "temperature": ("temperature", lambda fact: fact if fact == "default" else float(fact)),
    "max_tokens": ("max_tokens", parse_limit),
    "repeats": ("samples", int),
    "seed": ("seed", lambda fact: None if fact == "None" else int(fact)),
    "images": ("max_pixels", parse_max_pixels),
}
"""By a fact of an identity, the setting that it tells, and how it is read."""


def replay_judge(name: ServiceName, identity: ModelIdentity, ledger: ReplyStore) -> Judge:
    """A judge as it was when a ledger's calls were made; every other call fails.

    Args:
        name: `generalist.<name>`.
        identity: Its identity when the calls were made.
        ledger: The stored calls.
    """
    facts = identity.facts
    overrides: dict[str, Any] = {name: read(facts[fact]) for fact, (name, read) in _SETTINGS.items() if fact in facts}
    endpoint = JudgeEndpoint(url="http://ledger/v1").model_copy(update=overrides)
    return Judge(name, endpoint, None, ledger, identity=identity)
