"""Names of services, and which model stands behind a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

FINGERPRINT = "fingerprint"
"""The fact that holds a service's reply to its probe; no signature depends on it."""
BINDING = "bound"
"""The fact that a judge's server holds sampled replies to the choices; signatures of what asks for
choices depend on it, no other."""
UNKNOWN_MODEL = "unknown"
"""Stands in a signature for a service whose model is not known."""
JUDGE_ROLE = "generalist"


class ServiceName(str):
    """The name of a service, `role.variant`: a text that knows its parts.

    Args:
        role: What the service does; it has one contract. `generalist` of a judge, a multimodal LLM.
        variant: Which of the role's services; the configured name of a multimodal LLM.

    Attributes:
        role: As given.
        variant: As given.

    Raises:
        ValueError: the role or the variant is empty, or the role holds a dot.
    """

    __slots__ = ("role", "variant")
    role: str
    variant: str

    def __new__(cls, role: str, variant: str) -> Self:
        """A text, as every string is made; see the class."""
        if not role or not variant or "." in role:
            raise ValueError(f"{role!r} and {variant!r} make no service name: role.variant")
        name = super().__new__(cls, f"{role}.{variant}")
        name.role, name.variant = role, variant
        return name

    @classmethod
    def parse(cls, text: str) -> ServiceName:
        """Parse a service name.

        Raises:
            ValueError: the text is not `role.variant`.
        """
        if isinstance(text, ServiceName):
            return text
        role, dot, variant = text.partition(".")
        if not (role and dot and variant):
            raise ValueError(f"{text!r} is no service name: role.variant, as features.dinov3")
        return cls(role, variant)

    @classmethod
    def judge(cls, name: str) -> ServiceName:
        """The name of the multimodal LLM that is configured as `name`."""
        return cls(JUDGE_ROLE, name)

    @property
    def is_judge(self) -> bool:
        """Whether the service is a multimodal LLM."""
        return self.role == JUDGE_ROLE

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls.parse, core_schema.str_schema())

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.role, self.variant


JUDGE = ServiceName.judge("judge")
"""The judge that dimensions ask, as the settings call it."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The model behind a service, as signatures state it.

    Its text is part of signatures and ledger keys, so it never changes for the same facts.

    Attributes:
        name: Of the model; with a specialist's version, as `features_dinov3/1`.
        facts: What else tells the model from others, by name: implementation, weights, precision,
            and of a multimodal LLM how it is asked. `fingerprint` is compared, but not printed.
    """

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        pairs = sorted((k, v) for k, v in self.facts.items() if k != FINGERPRINT)
        facts = ",".join(f"{key}={value}" for key, value in pairs)
        return f"{self.name}({facts})" if facts else self.name

    @property
    def is_untrained(self) -> bool:
        """Whether the weights are random, so that replies are no results."""
        return self.facts.get("untrained") == "yes"

    def may_be(self, later: ModelIdentity) -> bool:
        """Whether the later identity, which may hold more facts, can be the same model."""
        return self.name == later.name and self.facts.items() <= later.facts.items()

    def without(self, *facts: str) -> ModelIdentity:
        """The identity without some of its facts."""
        return ModelIdentity(self.name, {key: value for key, value in self.facts.items() if key not in facts})


Identities: TypeAlias = Mapping[ServiceName, ModelIdentity]
"""Identities of services, by name."""


def describe_change(service: str, url: str, then: ModelIdentity, now: ModelIdentity) -> str:
    """A line for a server whose model is no longer the one that was bound."""
    return f"{service} at {url} is {now} at the end of this session; it was {then} at its beginning"


def describe_difference(identity: ModelIdentity, first: ModelIdentity) -> str:
    """How the identity of a model here differs from that of the same service elsewhere."""
    if str(identity) == str(first):
        return f"{identity} here, but its fingerprint is not that of the same"
    return f"{identity} here, {first}"


def untrained_services(identities: Identities) -> tuple[ServiceName, ...]:
    """The services whose weights are random."""
    return tuple(name for name, identity in identities.items() if identity.is_untrained)


def format_identities(identities: Identities) -> dict[str, str]:
    """Format identities as strings, for people and JSON."""
    return {str(name): str(identity) for name, identity in identities.items()}
