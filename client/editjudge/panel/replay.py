"""A judge as it was when stored calls were made."""

from typing import Any

from ..base.config import JudgeEndpoint
from ..base.identity import ModelIdentity, ServiceName
from .calls import ReplyStore
from .judge import Judge
from .prompt import parse_max_pixels
from .transport import parse_limit


def _parse_temperature(fact: str) -> float | str:
    return fact if fact == "default" else float(fact)


def replay_judge(name: ServiceName, identity: ModelIdentity, ledger: ReplyStore) -> Judge:
    """A judge as it was when a ledger's calls were made; every other call fails.

    Args:
        name: `generalist.<name>`.
        identity: Its identity when the calls were made.
        ledger: The stored calls.
    """
    facts = identity.facts
    overrides: dict[str, Any] = {
        kind: convert(facts[kind])
        for kind, convert in (("temperature", _parse_temperature), ("max_tokens", parse_limit))
        if kind in facts
    }
    if "repeats" in facts:
        overrides["samples"] = int(facts["repeats"])
    if "seed" in facts:
        overrides["seed"] = None if facts["seed"] == "None" else int(facts["seed"])
    if "images" in facts:
        overrides["max_pixels"] = parse_max_pixels(facts["images"])
    endpoint = JudgeEndpoint(url="http://ledger/v1").model_copy(update=overrides)
    return Judge(name, endpoint, None, ledger, identity=identity)
