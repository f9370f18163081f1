"""`editjudge prompts`: bring official prompts here, and check one's own."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.lists import Checked, Imported, Template
from ..base.errors import ConfigError
from ..base.official import import_official_prompts, official_prompts
from ..base.screen import say, say_json
from ..base.strict import text_of
from ..prompts.custom import checked, custom_templates
from ..prompts.folder import files_in
from ..prompts.rubrics import rubric_files, rubrics_among
from .options import PATH, takes
from .scoring import show_prompt


@click.group("prompts")
def command() -> None:
    """Import the official prompts of a benchmark, or check prompts of your own.

    Imported ones lie under EDITJUDGE_PROMPTS_DIR, or in the user's data folder. `editjudge list
    prompts` shows ours.
    """


@command.command("import")
@click.argument("name", metavar="BENCH")
@click.argument("path", type=PATH)
@takes("json")
def import_(name: str, path: Path, *, json: bool) -> None:
    """Find the prompts of BENCH by their digests and keep them.

    PATH is a copy of the official repository, or a file or folder with the texts. A text that
    differs in one byte is not taken.
    """
    files = import_official_prompts(name, path)
    folder = official_prompts()[name].folder
    if json:
        say_json(text_of(Imported(prompts=name, folder=folder, found=files)))
        return
    for file, source in files.items():
        say(f"{file} from {source}")
    say(f"kept in {folder}")


@command.command("check")
@click.argument("path", type=PATH)
@takes("json")
def check(path: Path, *, json: bool) -> int:
    """Check prompts of your own; nothing is called.

    PATH is the folder of --prompts, or the file of a --rubric. Of a rubric what a judge is asked is
    shown, with the places of pictures and texts; editjudge score --dry-run fills them in. Exit code
    2 when one cannot be used; each is told, with its mend.
    """
    if path.is_file():
        (rubric,) = rubrics_among(custom_templates(rubric_files([path])))
        ends = dict.fromkeys(("sources", "edited", "target"), "\n")
        places = {name: f"[{name}]{ends.get(name, '')}" for name in rubric.fields}
        show_prompt(rubric, rubric.prompt(places))
        return 0
    texts, strays = files_in(path)
    read = (*checked(texts, str(path)), *strays)
    problems = tuple(str(one) for one in read if isinstance(one, ConfigError))
    templates = tuple(
        Template.model_validate(one, from_attributes=True)
        for one in read
        if not isinstance(one, ConfigError)
    )
    if json:
        say_json(text_of(Checked(templates=templates, problems=problems)))
        return 2 if problems else 0
    for template in templates:
        say(f"{template.name:<48} {template.origin}  {template.digest[:19]}")
    for problem in problems:
        say(problem)
    say("something is wrong" if problems else "all is well")
    return 2 if problems else 0
