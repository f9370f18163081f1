"""Hosted providers and servers that speak OpenAI's chat completions, as data (`providers.toml`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from .parse import package_tables


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider or server; the texts say what to expect of it as a judge.

    Attributes:
        title: Its name for people.
        url: Address of its API; what stands in {} is the user's. Empty for one's own servers.
        key: Variable in which its own tools look for the key; empty where it needs none.
        owner: What its list of models says they are owned by; empty where that tells nothing.
        neutral: Fields that are sent with every request: without them, a model's own generation
            settings would hold. Empty where the API's own defaults are neutral.
        probabilities: Of which models it tells probabilities of tokens.
        choices: Whether it holds replies to a schema.
        refuses: What it refuses of a request.
        prices: In USD for a million tokens: input / cached / output.
        lacks: What its own API has that this one has not.
        limits: How it says when to ask again after status 429.
    """

    title: str
    url: str = ""
    key: str = ""
    owner: str = ""
    neutral: Mapping[str, float] = field(default_factory=dict)
    probabilities: str = ""
    choices: str = ""
    refuses: str = ""
    prices: str = ""
    lacks: str = ""
    limits: str = ""


@cache
def load_providers() -> Mapping[str, Provider]:
    """The providers by the name that settings give them."""
    tables = package_tables(__package__, "providers.toml")
    return {name: Provider(**table) for name, table in tables.items()}


@cache
def find_provider(name: str, owner: str) -> Provider:
    """Find a provider by its name in the settings, or by the owner of its models.

    Returns:
        The provider; one without habits where neither tells.
    """
    providers = load_providers()
    if name:
        return providers[name]
    by_owner = {provider.owner: provider for provider in providers.values() if provider.owner}
    return by_owner.get(owner, Provider(""))
