"""`editjudge show`: one edit of a run, with every verdict and what it rests on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from .options import json_option


@click.command("show")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("edit")
@click.option("--model", help="Only of this model under test; all by default.")
@json_option
def command(run: Path, edit: str, model: str | None, as_json: bool) -> int:
    """Show one edit of a run: EDIT is the item's id.

    Every verdict with its reason, its evidence (raw replies among it) and its signature.
    Works beside a run that goes on.
    """
    from ..errors import ConfigError
    from ..report.result import dumps
    from ..run.opened import waiting
    from ..run.store import RunStore

    with RunStore.open(run, read_only=True) as store:
        header = store.header
        found = [_edit(store, one) for one in store.edits(model) if one.item == edit]
        absent = waiting(header)
    if not found:
        of = f" of {model}" if model else ""
        raise ConfigError(
            f"{run} holds no edit {edit!r}{of}", f"its models: {', '.join(header.outputs)}"
        )
    about = _item(header, edit)
    if as_json:
        click.echo(dumps({"item": edit, **about, "edits": found, "not_served": absent}))
        return 0
    if about:
        click.echo(f"{edit}: {about['instruction']}")
    for one in found:
        _show(one)
    for name, why in absent.items():
        click.echo(f"\n  {name}: not served\n    {why}")
    return 0


def _edit(store: Any, one: Any) -> dict[str, Any]:
    verdicts = [
        {"dimension": v.dimension} | v.verdict.model_dump(mode="json") | {"signature": v.signature}
        for v in store.verdicts(one.model, item=one.item)
    ]
    return {
        "model": one.model,
        "output": one.digest,
        "missing": one.missing,
        "verdicts": verdicts,
    }


def _item(header: Any, edit: str) -> dict[str, Any]:
    """What the data says of the item, where it is still there."""
    from ..errors import EditjudgeError
    from ..run.opened import order_of

    try:
        dataset = order_of(header).dataset
        for ref in dataset.items():
            if ref.id == edit:
                item = dataset.outline(ref)
                files = [str(path) for path in dataset.pictures(ref)]
                return {"instruction": item.instruction, "files": files}
    except (EditjudgeError, ValueError):
        pass
    return {}


def _show(one: dict[str, Any]) -> None:
    click.secho(f"\n{one['model']}  {one['output'] or one['missing']}", bold=True)
    for verdict in one["verdicts"]:
        value = verdict.get("value")
        shown = f"{value:.6g}" if value is not None else verdict.get("kind") or verdict["status"]
        click.echo(f"\n  {verdict['dimension']}: {shown}")
        if reason := verdict.get("reason") or verdict.get("error"):
            click.echo(f"    {reason}")
        for name, evidence in (verdict.get("evidence") or {}).items():
            text = evidence if isinstance(evidence, str) else json.dumps(evidence, indent=2)
            click.echo(f"    {name}: " + text.replace("\n", "\n    "))
        click.secho(f"    {verdict['signature']}", dim=True)
