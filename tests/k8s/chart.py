"""The chart as helm renders it, and what Kubernetes' schemas say of that."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Object: TypeAlias = dict[str, Any]
HERE = Path(__file__).parent
CHART = HERE.parents[1] / "k8s" / "chart"
IMAGES = HERE / "images.yaml"
RELEASE, NAMESPACE = "judges", "editjudge"
TOOLS = Path(os.environ.get("EDITJUDGE_K8S_TOOLS", HERE.parents[1] / ".venv-k8s")).absolute()
"""The environment that `make k8s` makes."""
CRDS = Path(os.environ["EDITJUDGE_CRDS"]).absolute() if "EDITJUDGE_CRDS" in os.environ else None
"""A folder with CustomResourceDefinitions of what clusters add, where the user gives one."""


class Refused(Exception):
    """Helm does not render it; with its words."""


def helm(*arguments: str | Path, env: Mapping[str, str] | None = None, told: str = "") -> str:
    """What helm prints.

    Raises:
        Refused: it fails.
    """
    done = subprocess.run(
        [TOOLS / "bin" / "helm", *arguments],
        capture_output=True,
        text=True,
        input=told,
        check=False,
        env={**os.environ, **(env or {})},
    )
    if done.returncode:
        raise Refused(done.stderr.strip())
    return done.stdout


def chosen(*files: str, values: Mapping[str, Any] | None = None) -> list[str]:
    """Arguments of helm: files of the chart's values by name, and further values as JSON."""
    named = [f"--values={CHART / 'values' / file}.yaml" for file in files]
    further = [f"--set-json={key}={json.dumps(value)}" for key, value in (values or {}).items()]
    return [f"--values={IMAGES}", *named, *further]


def text(*files: str, values: Mapping[str, Any] | None = None) -> str:
    """The rendered chart."""
    return helm(
        "template", RELEASE, CHART, f"--namespace={NAMESPACE}", *chosen(*files, values=values)
    )


def rendered(*files: str, values: Mapping[str, Any] | None = None) -> list[Object]:
    """The objects of the rendered chart."""
    return [one for one in yaml.safe_load_all(text(*files, values=values)) if one]


@dataclass(frozen=True)
class Schemas:
    """What schemas say.

    Attributes:
        wrong: In words, by object.
        unchecked: Kinds of which there is no schema.
    """

    wrong: Sequence[str]
    unchecked: frozenset[str]


def checked(things: Iterable[Object], definitions: Path | None = CRDS) -> Schemas:
    """Show objects to the schemas, and to those of a folder with CustomResourceDefinitions."""
    things = list(things)
    said = _said([json.dumps(one, sort_keys=True) for one in things], definitions)
    wrong, unchecked = [], set()
    for thing, told in zip(things, said, strict=True):
        match told:
            case {"unknown": kind}:
                unchecked.add(kind)
            case str():
                wrong.append(f"{label(thing)}: {told}")
    return Schemas(wrong, frozenset(unchecked))


# Most objects are the same whatever the option.
_SEEN: dict[tuple[str, Path | None], Any] = {}


def _said(lines: Sequence[str], definitions: Path | None) -> list[Any]:
    """What schemas.py says of each object, asked once."""
    new = [line for line in dict.fromkeys(lines) if (line, definitions) not in _SEEN]
    if new:
        done = subprocess.run(
            [
                TOOLS / "bin" / "python",
                HERE / "schemas.py",
                *([definitions] if definitions else []),
            ],
            capture_output=True,
            text=True,
            input="".join(f"{line}\n" for line in new),
            check=True,
        )
        for line, told in zip(new, done.stdout.splitlines(), strict=True):
            _SEEN[line, definitions] = json.loads(told)
    return [_SEEN[line, definitions] for line in lines]


def label(thing: Object) -> str:
    """An object's kind and name."""
    return f"{thing.get('kind')} {thing.get('metadata', {}).get('name')}"
