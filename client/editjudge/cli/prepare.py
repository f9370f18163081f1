"""`editjudge prepare`: instructions, questions and masks for data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import click

from ..base.errors import ConfigError
from ..base.identity import ServiceName
from ..base.screen import say, say_json, tell
from ..base.strict import Number, Strict, text_of
from ..base.words import counted
from ..benchmarks.dataset import mapped
from ..benchmarks.gie.compact import COMPARES, convert
from ..benchmarks.gie.dataset import GieData
from ..panel.services import SERVICES
from ..prepare.comparing import decide
from ..prepare.items import JUDGE, STATUSES, Maker
from ..prepare.masks import MaskFinder
from ..prepare.preparation import Preparation, Prepared, preparing
from ..prepare.writers import FACTS, TASKS, InstructionWriter, QuestionWriter
from ..prompts import Template
from ..prompts.custom import custom_in
from ..report.numbers import usage_text
from .options import Options, choice, roots_of, settings_of, takes, text
from .services import services_at_hand

_LISTED = 20
"""How many items are listed of each status that has reasons."""
What: TypeAlias = Literal["instructions", "questions", "facts", "masks", "gie"]
_ITEMS: tuple[What, ...] = ("instructions", "questions", "facts", "masks")
_ONLY: Mapping[str, tuple[What, ...]] = {
    "root": _ITEMS,
    "limit": _ITEMS,
    "ledger": _ITEMS,
    "prompts": ("questions", "facts", "masks"),
    "endpoint": ("masks",),
    "segmenter": ("masks",),
    "select": ("masks",),
}
"""For what alone an option is."""


class Converted(Strict):
    """`prepare gie --json`.

    Attributes:
        usage: What it took to decide which questions compare; empty where words decide.
    """

    data: Path
    items: int
    bytes: int
    data_digest: str
    notes: tuple[str, ...]
    usage: dict[str, Number]


@click.command("prepare")
@click.argument("what", type=click.Choice(get_args(What)))
@takes(
    "root",
    "limit",
    "prompts",
    data="items.jsonl of core, i2i or co_edit (docs/runs.md), left as it is; of gie"
    " gie_bench.json (600 MB), or its folder.",
    out="Folder of what is made; kept.",
    segmenter=text(
        "ROLE",
        "Of masks: segmenter.grounded_sam (the default), segmenter.grounded_sam_huge or"
        " segmenter.sa2va.",
    ),
    select=choice(
        ["all", "best"],
        "Of masks: of several matches of a phrase all, or the surest. The default is the"
        " surest, as GIE-Bench does, and of items with a target all, as Omni IIE Bench does.",
    ),
)
@takes("generalist", "judge_model", "endpoint", "max_cost", "ledger", "json")
def command(what: What, *, json: bool, **asked: Any) -> int:
    """Let judges write what data of your own lacks; the same command resumes.

    instructions: what editors are to be told, by an item's task and its one picture. questions:
    one multiple-choice question per item, as GIE-Bench asks. facts: 1 to 3 questions with their
    answers, as Omni IIE Bench asks. masks: what the instruction lets change, named by the
    generalist and found by the segmenter. Each writes a page, review.html, on which people accept
    and reject; editjudge review applies what they decided. Exit code 3 when an item failed.

    gie: GIE-Bench's official file is converted once, to load in under a second. The generalist
    says of each question whether the source must be shown with it; without one the words decide.
    The licence of its masks forbids passing them on.
    """
    for name, only in _ONLY.items():
        if asked[name] and what not in only:
            raise ConfigError(f"prepare {what} takes no --{name}", f"it is for {', '.join(only)}")
    if what == "gie":
        return _gie(asked, json=json)
    return _prepared(_maker(what, asked), asked, json=json)


def _maker(what: What, asked: Options) -> Maker:
    if what == "instructions":
        return InstructionWriter()
    if what == "masks":
        return MaskFinder(_segmenter(asked["segmenter"]), asked["select"], _custom(asked))
    return QuestionWriter("facts" if what == "facts" else "choice", _custom(asked))


def _segmenter(text: str | None) -> ServiceName:
    known = {str(name): name for name in SERVICES if name.role == "segmenter"}
    text = text or "segmenter.grounded_sam"
    if text not in known:
        raise ConfigError(
            f"--segmenter {text}: no such segmenter", f"give one of {', '.join(known)}"
        )
    return known[text]


def _custom(asked: Options) -> tuple[Template, ...]:
    """The templates of --prompts.

    Raises:
        ConfigError: they cannot be used, or nothing here asks one of them.
    """
    folder = asked["prompts"]
    custom = () if folder is None else custom_in(folder)
    names = {template.name for template in custom}
    if names and not names & {FACTS, *TASKS.values(), "prepare/choice", "prepare/targets"}:
        raise ConfigError(
            f"{folder}: prepare asks none of {', '.join(sorted(names))}",
            f"it asks prepare/... and {FACTS}",
        )
    return custom


def _gie(asked: Options, *, json: bool) -> int:
    settings = settings_of(asked)
    converted = convert(asked["data"], asked["out"])
    decided = None
    if JUDGE.variant in settings.generalists:
        decided = decide(GieData(converted.folder), settings)
    after = GieData(converted.folder)
    notes = after.notes()
    if json:
        result = Converted(
            data=converted.folder,
            items=converted.items,
            bytes=converted.size,
            data_digest=after.digest,
            notes=notes,
            usage=dict(decided.usage) if decided else {},
        )
        say_json(text_of(result))
        return 0
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
    return 0


def _prepared(maker: Maker, asked: Options, *, json: bool) -> int:
    settings, out = settings_of(asked), asked["out"]
    roots = {name: str(folder) for name, folder in roots_of(asked["root"]).items()}
    if mapped(roots):
        raise ConfigError("items.jsonl names no official paths", "give --root FOLDER")
    with preparing(asked["data"], out, maker, settings, asked["limit"], roots) as preparation:
        if preparation.left:
            _make(preparation)
    result = preparation.result()
    if json:
        say_json(text_of(result))
    else:
        _show(result, out)
    return result.exit_code


def _make(preparation: Preparation) -> None:
    start = any(not role.is_generalist for role in preparation.maker.roles)
    try:
        with services_at_hand(preparation.settings, start=start, say=tell) as at_hand:
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
