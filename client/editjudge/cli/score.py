"""`editjudge score`: judge one edit."""

from __future__ import annotations

from typing import Any

import click

from . import importing
from .options import settings_of, takes, texts_in, with_rubrics

_EDIT = ("source", "edited", "instruction", "mask", "target", "target_text")


@click.command("score")
@takes(*_EDIT, "dimension", "prompts", "rubric")
@takes(dry_run="Show what a judge is asked by each --rubric, and call nothing.")
@takes("generalist", "judge_model", "endpoint", "gateway", "ledger", "json")
def command(*, dry_run: bool, json: bool, **asked: Any) -> int:
    """Judge one edit with every dimension whose inputs and services are at hand.

    For every other dimension the reason is given. Exit code 3 when a service failed.
    """
    with importing():
        from ..app.client import make_edit
        from ..prompts.rubrics import rubric_files
        from . import scoring

    edit = make_edit(**{name: asked[name] for name in _EDIT})
    own = rubric_files(asked["rubric"])
    if dry_run:
        return scoring.preview(edit, own)
    texts = {**(texts_in(asked["prompts"]) if asked["prompts"] else {}), **own}
    patterns = with_rubrics(asked["dimension"], own)
    return scoring.score(edit, patterns, texts, settings_of(asked), as_json=json)
