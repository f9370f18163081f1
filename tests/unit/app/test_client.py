"""One edit from Python, without any service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import editjudge
from editjudge import Client
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.item import Edit
from editjudge.base.signature import Signature
from editjudge.base.verdict import NotServed, Score
from editjudge.benchmarks.dimension import Dimension
from editjudge.benchmarks.registry import load_dimensions


def test_an_edit_is_judged_in_ones_own_words(photo_file: Path, tmp_path: Path) -> None:
    words = tmp_path / "mine"
    (words / "core").mkdir(parents=True)
    file = words / "core" / "instruction_following.toml"
    asked = {
        "source": photo_file,
        "edited": photo_file,
        "instruction": "make it red",
        "dimensions": ["core.instruction_following", "core.editing_artifacts"],
        "settings": Settings(),
    }
    file.write_text('user = "{sources}{edited}{instruction}"')
    judged = editjudge.score(**asked, prompts=words)  # type: ignore[arg-type]
    assert {name: d.prompt_origins for name, d in judged.dimensions.items()} == {
        "core.instruction_following": "custom",
        "core.editing_artifacts": "own",
    }
    assert all(isinstance(outcome, NotServed) for outcome in judged.outcomes.values())
    file.write_text('user = "{edited}{instruction}"')
    with pytest.raises(ConfigError, match=r"instruction_following\.toml lacks {sources}"):
        editjudge.score(**asked, prompts=words)  # type: ignore[arg-type]


async def test_a_client_makes_a_signature_once(
    photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as it knows the same dimensions, and the services stay what they are."""
    made: list[str] = []
    plain = Dimension.signature

    def counted(self: Dimension, *given: Any) -> Signature:
        made.append(self.variant)
        return plain(self, *given)

    monkeypatch.setattr(Dimension, "signature", counted)
    edit = Edit.load(source=photo_file, edited=photo_file, instruction="x")
    name = "core.mse.source.whole"
    own = replace(load_dimensions()[name], variant="mine")
    async with Client(Settings()) as client:
        first = await client.score(edit, [name])
        assert (await client.score(edit, [name])).signatures == first.signatures
        assert len(made) == 1
        of_own = await client.score(edit, [own])
        assert of_own.signatures[name] != first.signatures[name]
        assert made[1:] == ["mine"]
        another = {ServiceName("quality", "piqe"): ModelIdentity("another")}
        monkeypatch.setattr(client.panel, "identities", lambda: another)
        assert (await client.score(edit, [own])).signatures == of_own.signatures
        assert made[1:] == ["mine", "mine"]


async def test_score_works_where_a_loop_runs(photo_file: Path) -> None:
    judged = editjudge.score(
        source=photo_file,
        edited=photo_file,
        instruction="x",
        dimensions=["core.mse.source.whole"],
        settings=Settings(),
    )
    (outcome,) = judged.outcomes.values()
    assert isinstance(outcome, Score)
    assert outcome.value == 0.0


def test_one_dimension_needs_no_list(photo_file: Path) -> None:
    edit: dict[str, Any] = {"source": photo_file, "edited": photo_file, "instruction": "x"}
    by_name = editjudge.score(**edit, dimensions="core.mse.source.whole")
    declared = load_dimensions()["core.mse.source.whole"]
    by_itself = editjudge.score(**edit, dimensions=declared)
    assert [*by_name.outcomes] == [*by_itself.outcomes] == ["core.mse.source.whole"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dimensions": []}, "no dimension is selected"),
        ({"instruction": None}, "instruction: NoneType where text"),
        ({"target_text": 5}, "target text: int where text"),
        ({"source": None}, "NoneType is not an image"),
        ({"source": []}, "source: no picture"),
        ({"edited": None}, "NoneType is not an image"),
        ({"mask": 5}, "int is not an image"),
    ],
)
def test_what_was_given_wrongly_is_named(
    photo_file: Path, given: dict[str, Any], words: str
) -> None:
    edit: dict[str, Any] = {"source": photo_file, "edited": photo_file, "instruction": "x"}
    with pytest.raises(editjudge.EditjudgeError, match=words):
        editjudge.score(**edit | given)
