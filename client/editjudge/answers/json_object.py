"""Finding the one JSON object of a reply."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .contract import Unparsable, shown
from .lenient import Malformed, Members, Reader, Value

_OPENED = re.compile(r"\s*<think(?:ing)?>")
_CLOSED = re.compile(r"</think(?:ing)?>")
_MARK = re.compile(r"\{|</think(?:ing)?>")
# A brace is taken for JSON once a key in quotes and a colon follow it; `{a, b}`, `\frac{1}{2}`,
# `{'}` and `{}` are prose. Keys have a limit, so that a million braces cost a million short
# looks; a longer one counts as JSON, and breaks there.
_QUOTED = re.compile(
    r"""\{\s*+(?:"(?:[^"\\]|\\.){0,200}"
        | “(?:[^”\\]|\\.){0,200}”
        | \u2018(?:[^\u2019\\]|\\.|(?<=[^\W\d_])\u2019(?=[^\W\d_])){0,200}+\u2019
        | '(?:[^'\\]|\\.|(?<=[^\W\d_])'(?=[^\W\d_])){0,200}+'
        )\s*+(?P<colon>:)?""",
    re.DOTALL | re.VERBOSE,
)
_QUOTE = re.compile(r"\{\s*+[\"“\u2018'](?!\})")
_BARE = re.compile(r"\{\s*+(?P<key>[A-Za-z_][\w\- ]{0,60})\s*+:\s*+(?P<opens>[{\[\"“\u2018'])?")
_PLAIN = re.compile(r"[\s_\\-]+")
_DRAFTS = 64  # objects, whole or broken, that are read as drafts of a model that thinks


def plain(key: str) -> str:
    """A key as it is compared: without case, spaces, hyphens, underscores and backslashes."""
    return _PLAIN.sub("", key).casefold()


def answer(reply: str, *, cut: bool = False) -> tuple[str, bool]:
    """A reply without its byte order mark and leading `<think>…</think>`.

    Returns:
        The rest, and whether the block was there from its opening tag on.

    Raises:
        Unparsable: it is empty, or the block is not closed.
    """
    text = reply.removeprefix("\ufeff")
    opened = _OPENED.match(text)
    if opened:
        closed = _CLOSED.search(text, opened.end())
        if closed is None:
            raise Unparsable(
                "cut at the token limit while thinking" if cut else "the thinking is not closed"
            )
        text = text[closed.end() :]
    if not text.strip():
        raise Unparsable(
            "cut at the token limit before any answer" if cut else "the reply is empty"
        )
    return text, opened is not None


def fields(reply: str, keys: Iterable[str], *, cut: bool = False) -> dict[str, Value]:
    """The values of a reply's one JSON object, by the contract's keys.

    Code fences and prose around the object are passed over. Keys may differ from the
    contract's in case, spaces, hyphens and underscores.

    Raises:
        Unparsable: no object, several, one that is malformed or not complete, a key that is
            missing, given twice or not of the contract.
    """
    text, thought = answer(reply, cut=cut)
    due = {plain(key): key for key in keys}
    objects = _objects(text, due, thought=thought, cut=cut)
    if len(objects) > 1:
        raise Unparsable("more than one JSON object")
    if not objects:
        raise Unparsable(
            "cut at the token limit before the JSON object" if cut else "no JSON object"
        )
    return match(objects[0], due.values())


def match(members: Members, keys: Iterable[str]) -> dict[str, Value]:
    """An object's values by the contract's keys.

    Raises:
        Unparsable: a key is missing, given twice or not of the contract.
    """
    due = {plain(key): key for key in keys}
    values: dict[str, Value] = {}
    unexpected = []
    for written, value in members.pairs:
        key = due.get(plain(written))
        if key is None:
            unexpected.append(shown(written))
        elif key in values:
            raise Unparsable(f'"{key}" is given twice')
        else:
            values[key] = value
    missing = [f'"{key}"' for key in due.values() if key not in values]
    if missing:
        beside = f", unexpected {', '.join(unexpected[:3])}" if unexpected else ""
        raise Unparsable(f"missing {', '.join(missing)}{beside}")
    if unexpected:
        raise Unparsable(f"unexpected {', '.join(unexpected[:3])}")
    return values


def _objects(text: str, due: Mapping[str, str], *, thought: bool, cut: bool) -> list[Members]:
    """The reply's objects; not looked for beyond the second, which is one too many."""
    objects: list[Members] = []
    drafts = at = 0
    tag = -1 if thought else max(text.rfind("</think>"), text.rfind("</thinking>"))
    while len(objects) < (_DRAFTS if at <= tag else 2) and (mark := _MARK.search(text, at)):
        at = mark.end()
        if mark[0] != "{":
            # Some chat templates open the block themselves, so a reply begins inside it. Only
            # a tag outside any object counts: one that a judge quotes in its answer is text.
            if not thought:
                objects = []
            continue
        if not _begins(text, mark.start(), due):
            continue
        reader = Reader(text, mark.start())
        try:
            objects.append(reader.members())
        except Malformed as error:
            # What stands inside a broken object is no answer. It may be a thinking draft.
            drafts += 1
            closed = None if thought or drafts > _DRAFTS else _CLOSED.search(text, at)
            if closed is None:
                raise _broken(error, cut=cut) from None
            at = closed.start()
        else:
            at = reader.at
    return objects


def _begins(text: str, at: int, due: Mapping[str, str]) -> bool:
    """Whether JSON begins at this brace, be it broken."""
    quoted = _QUOTED.match(text, at)
    if quoted:
        return quoted["colon"] is not None
    bare = _BARE.match(text, at)
    if bare:
        # No object that can be read, but what stands inside it is no answer either.
        return plain(bare["key"]) in due or bare["opens"] is not None
    return _QUOTE.match(text, at) is not None


def _broken(error: Malformed, *, cut: bool) -> Unparsable:
    if cut and error.ended:
        return Unparsable("cut at the token limit before the JSON object was complete")
    if error.ended:
        return Unparsable(f"the JSON object is not complete: {error.reason}")
    return Unparsable(f"the JSON is malformed: {error.reason}")
