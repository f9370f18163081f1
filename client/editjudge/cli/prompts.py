"""`editjudge prompts`: import official prompts, check custom ones, and show a rubric's prompt."""

from pathlib import Path

from ..app.catalogue import TemplateEntry
from ..base.errors import ConfigError
from ..base.prompt_releases import import_official_prompts, prompt_releases
from ..base.terminal import print_text
from ..panel.prompt import Text
from ..prompts.custom_templates import check_templates, load_custom_templates
from ..prompts.prompt_files import list_files
from ..prompts.rubrics import load_rubric_files, select_rubrics
from .output import print_json


def import_command(name: str, path: Path, *, json: bool) -> None:
    """Find the official prompts of a benchmark and store them."""
    files = import_official_prompts(name, path)
    folder = prompt_releases()[name].folder
    if json:
        print_json({"prompts": name, "folder": folder, "found": files})
        return
    print_text(*(f"{file} from {source}" for file, source in files.items()), f"stored in {folder}")


def check_command(path: Path, *, json: bool) -> int:
    """Check custom prompts; return the exit code."""
    if path.is_file():
        (rubric,) = select_rubrics(load_custom_templates(load_rubric_files([path])))
        ends = dict.fromkeys(("sources", "edited", "target"), "\n")
        places = {name: f"[{name}]{ends.get(name, '')}" for name in rubric.fields}
        prompt = rubric.make_prompt(places)
        words = "".join(part.text for part in prompt.parts if isinstance(part, Text))
        better = "higher" if rubric.higher_is_better else "lower"
        scale = f"{rubric.low}..{rubric.high}, {better} is better"
        print_text(f"{rubric.dimension}  {scale}  {rubric.digest[:19]}")
        print_text(f"\n-- system\n{prompt.system}\n\n-- user\n{words}")
        return 0
    texts, strays = list_files(path)
    read = (*check_templates(texts, str(path)), *strays)
    problems = tuple(str(one) for one in read if isinstance(one, ConfigError))
    templates = [TemplateEntry.of(one) for one in read if not isinstance(one, ConfigError)]
    if json:
        print_json({"templates": templates, "problems": problems})
        return 2 if problems else 0
    for template in templates:
        print_text(f"{template.name:<48} {template.origin}  {template.digest[:19]}")
    print_text(*problems, "some prompts cannot be used" if problems else "no problems found")
    return 2 if problems else 0
