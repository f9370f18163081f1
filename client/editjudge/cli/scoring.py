"""`editjudge score`: judge one edit and show the verdicts."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ..app.client import Client, Judgement
from ..base.config import Settings
from ..base.item import Edit
from ..base.terminal import print_notice, print_text
from ..base.verdict import NotServed
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import add_specialists, load_benchmark, select_dimensions
from ..panel.specialists import list_custom_services
from ..prompts.custom_templates import load_custom_templates, load_custom_texts
from ..prompts.rubrics import load_rubric_files
from ..report.numbers import build_verdict_table, describe_judge_use, describe_skipped
from .local_stack import provide_services
from .options import add_rubrics, bind_single_judge, settings_from
from .output import print_json, print_tables

_EDIT_OPTIONS = ("source", "edited", "instruction", "mask", "target", "target_text")


def score_command(*, json: bool, **options: Any) -> int:
    """Judge an edit and show its verdicts; return the exit code."""
    edit = Edit.load(**{name: options[name] for name in _EDIT_OPTIONS})
    own = load_rubric_files(options["rubric"])
    prompts = {**(load_custom_texts(options["prompts"]) if options["prompts"] else {}), **own}
    patterns = add_rubrics(options["dimension"], own)
    settings = bind_single_judge(settings_from(options), options)
    rules = load_benchmark("core").rules().with_templates(load_custom_templates(prompts))
    rules = add_specialists(rules, list_custom_services(settings))
    dimensions = select_dimensions(patterns, rules)
    applicable = (d for d in dimensions if d.why_not_applicable(edit.item) is None)
    roles = {role for dimension in applicable for role in dimension.roles}
    with provide_services(settings, roles=roles, say=print_notice) as available:
        judgement = asyncio.run(_judge(available, edit, dimensions, prompts))
    if json:
        print_json(judgement.to_dict())
    else:
        _print_judgement(judgement, has_names=bool(patterns))
    is_absent = bool(patterns) and any(isinstance(each, NotServed) for each in judgement.outcomes.values())
    return 3 if judgement.has_failures or is_absent else 0


async def _judge(
    settings: Settings, edit: Edit, dimensions: tuple[Dimension, ...], prompts: Mapping[str, str]
) -> Judgement:
    async with Client(settings) as client:
        return await client.score(edit, dimensions, prompts)


def _print_judgement(judgement: Judgement, *, has_names: bool) -> None:
    """Print verdicts.

    Args:
        has_names: Whether the user named the dimensions, and so wants the reason of each.
    """
    table = build_verdict_table(judgement)
    if table.rows:
        print_tables([table])
    reasons = describe_skipped(judgement, in_full=has_names or not table.rows)
    print_text(*describe_judge_use(judgement), *reasons)
    item = judgement.edit.item
    image, mask = judgement.edit.image, item.mask
    if image and mask and mask.size != image.size:
        print_notice(f"note: {mask.name}: {_size(mask.size)}, resized to {_size(image.size)} where used")
    pictures = (*item.sources, image, mask, item.target)
    for picture in filter(None, pictures):
        print_notice(*(f"note: {picture.name}: {note}" for note in picture.notes))


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"
