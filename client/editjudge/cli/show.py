"""`editjudge show`: one edit of a run, with every verdict and what it rests on."""

from __future__ import annotations

from json import dumps
from pathlib import Path

import click

from ..app.verdicts import Row, Shown, ShownEdit
from ..app.view import RunView
from ..base.errors import ConfigError, EditjudgeError
from ..base.screen import say, say_json
from ..base.strict import text_of
from .options import PATH, takes


@click.command("show")
@click.argument("run", type=PATH)
@click.argument("edit")
@takes("dimension", "json", model={"help": "Only of this model under test."})
def command(
    run: Path, edit: str, dimension: tuple[str, ...], model: str | None, *, json: bool
) -> int:
    """Show one edit of a run: EDIT is the item's id.

    Shows every verdict with its reason, its evidence, the raw replies and its signature. Works
    while the run goes on.
    """
    with RunView(run) as view:
        of_item = [each for each in view.edits(model) if each.item == edit]
        edits = tuple(ShownEdit.of(view, e) for e in of_item)
        if not edits:
            of = f" of {model}" if model else ""
            has = ", ".join(view.header.outputs)
            raise ConfigError(f"{run} holds no edit {edit!r}{of}", f"its models: {has}")
        shown = _shown(view, edit, edits)
        shown = _only(shown, view.named(dimension)) if dimension else shown
    if json:
        say_json(text_of(shown))
        return 0
    if shown.instruction is not None:
        say(f"{edit}: {shown.instruction}")
    for shown_edit in shown.edits:
        _show(shown_edit)
    for name, why in shown.not_served.items():
        say(f"\n  {name}: not served\n    {why}")
    for name, why in shown.spoilt.items():
        say(f"\n  {name}: unscored (told by the data)\n    {why}")
    return 0


def _shown(view: RunView, edit: str, edits: tuple[ShownEdit, ...]) -> Shown:
    """Add what the data has of the item, where the data is still there."""
    instruction: str | None = None
    files: tuple[Path, ...] = ()
    try:
        item = view.item(edit)
        if item is not None:
            instruction, files = item.instruction, view.pictures(edit).files
    except (EditjudgeError, ValueError):
        pass
    return Shown(
        item=edit,
        instruction=instruction,
        files=files,
        edits=edits,
        not_served=view.waiting_for(edit),
        spoilt={name: one.reason for name, one in view.spoilt(edit).get(edit, {}).items()},
    )


def _only(shown: Shown, names: frozenset[str]) -> Shown:
    """What is told of some dimensions alone."""

    def of(verdicts: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(verdict for verdict in verdicts if verdict.dimension in names)

    edits = tuple(e.model_copy(update={"verdicts": of(e.verdicts)}) for e in shown.edits)
    return shown.model_copy(
        update={
            "edits": edits,
            "not_served": {n: why for n, why in shown.not_served.items() if n in names},
            "spoilt": {n: why for n, why in shown.spoilt.items() if n in names},
        }
    )


def _show(edit: ShownEdit) -> None:
    say(f"\n{edit.model}  {edit.output or edit.missing}", bold=True)
    for verdict in edit.verdicts:
        _show_verdict(verdict)


def _show_verdict(verdict: Row) -> None:
    value = f"{verdict.value:.6g}" if verdict.value is not None else None
    kind = f" ({verdict.kind})" if verdict.kind else ""
    say(f"\n  {verdict.dimension}: {value or f'{verdict.status}{kind}'}")
    if verdict.reason:
        say(f"    {verdict.reason}")
    for name, evidence in (verdict.evidence or {}).items():
        text = evidence if isinstance(evidence, str) else dumps(evidence, indent=2)
        _block(name, text)
    for call in verdict.calls or ():
        words = call.reply.get("text") if isinstance(call.reply, dict) else None
        text = words if isinstance(words, str) and words else dumps(call.reply, indent=2)
        _block(f"{call.model or call.judge} replied", text)
    say(f"    {verdict.signature}", dim=True)
    say(f"    made with {verdict.versions}", dim=True)


def _block(title: str, text: str) -> None:
    say(f"    {title}: " + text.replace("\n", "\n    "))
