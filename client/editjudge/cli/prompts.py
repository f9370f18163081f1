"""`editjudge prompts`: bring official prompts here, check one's own, show what a rubric asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..app.wire.base import text_of
from ..app.wire.lists import Checked, Imported, Template
from ..base.errors import ConfigError, InputError
from ..base.official import import_official_prompts, official_prompts
from ..base.screen import say, say_json
from ..prompts.custom import checked, custom_templates
from ..prompts.folder import files_in
from .options import json_option

if TYPE_CHECKING:
    from ..base.item import Edit
    from ..panel.prompt import Part, Prompt
    from ..prompts.rubrics import RubricTemplate


@click.group("prompts")
def command() -> None:
    """Import the official prompts of a benchmark, or check templates of your own.

    Imported ones lie under EDITJUDGE_PROMPTS_DIR, or in the user's data folder. `editjudge list
    prompts` shows ours.
    """


@command.command("import")
@click.argument("name", metavar="BENCH")
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path),
    help="A copy of the official repository, or a file or folder with the texts.",
)
@json_option
def import_(name: str, source: Path, as_json: bool) -> None:
    """Find the prompts of BENCH by their digests and keep them.

    A text that differs in one byte is not taken.
    """
    files = import_official_prompts(name, source)
    folder = official_prompts()[name].folder
    if as_json:
        say_json(text_of(Imported(prompts=name, folder=folder, found=files)))
        return
    for file, path in files.items():
        say(f"{file} from {path}")
    say(f"kept in {folder}")


@command.command("check")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def check(folder: Path, as_json: bool) -> int:
    """Check templates of your own before --prompts DIR; nothing is called.

    Exit code 2 when one cannot be used; each is told, with its mend.
    """
    texts, strays = files_in(folder)
    read = (*checked(texts, str(folder)), *strays)
    problems = tuple(str(one) for one in read if isinstance(one, ConfigError))
    templates = tuple(
        Template.model_validate(one, from_attributes=True)
        for one in read
        if not isinstance(one, ConfigError)
    )
    if as_json:
        say_json(text_of(Checked(templates=templates, problems=problems)))
        return 2 if problems else 0
    for template in templates:
        say(f"{template.name:<48} {template.origin}  {template.digest[:19]}")
    for problem in problems:
        say(problem)
    say("something is wrong" if problems else "all is well")
    return 2 if problems else 0


_FILE = click.Path(path_type=Path)


@command.command("preview")
@click.argument("file", metavar="FILE", type=_FILE)
@click.option("--source", "sources", multiple=True, type=_FILE, help="The image before the edit.")
@click.option("--edited", type=_FILE, help="The image after the edit.")
@click.option("--instruction", default="", help="The instruction of the edit.")
@click.option("--target", type=_FILE, help="The ground-truth result.")
@click.option("--target-text", help="Text that the result must show.")
def preview(
    file: Path,
    sources: tuple[Path, ...],
    edited: Path | None,
    instruction: str,
    target: Path | None,
    target_text: str | None,
) -> None:
    """Show what a judge is asked by a rubric; nothing is called.

    FILE is what run and score take as --rubric. Without --source and --edited the places of
    pictures and texts are shown.
    """
    from ..app.client import make_edit
    from ..prompts.rubrics import rubric_files, rubrics_among

    (rubric,) = rubrics_among(custom_templates(rubric_files([file])))
    if bool(sources) != bool(edited):
        raise InputError("preview", "one picture of the edit alone", "give --source and --edited")
    if edited is None:
        ends = dict.fromkeys(("sources", "edited", "target"), "\n")
        prompt = rubric.prompt({n: f"[{n}]{ends.get(n, '')}" for n in rubric.fields})
    else:
        edit = make_edit(
            source=sources,
            edited=edited,
            instruction=instruction,
            target=target,
            target_text=target_text,
        )
        prompt = _about(rubric, edit)
    better = "higher" if rubric.higher_is_better else "lower"
    say(
        f"{rubric.dimension}  {rubric.low}..{rubric.high}, {better} is better  {rubric.digest[:19]}"
    )
    say(f"\n-- system\n{prompt.system}\n\n-- user\n{''.join(map(_shown, prompt.parts))}")


def _about(rubric: RubricTemplate, edit: Edit) -> Prompt:
    """The prompt about an edit.

    Raises:
        InputError: the rubric shows what the edit lacks.
    """
    from ..base.config import GeneralistEndpoint
    from ..panel.pictures import Pictures
    from ..scorers.asking import prompt_about

    usual = GeneralistEndpoint.model_fields["max_pixels"].default
    try:
        return prompt_about(rubric, edit, Pictures(usual).prepared)
    except ValueError as error:
        raise InputError("preview", str(error), "give it, or take it out of shows") from error


def _shown(part: Part) -> str:
    from ..panel.prompt import Text

    if isinstance(part, Text):
        return part.text
    return f"[{part.name}, {part.size[0]}x{part.size[1]}, {part.media_type}]"
