"""`editjudge prepare`: instructions, questions and masks for data."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..base.errors import ConfigError
from ..base.identity import ServiceName
from ..base.terminal import print_notice, print_text
from ..base.text import format_count, shorten_list
from ..benchmarks.dataset import has_path_mapping
from ..benchmarks.gie.release import COMPARES
from ..panel.specialists import SPECIALISTS
from ..prepare.folder import Folder
from ..prepare.gie import convert_gie
from ..prepare.items import STATUSES
from ..prepare.makers import FACTS, Maker, instructions, masks, questions
from ..prepare.preparation import Preparation, PreparationResult, open_preparation
from ..prepare.review import apply_decisions
from ..prompts import Template
from ..prompts.custom_templates import load_custom_folder
from ..report.numbers import format_usage
from .local_stack import provide_services
from .options import Options, bind_single_judge, parse_roots, settings_from
from .output import print_json

_MAX_LISTED = 20
"""Number of items that are listed for each status."""
What: TypeAlias = Literal["instructions", "questions", "facts", "masks", "gie"]
_ITEMS: tuple[What, ...] = ("instructions", "questions", "facts", "masks")
_OPTIONS_FOR: Mapping[str, tuple[What, ...]] = {
    "root": _ITEMS,
    "limit": _ITEMS,
    "ledger": _ITEMS,
    "candidates": ("instructions",),
    "prompts": ("questions", "facts", "masks"),
    "endpoint": ("masks",),
    "segmenter": ("masks",),
    "select": ("masks",),
}
"""The kinds of preparation that accept an option, for options that not all accept."""


def prepare_command(what: What, *, json: bool, **options: Any) -> int:
    """Let judges write instructions, questions or masks; return the exit code."""
    for name, only in _OPTIONS_FOR.items():
        if options[name] and what not in only:
            raise ConfigError(f"prepare {what} takes no --{name}", f"it is for {', '.join(only)}")
    if what == "gie":
        return _convert_gie(options, json=json)
    return _prepare(_make_maker(what, options), options, json=json)


def _make_maker(what: What, options: Options) -> Maker:
    if what == "instructions":
        return instructions()
    if what == "masks":
        return masks(_segmenter(options["segmenter"]), options["select"], _templates(options))
    return questions("facts" if what == "facts" else "choice", _templates(options))


def _segmenter(text: str | None) -> ServiceName:
    segmenters = {str(name): name for name in SPECIALISTS if name.role == "segmenter"}
    text = text or "segmenter.grounded_sam"
    if text not in segmenters:
        raise ConfigError(f"--segmenter {text}: no such segmenter", f"give one of {', '.join(segmenters)}")
    return segmenters[text]


def _templates(options: Options) -> tuple[Template, ...]:
    """The templates of --prompts.

    Raises:
        ConfigError: a template cannot be used, or no preparation uses it.
    """
    folder = options["prompts"]
    custom = () if folder is None else load_custom_folder(folder)
    names = {template.name for template in custom}
    if names and not any(name == FACTS or name.startswith("prepare/") for name in names):
        raise ConfigError(
            f"{folder}: prepare uses none of {', '.join(sorted(names))}", f"it uses prepare/... and {FACTS}"
        )
    return custom


def _convert_gie(options: Options, *, json: bool) -> int:
    conversion = convert_gie(options["data"], options["out"], bind_single_judge(settings_from(options), options))
    if json:
        print_json(conversion)
        return 0
    print_text(*(f"note: {note}" for note in conversion.notes))
    if conversion.compares is None:
        print_notice("no judge is configured: the words of each question decide whether it needs the source")
    else:
        compare = format_count(conversion.compares, "question compares", "questions compare")
        print_text(
            f"{conversion.data / COMPARES}: {compare} with the source; check those that stand first:"
            f" for {conversion.otherwise:,} the words of the question say otherwise"
        )
    if conversion.unread:
        unread = format_count(conversion.unread, "question")
        print_notice(f"no answer of the judge on {unread} could be read: the words of the question decide")
    if conversion.usage:
        print_text(f"judges took {format_usage(conversion.usage)}")
    print_text(
        f"{conversion.data}: {format_count(conversion.items, 'item')},"
        f" {conversion.bytes / 1e6:.1f} MB; give it as --data"
    )
    return 0


def _prepare(maker: Maker, options: Options, *, json: bool) -> int:
    settings, out = bind_single_judge(settings_from(options), options), options["out"]
    roots = {name: str(folder) for name, folder in parse_roots(options["root"]).items()}
    if has_path_mapping(roots):
        raise ConfigError("items.jsonl does not name the paths of the release", "give --root FOLDER")
    count = options["candidates"] or 1
    with open_preparation(options["data"], out, maker, settings, options["limit"], roots, count) as work:
        if work.pending_count:
            _make(work)
    result = work.result()
    if json:
        print_json(result)
    else:
        _print_result(result, out)
    return result.exit_code


def _make(preparation: Preparation) -> None:
    settings, roles = preparation.settings, preparation.maker.roles
    try:
        with provide_services(settings, roles=roles, say=print_notice) as at_hand:
            asyncio.run(preparation.make(at_hand))
    except KeyboardInterrupt:
        print_notice("interrupted; repeat the command to resume")
        raise


def _print_result(result: PreparationResult, out: Path) -> None:
    for status, reasons in result.reasons.items():
        _print_reasons(status.replace("_", " "), reasons)
    counts = [f"{result.counts[s]:,} {words}" for s, words in STATUSES.items() if result.counts[s]]
    print_text(f"{result.what}: {', '.join(counts)}")
    if result.usage:
        print_text(f"judges took {format_usage(result.usage)}")
    print_text(f"stored in {out}; open {result.review} to accept or reject")
    if result.exit_code:
        print_notice("repeat the command to retry the failed items")


def _print_reasons(status: str, reasons: dict[str, str]) -> None:
    for name, reason in list(reasons.items())[:_MAX_LISTED]:
        print_notice(f"{status}: {name}: {reason}")
    if len(reasons) > _MAX_LISTED:
        print_notice(f"{status}: and {len(reasons) - _MAX_LISTED:,} more")


def review_command(folder: Path, decisions: tuple[Path, ...], arbiter: Path | None, *, json: bool) -> None:
    """Apply the decisions made on the page of a preparation."""
    review = apply_decisions(Folder(folder), *decisions, arbiter=arbiter)
    if json:
        print_json(review)
        return
    for name, note in review.rejected.items():
        print_text(f"rejected: {name}{f': {note}' if note else ''}")
    print_text(
        f"{review.accepted:,} accepted, {len(review.rejected):,} rejected,"
        f" {len(review.undecided):,} undecided, {review.untouched:,} without a decision to make"
    )
    if review.disputes:
        print_notice(f"reviewers differ on {shorten_list(review.disputes)}; --arbiter FILE decides about these")
    count = review.accepted + review.untouched
    for data, number in ((review.accepted_data, count), (review.rejected_data, len(review.rejected))):
        print_text(f"{data}: {format_count(number, 'item')}")
