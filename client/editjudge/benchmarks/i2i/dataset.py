"""Prompts in the form of I2I-Bench, whose own data is not released, in `items.jsonl`."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from ..dataset import format_notes
from ..items import ItemsFile, Line
from .taxonomy import ABOUT, ARTIFACTS, CATEGORIES, DIMENSIONS, NEEDS, TITLES, TRACKS, usual


def _check_task(task: str) -> str:
    if task not in TRACKS:
        raise ValueError(f"no category is called {task!r} (there is {', '.join(TRACKS)})")
    return task


class I2iLine(Line):
    """One line: a prompt.

    Attributes:
        task: The category of the prompt; it decides the track. Single-image editing has one
            source image, multi-image editing several.
        dimensions: What the prompt is judged on, by the dimensions' names without
            `i2i.<track>.`; by default the dimensions of every prompt of its track, text with a
            `target_text` and world knowledge with a `hint`.
    """

    task: Annotated[str, AfterValidator(_check_task)]
    dimensions: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _of_its_track(self) -> Self:
        track = TRACKS[self.task]
        several = len(self.images) > 1
        if several != (track == "me"):
            fitting = ", ".join(CATEGORIES["me" if several else "se"])
            raise ValueError(
                f"{self.task} is {TITLES[track].lower()}, and there "
                f"{'are several source images' if several else 'is one source image'}; "
                f"give another task ({fitting}) or other sources"
            )
        return self

    @model_validator(mode="after")
    def _check_dimensions(self) -> Self:
        if "dimensions" in (self.extra or {}):
            raise ValueError("extra: `dimensions` is a field of its own, beside `extra`")
        dimension_names, track = self.dimensions, TRACKS[self.task]
        if dimension_names is None:
            return self
        for name in dimension_names:
            if name not in DIMENSIONS[track]:
                names = ", ".join(DIMENSIONS[track])
                raise ValueError(f"dimensions: {track} has no {name!r} (there is {names})")
            need = NEEDS.get(name)
            if need and getattr(self, need) is None:
                raise ValueError(f"dimensions: {name} needs a `{need}`")
        if not dimension_names or len(set(dimension_names)) < len(dimension_names):
            raise ValueError("dimensions: name at least one, and none of them twice")
        return self

    @property
    def texts(self) -> dict[str, Any]:
        """The item's fields; `extra` holds the names of its dimensions."""
        dimension_names = self.dimensions
        if dimension_names is None:
            dimension_names = usual(
                TRACKS[self.task], target_text=self.target_text is not None, hint=self.hint is not None
            )
        texts = super().texts
        return texts | {"extra": {**texts["extra"], "dimensions": dimension_names}}


class I2iData(ItemsFile):
    """Prompts in `items.jsonl`."""

    line = I2iLine

    def notes(self) -> tuple[str, ...]:
        """Return what only a switch judges, and what lacks a field."""
        lines = [ref.data for ref in self.items()]
        with_artifacts = [line for line in lines if ARTIFACTS in (line.dimensions or ())]
        what = f"names {ARTIFACTS}, judged of multi-image editing with `--with me_editing_artifacts` alone"
        odd = {what: [line.id for line in with_artifacts if TRACKS[line.task] == "me"]}
        usual_lines = [line for line in lines if line.dimensions is None]
        for task, dimension in ABOUT.items():
            without = [line.id for line in usual_lines if line.task == task and not getattr(line, NEEDS[dimension])]
            odd[f"{task} without a {NEEDS[dimension]}, so not judged on {dimension}"] = without
        return tuple(format_notes(odd))
