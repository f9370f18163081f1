"""`editjudge prepare`: instructions, questions and masks for data, and their review."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import click

from ..app.wire.base import text_of
from ..app.wire.prepared import Converted, Prepared
from ..base.errors import ConfigError
from ..base.screen import say, say_json, tell
from ..base.words import counted
from ..benchmarks.dataset import mapped
from ..benchmarks.gie.compact import COMPARES, convert
from ..benchmarks.gie.dataset import GieData
from ..panel.services import SERVICES
from ..prepare.comparing import decide
from ..prepare.entry import JUDGE, STATUSES, Maker
from ..prepare.folder import Folder
from ..prepare.instructions import InstructionWriter
from ..prepare.masks import MaskFinder
from ..prepare.preparation import Preparation, preparing
from ..prepare.questions import FACTS, TASKS, QuestionWriter
from ..prepare.review import apply
from ..prompts import Template
from ..prompts.custom import custom_in
from ..report.numbers import usage_text
from ..scorers.segmenting import Select
from .options import (
    JudgeOptions,
    ServiceOptions,
    cost_option,
    json_option,
    ledger_option,
    limit_option,
    options,
    prompts_option,
    roots_of,
)
from .services import services_at_hand

_PATH = click.Path(path_type=Path)
_LISTED = 20
"""How many items are listed of each status that has reasons."""
_DATA = click.option(
    "--data",
    required=True,
    type=_PATH,
    help="items.jsonl, of core, i2i or co_edit (docs/runs.md); left as it is.",
)
_ROOT = click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="FOLDER",
    help="A folder outside that of the data whose pictures it may name; may be given several "
    "times.",
)
_OUT = click.option(
    "--out", required=True, type=_PATH, metavar="DIR", help="Folder of what is made; kept."
)


@dataclass(frozen=True)
class _DataOptions:
    """What is prepared, and where it goes."""

    data: Annotated[Path, _DATA]
    roots: Annotated[tuple[str, ...], _ROOT]
    out: Annotated[Path, _OUT]
    limit: Annotated[int | None, limit_option]
    max_cost: Annotated[float | None, cost_option]
    ledger: Annotated[Path | None, ledger_option]
    prompts: Annotated[Path | None, prompts_option]
    as_json: Annotated[bool, json_option]

    @property
    def custom(self) -> tuple[Template, ...]:
        """The templates of --prompts.

        Raises:
            ConfigError: they cannot be used, or nothing here asks one of them.
        """
        custom = () if self.prompts is None else custom_in(self.prompts)
        names = {template.name for template in custom}
        if names and not names & {FACTS, *TASKS.values(), "prepare/choice", "prepare/targets"}:
            raise ConfigError(
                f"{self.prompts}: prepare asks none of {', '.join(sorted(names))}",
                f"it asks prepare/... and {FACTS}",
            )
        return custom


@click.group("prepare")
def command() -> None:
    """Write instructions, questions and masks for data of your own, and review them.

    The same command resumes each of them. All write a page, review.html, on which people
    accept and reject; review applies what they decided.
    """


@command.command("instructions")
@options(_DataOptions, "of")
@options(JudgeOptions, "services")
def instructions(of: _DataOptions, services: JudgeOptions) -> int:
    """Let the generalist write what editors are to be told, for items with a blank instruction.

    By the task of an item, one of the nine edit types of GIE-Bench, from its one picture. Have
    questions written next, from what you accepted. Exit code 3 when an item failed.
    """
    return _prepared(InstructionWriter(), of, services)


@command.command("questions")
@options(_DataOptions, "of")
@options(JudgeOptions, "services")
@click.option(
    "--kind",
    type=click.Choice(["choice", "facts"]),
    default="choice",
    show_default=True,
    help="choice: one multiple-choice question per item, as GIE-Bench and core.multiple_choice "
    "ask; facts: 1 to 3 questions with their answers, as Omni IIE Bench and core.fact_check ask.",
)
def questions(kind: Literal["choice", "facts"], of: _DataOptions, services: JudgeOptions) -> int:
    """Let the generalist write questions about the result, for items that have none.

    The default writes multiple-choice questions, by the task of an item (the nine edit types of
    GIE-Bench, or a general prompt); --kind facts writes pairs of question and answer. Exit code 3
    when an item failed.
    """
    return _prepared(QuestionWriter(kind, of.custom), of, services)


@command.command("masks")
@options(_DataOptions, "of")
@options(ServiceOptions, "services")
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
    help="Of several matches of a phrase: all, or the surest. By default the surest, as GIE-Bench "
    "does, and of items with a target all, as Omni IIE Bench does.",
)
def masks(segmenter: str, select: Select | None, of: _DataOptions, services: ServiceOptions) -> int:
    """Draw masks of what the instruction lets change, for items that have none.

    The generalist names what may change, the segmenter finds it: in the source, and in the target
    where there is one. Exit code 3 when an item failed.
    """
    known = {str(name): name for name in SERVICES if name.role == "segmenter"}
    if segmenter not in known:
        raise ConfigError(
            f"--segmenter {segmenter}: no such segmenter", f"give one of {', '.join(known)}"
        )
    return _prepared(MaskFinder(known[segmenter], select, of.custom), of, services)


@command.command("gie")
@click.option(
    "--data", required=True, type=_PATH, help="The official gie_bench.json (600 MB), or its folder."
)
@_OUT
@options(JudgeOptions, "services")
@cost_option
@json_option
def gie(
    data: Path, out: Path, services: JudgeOptions, max_cost: float | None, as_json: bool
) -> None:
    """Convert GIE-Bench's official file once, so that it loads in under a second.

    Where there is a generalist, it is asked of each question whether the source must be shown with
    it, and compares.json keeps what it says for people to look over: what the words of a question
    say otherwise stands first. Without one the words decide. The licence of the masks forbids
    passing them on; that holds for the converted file too.
    """
    settings = services.settings(max_cost=max_cost)
    converted = convert(data, out)
    decided = None
    if JUDGE.variant in settings.generalists:
        decided = decide(GieData(converted.folder), settings)
    after = GieData(converted.folder)
    notes = after.notes()
    if as_json:
        result = Converted(
            data=converted.folder,
            items=converted.items,
            bytes=converted.size,
            data_digest=after.digest,
            notes=notes,
            usage=dict(decided.usage) if decided else {},
        )
        say_json(text_of(result))
        return
    for note in notes:
        say(f"note: {note}")
    if decided is None:
        tell("no generalist is configured: words decide which questions are shown the source")
    else:
        questions = counted(decided.compares, "question compares", "questions compare")
        say(
            f"{converted.folder / COMPARES}: {questions} with the source; of {decided.otherwise:,}"
            " their words say otherwise, which stand first: look them over"
        )
        if decided.unread:
            unread = counted(decided.unread, "question")
            tell(f"of {unread} no answer could be read: their words decide")
        if decided.usage:
            say(f"generalists took {usage_text(dict(decided.usage))}")
    say(
        f"{converted.folder}: {counted(converted.items, 'item')}, {converted.size / 1e6:.1f} MB;"
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
    reviewed = apply(Folder(folder), decisions)
    if as_json:
        say_json(text_of(reviewed))
        return
    for name, note in reviewed.rejected.items():
        say(f"rejected: {name}{f': {note}' if note else ''}")
    say(
        f"{reviewed.accepted:,} accepted, {len(reviewed.rejected):,} rejected,"
        f" {len(reviewed.undecided):,} not decided, {reviewed.untouched:,} untouched"
    )
    say(f"{reviewed.accepted_data}: {counted(reviewed.accepted + reviewed.untouched, 'item')}")
    say(f"{reviewed.rejected_data}: {counted(len(reviewed.rejected), 'item')}")


def _prepared(maker: Maker, of: _DataOptions, services: JudgeOptions) -> int:
    settings = services.settings(max_cost=of.max_cost, ledger=of.ledger)
    roots = {name: str(folder) for name, folder in roots_of(of.roots).items()}
    if mapped(roots):
        raise ConfigError("items.jsonl names no official paths", "give --root FOLDER")
    with preparing(of.data, of.out, maker, settings, of.limit, roots) as preparation:
        if preparation.left:
            _make(preparation)
    result = preparation.result()
    if of.as_json:
        say_json(text_of(result))
    else:
        _show(result, of.out)
    return result.exit_code


def _make(preparation: Preparation) -> None:
    start = any(not role.is_generalist for role in preparation.maker.roles)
    progress = preparation.live.say
    try:
        with services_at_hand(preparation.settings, start=start, say=progress) as at_hand:
            preparation.make(at_hand)
    except KeyboardInterrupt:
        tell("interrupted; the same command goes on where this ended")
        raise


def _show(result: Prepared, out: Path) -> None:
    for status, reasons in result.reasons.items():
        _list(status.replace("_", " "), reasons)
    counts = [f"{result.counts[s]:,} {words}" for s, words in STATUSES.items() if result.counts[s]]
    say(f"{result.what}: {', '.join(counts)}")
    if result.usage:
        say(f"generalists took {usage_text(result.usage)}")
    say(f"kept in {out}; open {result.review} to accept or reject")
    if result.exit_code:
        tell("the same command tries again what failed")


def _list(status: str, reasons: dict[str, str]) -> None:
    for name, reason in list(reasons.items())[:_LISTED]:
        tell(f"{status}: {name}: {reason}")
    if len(reasons) > _LISTED:
        tell(f"{status}: and {len(reasons) - _LISTED:,} more")
