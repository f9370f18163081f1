"""`editjudge prepare`: questions and masks for data, and their review."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..config import Settings
from .options import (
    config_option,
    endpoint_option,
    generalist_option,
    json_option,
    ledger_option,
    services_at_hand,
    settings_of,
    with_generalist,
)

if TYPE_CHECKING:
    from ..prepare.entry import Maker
    from ..prepare.folder import Folder, Record
    from ..prepare.session import Session

_PATH = click.Path(path_type=Path)
_LISTED = 20
"""How many items that failed, or where nothing was found, are listed."""
_OUT = click.option(
    "--out", required=True, type=_PATH, metavar="DIR", help="Folder for what is made; kept."
)


def _data_options(function: Any) -> Any:
    options = (
        click.option(
            "--data",
            required=True,
            type=_PATH,
            help="items.jsonl, of core, i2i or co_edit (docs/runs.md); left as it is.",
        ),
        _OUT,
        click.option("--limit", type=click.IntRange(1), help="Only the first items."),
        generalist_option,
        click.option(
            "--max-cost",
            type=click.FloatRange(0, min_open=True),
            help="Stop asking before this is spent, in the currency of the configured prices.",
        ),
        ledger_option,
        config_option,
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group("prepare")
def command() -> None:
    """Write questions and masks for data of your own, and review them.

    questions and masks go on where they ended when the same command is given again. Both write
    a page, review.html, on which people accept and reject; review applies what they decided.
    """


@command.command("questions")
@_data_options
@click.option(
    "--kind",
    type=click.Choice(["choice", "facts"]),
    default="choice",
    show_default=True,
    help="choice: one multiple-choice question per item, as GIE-Bench and core.multiple_choice "
    "ask; facts: 1 to 3 questions with their answers, as Omni IIE Bench and core.fact_check ask.",
)
def questions(kind: Literal["choice", "facts"], **given: Any) -> int:
    """Write questions about the result, for items that have none, with the generalist.

    Give --kind facts for pairs of question and answer: the default writes multiple-choice
    questions, for which an item's task chooses how it is asked: the nine edit types of GIE-Bench.
    Exit code 3 when an item failed.
    """
    from ..prepare.questions import QuestionWriter

    return _prepared(QuestionWriter(kind), **given)


@command.command("masks")
@_data_options
@endpoint_option
@click.option(
    "--segmenter",
    default="segmenter.grounded_sam",
    show_default=True,
    metavar="ROLE",
    help="segmenter.grounded_sam, segmenter.grounded_sam_huge or segmenter.sa2va.",
)
@click.option(
    "--select",
    type=click.Choice(["all", "best"]),
    default="all",
    show_default=True,
    help="Of several finds for a phrase: all, or the surest, as GIE-Bench does.",
)
def masks(segmenter: str, select: Literal["all", "best"], **given: Any) -> int:
    """Draw masks of what the instruction lets change, for items that have none.

    The generalist names what may change, the segmenter finds it. Exit code 3 when an item failed.
    """
    from ..errors import ConfigError
    from ..panel.services import SERVICES
    from ..prepare.masks import MaskFinder

    known = [name for name in SERVICES if name.startswith("segmenter.")]
    if segmenter not in known:
        raise ConfigError(
            f"--segmenter {segmenter}: no such segmenter", f"give one of {', '.join(known)}"
        )
    return _prepared(MaskFinder(segmenter, select), **given)


@command.command("gie")
@click.option(
    "--data", required=True, type=_PATH, help="The released gie_bench.json (600 MB), or its folder."
)
@_OUT
@json_option
def gie(data: Path, out: Path, as_json: bool) -> None:
    """Convert GIE-Bench's released file once, so that it loads in under a second.

    The licence of its masks forbids giving them on: so it is with what is written here.
    """
    from ..benchmarks.gie.compact import convert
    from ..benchmarks.gie.dataset import GieData
    from ..report.result import dumps

    converted = convert(data, out)
    notes = GieData(converted.folder).notes()
    if as_json:
        told = {
            "data": str(converted.folder),
            "items": converted.items,
            "bytes": converted.size,
            "data_digest": converted.digest,
            "notes": notes,
        }
        click.echo(dumps(told))
        return
    for note in notes:
        click.echo(f"note: {note}")
    click.echo(
        f"{converted.folder}: {converted.items:,} items, {converted.size / 1e6:.1f} MB;"
        " give it as --data"
    )


@command.command("review")
@click.argument("folder", type=_PATH, metavar="DIR")
@click.option("--decisions", required=True, type=_PATH, metavar="FILE", help="What the page saved.")
@json_option
def review(folder: Path, decisions: Path, as_json: bool) -> None:
    """Apply what was decided on the page of DIR.

    Accepted items go to DIR/accepted.jsonl, together with those that nothing was made for;
    rejected ones to DIR/rejected.jsonl, without their questions or mask. Undecided ones go to
    neither.
    """
    from ..prepare.folder import ACCEPTED, REJECTED, Folder
    from ..prepare.review import apply
    from ..report.result import dumps

    place = Folder(folder)
    with place.held():
        applied = apply(place, decisions)
    accepted, rejected = folder / ACCEPTED, folder / REJECTED
    if as_json:
        files = {"accepted_data": str(accepted), "rejected_data": str(rejected)}
        click.echo(dumps(vars(applied) | files))
        return
    for name, note in applied.rejected.items():
        click.echo(f"rejected: {name}{f': {note}' if note else ''}")
    click.echo(
        f"{applied.accepted:,} accepted, {len(applied.rejected):,} rejected,"
        f" {len(applied.undecided):,} not decided, {applied.untouched:,} untouched"
    )
    click.echo(f"{accepted}: {applied.accepted + applied.untouched:,} items")
    click.echo(f"{rejected}: {len(applied.rejected):,} items")


def _prepared(
    maker: Maker,
    *,
    data: Path,
    out: Path,
    limit: int | None,
    generalists: tuple[str, ...],
    judge_model: str | None,
    max_cost: float | None,
    ledger: Path | None,
    config: Path | None,
    as_json: bool,
    endpoints: tuple[str, ...] = (),
) -> int:
    from ..prepare.draft import DraftData
    from ..prepare.folder import CALLS, Folder
    from ..prepare.live import Live
    from ..prepare.session import Session
    from ..run.ledger import Ledger

    settings = with_generalist(
        settings_of(config, endpoints),
        generalists=generalists,
        judge_model=judge_model,
        max_cost=max_cost,
        ledger=ledger,
    )
    items = DraftData(data)
    for _ in items.checked():
        pass
    folder = Folder(out)
    with folder.held():
        record = folder.begin(items, maker.what)
        with Ledger(settings.ledger or out / CALLS) as calls:
            session = Session(items, maker, folder, calls, Live(), limit)
            session.own_ledger = settings.ledger is None
            _asked(session, settings)
            _kept(session, folder, record)
    return _told(session, folder, as_json=as_json)


def _asked(session: Session, settings: Settings) -> None:
    session.recall(settings)
    if not session.left:
        return
    specialists = any(not role.startswith("generalist.") for role in session.maker.roles)
    try:
        with services_at_hand(settings, start=specialists, say=session.live.say) as at_hand:
            session.make(at_hand, settings)
    except KeyboardInterrupt:
        session.live.say("interrupted; the same command goes on where this ended")
        raise


def _kept(session: Session, folder: Folder, record: Record) -> None:
    from ..prepare.sheet import write_sheet

    statuses = {name: entry.status for name, entry in session.entries.items()}
    record = record.model_copy(update={"made_by": session.identities, "statuses": statuses})
    # In this order: items are only there with the record of what became of them.
    folder.keep(record)
    folder.keep_items(session.data, session.entries)
    write_sheet(folder, record, session.entries)


def _told(session: Session, folder: Folder, *, as_json: bool) -> int:
    from ..prepare.entry import STATUSES
    from ..prepare.folder import REVIEW
    from ..report.result import dumps
    from ..report.table import usage_text

    counts = Counter(entry.status for entry in session.entries.values())
    code = 3 if counts["failed"] else 0
    page = folder.path / REVIEW
    reasons = {
        status: {
            name: entry.reason for name, entry in session.entries.items() if entry.status == status
        }
        for status in ("not_found", "unsuited", "failed")
    }
    if as_json:
        told = {
            "what": session.maker.what,
            "counts": {status: counts[status] for status in STATUSES},
            "reasons": reasons,
            "services": session.identities,
            "usage": session.usage,
            "data": str(folder.items),
            "review": str(page),
            "exit_code": code,
        }
        click.echo(dumps(told))
        return code
    for status, named in reasons.items():
        _list(status.replace("_", " "), named)
    said = [f"{counts[one]:,} {words}" for one, words in STATUSES.items() if counts[one]]
    click.echo(f"{session.maker.what}: {', '.join(said)}")
    if session.usage:
        click.echo(f"generalists took {usage_text(session.usage)}")
    click.echo(f"kept in {folder.path}; open {page} to accept or reject")
    if code:
        click.echo("the same command tries again what failed", err=True)
    return code


def _list(word: str, named: dict[str, str]) -> None:
    for name, reason in list(named.items())[:_LISTED]:
        click.echo(f"{word}: {name}: {reason}", err=True)
    if len(named) > _LISTED:
        click.echo(f"{word}: and {len(named) - _LISTED:,} more", err=True)
