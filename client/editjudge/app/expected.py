"""Which services somebody expects, against those that are there.

A panel file says by service what is known of it, as JSON:

```json
{"features.dinov2": {"name": "features_dinov2/1", "precision": "fp32", "device": "gpu"}}
```

`name` is that of the model, with a specialist's version; `device` and `root` (the folder of a
generalist's weights) are told by servers, and not by a Judge service; all else are the facts of
identities.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from ..base.errors import InputError
from ..base.identity import ModelIdentity, ServiceName
from ..base.parse import first_problem

Facts: TypeAlias = Mapping[str, str]
Services: TypeAlias = Mapping[ServiceName, Facts]
DEVICE, ROOT = "device", "root"
_UNTRAINED = "untrained"
_PANEL: TypeAdapter[dict[ServiceName, dict[str, str]]] = TypeAdapter(
    dict[ServiceName, dict[str, str]]
)


def expected_in(path: Path) -> Services:
    """The services that a panel file expects.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    try:
        return _PANEL.validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from error
    except ValidationError as error:
        raise InputError(
            str(path),
            f"this is no panel: {first_problem(error)}",
            'write {"role.variant": {"fact": "value"}}',
        ) from error


def facts_of(identity: ModelIdentity, **told: str) -> Facts:
    """What is known of a service: its identity, and what else its server told."""
    return {"name": identity.name, **identity.facts, **told}


def differences(
    expected: Services, served: Services, untold: Collection[str] = ()
) -> Iterator[tuple[ServiceName, str]]:
    """What is not as expected, by service, in words; nothing where all is.

    Random weights are expected only where the file says so.

    Args:
        served: What is known of the services that are there.
        untold: Facts that nobody tells on this way; they are not compared.
    """
    for name, facts in expected.items():
        if name not in served:
            yield name, "it is expected, and nobody serves it"
            continue
        compared = {_UNTRAINED: "", **facts}
        there = served[name]
        differ = [
            f"{fact} {value or 'none'} is expected, and {there.get(fact) or 'none'} is served"
            for fact, value in compared.items()
            if fact not in untold and there.get(fact, "") != value
        ]
        if differ:
            yield name, "; ".join(differ)
    for name in served:
        if name not in expected:
            yield name, "it is served, and nobody expects it"
