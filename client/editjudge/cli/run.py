"""`editjudge run`: judge models on a data set, and go on where it ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..config import Settings
from ..errors import ConfigError, InputError
from .options import (
    asking_options,
    config_option,
    dimension_option,
    endpoint_option,
    generalist_option,
    json_option,
    judge_option,
    pairs_of,
    replicas_of,
    root_option,
    rules_of,
    rules_option,
    services_at_hand,
    settings_of,
    with_generalist,
)

_RESUME = "the same command goes on where this ended"


@click.command("run")
@click.argument("benchmark")
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="The benchmark's data: items.jsonl of core (docs/runs.md), a folder (docs/benchmarks.md).",
)
@root_option
@rules_option
@click.option(
    "--outputs",
    "outputs",
    multiple=True,
    required=True,
    metavar="MODEL=DIR",
    help="A model under test and its DIR/<item id>.png; may be given several times.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder of the run; kept."
)
@dimension_option
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="TASK",
    help="Only items of this task, or of all that a glob names; may be given several times.",
)
@click.option("--limit", type=click.IntRange(1), help="Only the first items.")
@click.option(
    "--retry",
    type=click.Choice(["unscored"]),
    help="Ask again what has no number, instead of taking the stored replies.",
)
@click.option("--dry-run", is_flag=True, help="Say what it would take, and call nothing.")
@click.option(
    "--fail-on-error",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="End when more than this share of verdicts failed, for example 0.05.",
)
@endpoint_option
@generalist_option
@asking_options
@judge_option
@config_option
@json_option
def command(
    benchmark: str,
    data: Path,
    roots: tuple[str, ...],
    protocol: str | None,
    with_: tuple[str, ...],
    without: tuple[str, ...],
    weights: str | None,
    outputs: tuple[str, ...],
    out: Path,
    patterns: tuple[str, ...],
    tasks: tuple[str, ...],
    limit: int | None,
    retry: str | None,
    dry_run: bool,
    fail_on_error: float | None,
    endpoints: tuple[str, ...],
    judges: tuple[str, ...],
    repeats: int | None,
    config: Path | None,
    as_json: bool,
    **asking: Any,
) -> int:
    """Judge the outputs of models to a data set's items; resumed by the same command.

    BENCHMARK is core for data of one's own, or one of those that editjudge list benchmarks shows.

    Exit code 3 when verdicts failed, nothing could be judged, or the run ended early
    (--fail-on-error, --max-cost).
    """
    from ..benchmarks.registry import benchmark as benchmark_of
    from ..run.opened import dataset_of, ordered
    from ..run.work import Survey

    chosen = benchmark_of(benchmark)
    before = _header(out)
    rules = rules_of(chosen, protocol, with_, without, weights)
    settings = with_generalist(settings_of(config, endpoints), **asking)
    replicas = replicas_of(judges, repeats)
    check_judges(settings, replicas.judges if judges else ())
    order = ordered(
        chosen,
        rules,
        dataset_of(chosen, data, _roots(roots, before, benchmark)),
        models_of(outputs),
        patterns,
        limit=limit,
        tasks=tasks,
        replicas=replicas,
    )
    survey = Survey(order)
    if dry_run:
        return _dry_run(survey, out, settings, as_json=as_json)
    if before is None:
        survey.work(None, {})  # ends here, and nothing is begun, where outputs cannot be used
    return _run(survey, out, settings, before, retry, fail_on_error, as_json=as_json)


def _roots(flags: tuple[str, ...], before: Any, benchmark: str) -> Mapping[str, str]:
    """Those of the run, where none are given; kept so that they hold in any folder."""
    pairs = pairs_of("--root", flags).items()
    given = {old: os.path.abspath(Path(new).expanduser()) for old, new in pairs}  # noqa: PTH100
    if before is None or before.benchmark != benchmark or given == before.roots:
        return given
    if not given:
        return dict(before.roots)
    click.echo("roots are others than before: files there are taken to be the same", err=True)
    return given


def check_judges(settings: Settings, judges: tuple[str, ...]) -> None:
    """Refuse a judge that no generalist is configured for.

    Raises:
        ConfigError: names it, and those there are.
    """
    for name in judges:
        if name not in settings.generalists:
            has = ", ".join(settings.generalists) or "none"
            raise ConfigError(
                f"--judge {name}: no generalist has this name (there is {has})",
                f"give --generalist {name}=URL",
            )


def models_of(outputs: tuple[str, ...]) -> dict[str, Path]:
    """The folders of outputs by model.

    Raises:
        InputError: not MODEL=DIR, or a model twice.
    """
    found: dict[str, Path] = {}
    for one in outputs:
        model, equals, folder = one.partition("=")
        if not model or not equals or not folder or not model.isprintable():
            raise InputError("--outputs", f"{one!r} is not MODEL=DIR")
        if model in found:
            raise InputError("--outputs", f"two folders for {model}")
        found[model] = Path(folder)
    return found


def _run(
    survey: Any,
    out: Path,
    settings: Settings,
    before: Any,
    retry: str | None,
    fail_on_error: float | None,
    *,
    as_json: bool,
) -> int:
    from ..report.live import display
    from ..run.estimate import notes
    from ..run.session import Session, header_of
    from ..run.store import RunStore
    from ..run.summary import cells

    header = header_of(survey.order, settings)
    if before is not None:
        # Until today's judges are found, those of the last session are who judged.
        header = header.model_copy(update={"settings": before.settings})
    with RunStore.open(out, header) as store:
        if retry:
            dropped = _dropped(store, survey.order)
            click.echo(f"{dropped:,} unscored verdicts are asked for again", err=True)
        with display(as_json=as_json) as shown:
            session = Session(survey, store, settings, shown)
            left = session.left(before)
            for model, (count, reason) in left.missing.items():
                if count:
                    gone = left.gone[model]
                    kept = f"; {gone:,} were judged before and stay judged" if gone else ""
                    shown.say(f"{model}: {count:,} outputs are missing (first: {reason}){kept}")
            if not left.edits:
                finished = session.nothing_left(left)
            else:
                specialists = any(not r.startswith("generalist.") for r in left.roles)
                with services_at_hand(settings, start=specialists, say=shown.say) as at_hand:
                    session.settings = at_hand
                    for line in notes(survey.order, at_hand):
                        shown.say(line)
                    finished = session.judge(left, fail_on_error)
        table = cells(store, finished.work, finished.signatures)
        for model, reasons in _unreadable(store, finished.work).items():
            shown.say(f"{model}: {len(reasons):,} outputs cannot be read (first: {reasons[0]})")
        return _told(finished, table, out, store.header.identities, as_json=as_json)


def _unreadable(store: Any, work: Any) -> dict[str, list[str]]:
    """By model, why outputs that are there count as missing, of the items asked for."""
    from ..run.work import UNREADABLE

    asked = {work.ids[index] for index in work.asked}
    found: dict[str, list[str]] = {}
    for model in work.todo:
        for one in store.edits(model):
            if one.item in asked and one.missing.startswith(UNREADABLE):
                found.setdefault(model, []).append(one.missing.removeprefix(UNREADABLE))
    return found


def _header(out: Path) -> Any:
    """Of the run as the last session left it; None where there is none."""
    from ..run.store import FILE, RunStore

    if not (out / FILE).is_file():
        return None
    try:
        with RunStore.open(out, read_only=True) as store:
            return store.header
    except ConfigError:  # of an older version, or begun and not yet written
        return None


def _dropped(store: Any, order: Any) -> int:
    return sum(
        store.drop_verdicts("unscored", model=model, dimension=dimension.id)
        for model in order.outputs
        for dimension in order.dimensions
    )


def _dry_run(survey: Any, out: Path, settings: Settings, *, as_json: bool) -> int:
    from ..client import with_local_stack
    from ..report.result import dumps
    from ..run.estimate import as_json as as_data
    from ..run.estimate import estimate, lines
    from ..run.session import asking, planned
    from ..run.store import FILE, RunStore

    if (out / FILE).is_file():
        with RunStore.open(out, read_only=True) as store:
            header = store.header
            same = header.settings == asking(settings)
            work = planned(survey, store, header.identities if same else {})
    else:
        work = survey.work(None, {})
    found = estimate(work, with_local_stack(settings))
    if as_json:
        click.echo(dumps(as_data(found)))
        return 0
    for line in lines(found, work):
        click.echo(line)
    return 0


def _told(
    finished: Any, table: Any, out: Path, identities: Mapping[str, str], *, as_json: bool
) -> int:
    from ..report.columns import results_table
    from ..report.live import emit, summary
    from ..report.table import console, untrained_line, usage_text
    from ..run.summary import as_json as as_data
    from ..run.summary import columns

    failed = finished.progress.verdicts["failed"]
    work = finished.work
    waiting = 0 if finished.progress.edits else work.total("not_served")
    nothing = waiting and not work.total("standing")
    code = {"interrupted": 130, "done": 3 if failed or nothing else 0}.get(finished.ended, 3)
    if as_json:
        emit("finished", _ended(finished, code) | {"columns": as_data(table)})
        return code
    from ..benchmarks.replicas import is_replica

    judged = [d for d in work.order.dimensions if _asked(table, d.id) and not is_replica(d.id)]
    screen = console()
    screen.print(results_table(columns(judged), table, width=screen.width))
    roles = work.order.roles(d.id for d in judged)
    if warning := untrained_line({r: one for r, one in identities.items() if r in roles}):
        click.secho(warning, fg="red", bold=True)
    for reason, names in finished.not_served.items():
        click.echo(f"not judged, {reason}: {', '.join(names)}")
    if finished.usage:
        click.echo(f"generalists took {usage_text(finished.usage)}")
    if finished.progress.edits:
        click.echo(summary(finished.progress, None), err=True)
    elif waiting:
        click.echo(f"nothing could be judged: {waiting:,} verdicts wait for a service", err=True)
    else:
        click.echo("nothing was left to do", err=True)
    for line in _ending(finished, failed):
        click.echo(line, err=True)
    click.echo(f"kept in {out}", err=True)
    return code


def _ended(finished: Any, code: int) -> dict[str, Any]:
    """How it ended, as plain data."""
    from ..run.progress import as_event

    progress = finished.progress
    return as_event(progress) | {
        "ended": finished.ended,
        "exit_code": code,
        "usage": dict(finished.usage),
        "unscored": {
            kind: {"count": count, "first": progress.why_unscored[kind]}
            for kind, count in progress.unscored.items()
        },
        "first_failure": progress.first_failure or None,
        "not_served": dict(finished.not_served),
    }


def _asked(table: Any, name: str) -> bool:
    return any(set(row[name].counts) - {"not_served"} for row in table.values())


def _ending(finished: Any, failed: int) -> list[str]:
    lines = []
    progress = finished.progress
    for kind, count in progress.unscored.most_common():
        why = progress.why_unscored[kind]
        lines.append(f"{count:,} verdicts have no number, {kind} (first: {why})")
    if failed:
        lines.append(f"{failed:,} verdicts failed (first: {finished.progress.first_failure})")
    why = {
        "interrupted": "interrupted",
        "failures": "ended: too many verdicts failed",
        "judge": "ended: a judge cannot be used",
        "cost": "ended before max_cost was passed; with a higher --max-cost",
    }.get(finished.ended)
    if why or failed:
        lines.append(f"{why}; {_RESUME}" if why else _RESUME)
    return lines
