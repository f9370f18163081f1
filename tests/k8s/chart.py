"""The chart as helm renders it, and what Kubernetes' schemas say of that."""

from __future__ import annotations

import json
import os
import re
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
VALUES: Mapping[str, Any] = yaml.safe_load((HERE / "values.yaml").read_text())
PARTS: Mapping[str, Any] = VALUES["parts"]
OPTIONS: Mapping[str, Mapping[str, Any]] = VALUES["options"]
FILES = sorted(path.stem for path in (CHART / "values").glob("*.yaml"))
"""The chart's own files of values."""
RELEASE, NAMESPACE = "judges", "editjudge"
TOOLS = Path(os.environ.get("EDITJUDGE_K8S_TOOLS", HERE.parents[1] / ".venv-k8s")).absolute()
"""The environment that `make k8s` makes."""
CRDS = Path(os.environ["EDITJUDGE_CRDS"]).absolute() if "EDITJUDGE_CRDS" in os.environ else None
"""A folder with CustomResourceDefinitions of what clusters add, where the user gives one."""


class RenderError(Exception):
    """Helm does not render it; with its words."""


def run_tool(
    program: str | Path, *arguments: str | Path, told: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """A finished program, one of the tools where it has no path; it may have failed."""
    return subprocess.run(
        [TOOLS / "bin" / program, *arguments],
        capture_output=True,
        text=True,
        input=told,
        check=False,
        env={**os.environ, **variables},
    )


def helm(*arguments: str | Path, **variables: str) -> str:
    """What helm prints.

    Raises:
        Refused: it fails.
    """
    done = run_tool("helm", *arguments, **variables)
    if done.returncode:
        raise RenderError(done.stderr.strip())
    return done.stdout


def select_values(*files: str, values: Mapping[str, Any] | None = None) -> list[str]:
    """Arguments of helm: files of the chart's values by name, and further values as JSON."""
    named = [f"--values={CHART / 'values' / file}.yaml" for file in files]
    further = [f"--set-json={key}={json.dumps(value)}" for key, value in (values or {}).items()]
    return [f"--values={IMAGES}", *named, *further]


def render_text(*files: str, values: Mapping[str, Any] | None = None) -> str:
    """The rendered chart."""
    arguments = select_values(*files, values=values)
    return helm("template", RELEASE, CHART, f"--namespace={NAMESPACE}", *arguments)


class _Loader(yaml.SafeLoader):
    """Takes no key twice, as Kubernetes does not."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise yaml.YAMLError(f"{twice} twice, {node.start_mark}")
        return super().construct_mapping(node, deep)


def parse_objects(objects: str) -> list[Object]:
    """Objects of their YAML."""
    return [one for one in yaml.load_all(objects, _Loader) if one]


def render(*files: str, values: Mapping[str, Any] | None = None) -> list[Object]:
    """The objects of the rendered chart."""
    return parse_objects(render_text(*files, values=values))


def read_page_values(file: str) -> dict[str, Any]:
    """The values that the pages on Kubernetes show under the name of a file."""
    docs = CHART.parents[1] / "docs"
    page = "".join((docs / name).read_text() for name in ("howto/deploying.md", "tutorials/kubernetes.md"))
    (block,) = re.findall(rf"```yaml\n# {file}[.]yaml\n(.*?)```", page, re.DOTALL)
    shown = block.replace("sha256:…", f"sha256:{64 * '0'}")
    return dict(yaml.safe_load(shown.replace("<the new commit>", PARTS["revision"])))


def render_file(file: str, values: Mapping[str, Any] | None = None) -> list[Object]:
    """The objects of a file of the chart's values, with what its user has to fill in."""
    revision = {"vllm.servers.judge.source.revision": PARTS["revision"]}
    return render(file, values={**(revision if file == "production" else {}), **(values or {})})


def render_parts(*further: str | Mapping[str, Any]) -> list[Object]:
    """The objects of the least values, and of further ones: parts by name, or values."""
    values: dict[str, Any] = {}
    for each in ("base", *further):
        values |= PARTS[each] if isinstance(each, str) else each
    return render(values=values)


@dataclass(frozen=True)
class Schemas:
    """What schemas say.

    Attributes:
        wrong: In words, by object.
        unchecked: Kinds of which there is no schema.
    """

    wrong: Sequence[str]
    unchecked: frozenset[str]


def ray_pods(thing: Object) -> list[dict[str, Any]]:
    """The templates of a RayJob's pods: of the submitter, of the head, of workers."""
    cluster = thing["spec"]["rayClusterSpec"]
    groups = (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    return [thing["spec"]["submitterPodTemplate"], *(group["template"] for group in groups)]


def check_schemas(things: Iterable[Object], definitions: Path | None = CRDS) -> Schemas:
    """Show objects to the schemas, and to those of a folder with CustomResourceDefinitions."""
    things = list(things)
    for job in [one for one in things if one.get("kind") == "RayJob"]:
        name = {"name": job["metadata"]["name"]}
        for pod in ray_pods(job):
            metadata = {**name, **pod["metadata"]}
            things.append({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata})
    said = _ask_schemas([json.dumps(one, sort_keys=True) for one in things], definitions)
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


def _ask_schemas(lines: Sequence[str], definitions: Path | None) -> list[Any]:
    """What schemas.py says of each object, asked once."""
    new = [line for line in dict.fromkeys(lines) if (line, definitions) not in _SEEN]
    if new:
        folders = (HERE / "crds", *([definitions] if definitions else []))
        said = run_script("schemas.py", *folders, lines=new)
        _SEEN.update({(line, definitions): told for line, told in zip(new, said, strict=True)})
    return [_SEEN[line, definitions] for line in lines]


def run_script(script: str, *arguments: Path, lines: Iterable[str]) -> list[Any]:
    """What a script of this folder says of lines of JSON, by the Python of the tools."""
    told = "".join(f"{line}\n" for line in lines)
    done = run_tool("python", HERE / script, *arguments, told=told)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def label(thing: Object) -> str:
    """An object's kind and name."""
    return f"{thing.get('kind')} {thing.get('metadata', {}).get('name')}"
