"""Writes a run as tasks of Label Studio, which show people each edit beside the judges' scores.

A task is one edit: its instruction and pictures, and in its `predictions` the score of each
dimension that has one. `without_number` describes the other dimensions in words.
The form is Label Studio's "Basic Label Studio JSON" with results of the tags `Number`, as its
documentation has it (guide/predictions, tags/number).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote
from zlib import crc32

from ..base.errors import ConfigError
from ..base.templates import make_templates
from ..base.verdict import NotApplicable, Score
from ..benchmarks.column import Row
from ..benchmarks.dimension import Dimension
from .view import RunView

PICTURES = ("source", "edited", "mask", "target")
"""The columns of pictures; formats with free columns name further sources `source_2` and so on."""
LOCAL = "/data/local-files/?d="
"""Prefix of the files that Label Studio serves from its own machine."""
_CONTROL = "score"
TASKS = '[\n{"data": {"item": '
"""The first characters of a file of tasks."""
CONFIGURATION = '<View>\n  <Text name="instruction" value="$instruction" />'
"""The first characters of the labelling configuration."""


def write_tasks(
    file: Path, view: RunView, dimensions: Mapping[str, Dimension], urls: Mapping[str, str], *, pairs: bool = False
) -> tuple[int, str]:
    """Write the tasks of a run to a file, one after another.

    Args:
        dimensions: The dimensions to show, by id.
        urls: Replacements for folders in the paths of pictures, by folder; by default Label Studio
            serves the pictures from its own machine.
        pairs: Whether a task is two edits of an item, without names or scores, and asks which is the
            better one. Sides are drawn by item and models: a pair has the same ones each time.

    Returns:
        The number of tasks, and the labelling configuration for them.

    Raises:
        ConfigError: a picture is in none of the folders of `urls`.
        InputError: the data of the run no longer exists.
    """
    paths_of = picture_paths(view, urls)
    fields: set[str] | None = None
    scored_ids: set[str] = set()
    count = 0
    edits_by_item: dict[str, list[tuple[str, dict[str, str]]]] = {}
    with file.open("w", encoding="utf-8", newline="\n") as out:
        for row in view.rows():
            pictures = paths_of(row.item.id, row.model)
            if "edited" not in pictures:
                continue  # no output to look at
            if not urls:
                pictures = {name: LOCAL + quote(path[1:]) for name, path in pictures.items()}
            scored_ids.update(name for name in dimensions if isinstance(row.outcomes.get(name), Score))
            others = edits_by_item.setdefault(row.item.id, [])
            tasks = [_build_pair(row, [other, (row.model, pictures)]) for other in others if pairs]
            tasks = tasks if pairs else [_build_task(row, pictures, dimensions, view.header.protocol)]
            others += [(row.model, pictures)] * pairs
            names = {*pictures} - {"edited"} | {"left", "right"} if pairs else {*pictures}
            for task in tasks:
                fields = names if fields is None else fields & names
                # ASCII escapes: a lone surrogate of a reply is not valid UTF-8, but valid JSON.
                out.write((",\n" if count else "[\n") + json.dumps(task))
                count += 1
        out.write("\n]\n" if count else "[]\n")
    task_dimensions = [one for name, one in dimensions.items() if name in scored_ids]
    sides = {"left", "right"} if pairs else {"edited"}
    order = (*PICTURES, "left", "right")
    pictures_shown = sorted(fields or sides, key=lambda name: (order.index(name.partition("_")[0]), name))
    return count, build_configuration(pictures_shown, task_dimensions)


def build_configuration(pictures: Sequence[str], dimensions: Sequence[Dimension]) -> str:
    """Build the labelling configuration, XML for the settings of the project.

    Args:
        pictures: The names of the pictures that every task has.
    """
    template = make_templates(__package__).get_template("labelling.xml.j2")
    return template.render(pictures=pictures, dimensions=dimensions, control=control_name, pairs="left" in pictures)


def control_name(dimension: str) -> str:
    """The name of the tag for a dimension; such names hold no dots."""
    return f"{_CONTROL}_{dimension.replace('.', '_').replace('@', '_')}"


def _build_pair(row: Row, edits: Sequence[tuple[str, dict[str, str]]]) -> dict[str, Any]:
    names = json.dumps([row.item.id, *sorted(model for model, _ in edits)])
    (model_a, left), (model_b, right) = sorted(edits, reverse=bool(crc32(names.encode()) % 2))
    data = {"item": row.item.id, "model_a": model_a, "model_b": model_b, "instruction": row.item.instruction}
    others = {name: path for name, path in left.items() if name != "edited"}
    return {"data": {**data, **others, "left": left["edited"], "right": right["edited"]}}


def _build_task(
    row: Row, pictures: Mapping[str, str], dimensions: Mapping[str, Dimension], protocol: str
) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    for name in dimensions:
        if isinstance(outcome := row.outcomes.get(name), Score):
            tag = control_name(name)
            head = {"id": tag, "from_name": tag, "to_name": "edited", "type": "number"}
            results.append({**head, "value": {"number": outcome.value}})
    data = {
        "item": row.item.id,
        "model": row.model,
        "instruction": row.item.instruction,
        **pictures,
        "without_number": "; ".join(_reasons(row, dimensions)) or "every question has a number",
    }
    predictions = [{"model_version": f"editjudge {protocol}", "result": results}] if results else []
    return {"data": data, "predictions": predictions}


def _reasons(row: Row, dimensions: Iterable[str]) -> Iterator[str]:
    for name in dimensions:
        outcome = row.outcomes.get(name)
        if outcome is not None and not isinstance(outcome, Score | NotApplicable):
            yield f"{name}: {outcome.status}" + (f" ({outcome.reason})" if outcome.reason else "")


PicturePaths: TypeAlias = Callable[[str, str], dict[str, str]]
"""Maps an item and a model to paths of `source`, `source_2`, …, `mask`, `target`, `edited`."""


def picture_paths(view: RunView, urls: Mapping[str, str]) -> PicturePaths:
    """Make a function that returns the paths of an edit's pictures; no picture is opened.

    Args:
        urls: Replacements for folders in the paths, by folder.

    Raises:
        InputError: the data of the run no longer exists.
    """
    folders = {_absolute(Path(folder)): url for folder, url in urls.items()}
    pictures_of = view.make_picture_finder().find

    def place(path: Path) -> str:
        path = _absolute(path)
        for folder, url in folders.items():
            if path.is_relative_to(folder):
                return f"{url.rstrip('/')}/{quote(path.relative_to(folder).as_posix())}"
        if folders:
            names = ", ".join(map(str, folders))
            raise ConfigError(f"{path} is in none of {names}", "give its folder a --url too")
        return str(path)

    def of(item: str, model: str) -> dict[str, str]:
        pictures = pictures_of(item)
        paths: dict[str, Path | None] = {
            "source" if number == 1 else f"source_{number}": path for number, path in enumerate(pictures.sources, 1)
        }
        paths |= {"mask": pictures.mask, "target": pictures.target}
        paths["edited"] = pictures.outputs[model]
        return {name: place(path) for name, path in paths.items() if path}

    return of


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()
