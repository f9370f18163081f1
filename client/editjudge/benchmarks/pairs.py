"""Pairs: every two models' edits of an item, in both orders, as items of a data set.

The edit that is shown first is the output, and the one shown second is the target. So a run about
pairs is a run like any other.
"""

from collections.abc import Callable, Container, Iterator
from functools import cached_property
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from ..base.digest import content_digest
from ..base.errors import InputError
from ..base.parse import first_problem
from .dataset import Dataset, ItemRef, Problem, format_notes
from .outputs import NamedOutputs

FILE = "pairs.json"
"""What the file is called; it says which pairs, of which data."""
FIRST = "first"
"""The one model of such a run, and in the place of its folder: the edits that are shown first."""
PREFERENCE = "core.preference"
"""The dimension that is asked about where none is named."""
PAIR = "pair"
"""The field of an item's `extra` that names the item, the first model and the second one."""
_Edit: TypeAlias = tuple[str, str]
"""A model, and the file of its output."""


class PairsFile(BaseModel):
    """Which edits are compared.

    Attributes:
        data: The data of the items.
        outputs: The folder of outputs by model.
        per_item: How many pairs of models are drawn at random for each item; None for all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Path
    outputs: dict[str, Path] = Field(min_length=2)
    per_item: PositiveInt | None = None


class Pairs(Dataset):
    """The pairs that a `PairsFile` names. A pair of which an edit is missing is left out.

    Args:
        path: The file.
        read: Reads the data of the items.

    Raises:
        InputError: the file cannot be read, or its data.
    """

    def __init__(self, path: Path, read: Callable[[Path], Dataset]) -> None:
        try:
            self._text = path.read_bytes()
            plan = PairsFile.model_validate_json(self._text)
        except ValidationError as error:
            raise InputError(str(path), str(first_problem(error, PairsFile)), "run with --pairs again") from error
        self._items = read(plan.data)
        folders = (self._items.folder, *plan.outputs.values(), *self._items.roots.values())
        super().__init__(path, roots={str(each): str(each) for each in folders})
        self._edits = {model: self._items.outputs(folder).index() for model, folder in plan.outputs.items()}
        self._per_item = plan.per_item

    @cached_property
    def digest(self) -> str:
        """The digest of the file and of the data that it names."""
        return content_digest(self._text + self._items.digest.encode())

    def doubts(self) -> tuple[str, ...]:
        """Return those of the data, and the items without any pair."""
        alone = (ref.id for ref in self._items.items() if not self._draw(ref.id))
        notes = format_notes({"no pair: fewer than two models have an output": alone})
        return (*self._items.doubts(), *notes)

    def _read(self, only: Container[int] | None = None, problems: list[Problem] | None = None) -> Iterator[ItemRef]:
        index = 0
        for ref in self._items.items() if problems is None else self._items.check_items():
            sources = self._items.files(ref)[: len(ref.files["source"])]
            flaws = {name: flaw for name, flaw in ref.flaws.items() if name not in {"mask", "target"}}
            for (first, output), (second, target) in self._draw(ref.id):
                if only is None or index in only:
                    texts = {**ref.texts, "extra": {**ref.texts.get("extra", {}), PAIR: (ref.id, first, second)}}
                    files, name = {"source": sources, "target": (target,)}, f"{ref.id}--{first}--{second}"
                    yield ItemRef(name, index, texts, files, flaws, Path(output), ref.other_inputs)
                index += 1

    def _draw(self, item: str) -> list[tuple[_Edit, _Edit]]:
        """Draw the pairs of an item, each in both orders; a pair's place in the draw is its own."""
        edits = [(model, path) for model, outputs in self._edits.items() if (path := outputs.path(item))]

        def number(pair: tuple[_Edit, _Edit]) -> bytes:
            return blake2b(repr((item, *sorted(model for model, _ in pair))).encode()).digest()

        pairs = sorted(combinations(edits, 2), key=number)[: self._per_item]
        return [order for a, b in pairs for order in ((a, b), (b, a))]

    def has_outputs(self, folder: Path) -> bool:
        """True: the edits that are shown first are not in a folder of their own."""
        return True

    def outputs(self, folder: Path) -> NamedOutputs:
        """Return the edits that are shown first."""
        return NamedOutputs(folder, {ref.id: ref.data for ref in self.items()}, "no edit is shown first in {item}")
