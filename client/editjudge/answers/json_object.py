"""Finding the one JSON object of a reply, or the list that a reply is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set

from .contract import abbreviate
from .lenient_json import JsonReader, MalformedJson, Members, Value
from .reply import ReplyText, Unparsable, unclosed_draft

# A brace is taken for JSON once a key in quotes and a colon follow it; `{a, b}`, `\frac{1}{2}`,
# `{'}` and `{}` are prose. Keys have a limit, so that a million braces cost a million short
# looks; a longer one counts as JSON, and breaks there.
_QUOTED_KEY = re.compile(
    r"""\{\s*+(?:"(?:[^"\\]|\\.){0,200}"
        | '(?:[^'\\]|\\.|(?<=[^\W\d_])'(?=[^\W\d_])){0,200}+'
        )\s*+(?P<colon>:)?""",
    re.DOTALL | re.VERBOSE,
)
_QUOTE = re.compile(r"\{\s*+[\"'](?!\})")
_BARE = re.compile(r"\{\s*+(?P<key>[A-Za-z_][\w\- ]{0,60})\s*+:\s*+(?P<opens>[{\[\"'])?")
_LIST = re.compile(r"\s*(?:`{3}\w*\s*)?\[")
_FENCE = re.compile(r"`{3}\w*\s*$")
_KEY = re.compile(r"\{\s*+[\"']?(?P<key>[\w\- ]{1,60})")
_PLAIN = re.compile(r"[\s_\\-]+")
AROUND = " .\"'`“”\u2018\u2019"
"""What around a text tells nothing: blanks, full stops, quotes."""
_DRAFTS = 64  # objects, whole or broken, that are read as drafts of a model that thinks


def normalise_key(key: str) -> str:
    """A key as it is compared: without case, spaces, hyphens, underscores and backslashes."""
    return _PLAIN.sub("", key).casefold()


def read_object(reply: ReplyText, keys: Iterable[str]) -> dict[str, Value]:
    """The values of a reply's one JSON object, by the contract's keys.

    Code fences and prose before the object are passed over. Keys may differ from the
    contract's in case, spaces, hyphens and underscores.

    Raises:
        Unparsable: no object, several, one that is malformed or not complete, a key that is
            missing, given twice or not of the contract.
    """
    keys = tuple(keys)
    _, members = _find_object(reply, {normalise_key(key) for key in keys})
    return match_keys(members, keys)


def read_text(values: Mapping[str, Value], key: str, longest: int) -> str:
    """The text of a key in one line.

    Raises:
        Unparsable: it is no text, says nothing or is too long.
    """
    value = values[key]
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text.strip(AROUND):
        raise Unparsable(f'"{key}" holds {abbreviate(value)}, which is no text')
    if len(text) > longest:
        raise Unparsable(f'"{key}" has {len(text)} characters, more than {longest}')
    return text


def read_list(reply: ReplyText, key: str, most: int) -> list[Value]:
    """The list that is the value of an object's only key, or that the reply is by itself.

    Raises:
        Unparsable: there is neither, or more than one, or it is malformed, not complete or too
            long. Which entries to leave out would be our choice, and the score depends on it.
    """
    values = _find_list(reply, key)
    if len(values) > most:
        raise Unparsable(f'"{key}" has {len(values)} entries, more than {most}')
    return values


def _find_list(reply: ReplyText, key: str) -> list[Value]:
    start = reply.closes[-1][1] if reply.closes else 0
    bracket = _LIST.match(reply.text, start)
    if bracket is None:
        return _list_under_key(reply, key)
    try:
        return _bare_list(reply, bracket.end() - 1)
    except Unparsable as error:
        # A bracket in prose may stand before the object.
        try:
            return _list_under_key(reply, key)
        except Unparsable:
            raise error from None


def _list_under_key(reply: ReplyText, key: str) -> list[Value]:
    value = read_object(reply, (key,))[key]
    if not isinstance(value, list):
        raise Unparsable(f'"{key}" is not a list')
    return value


def _bare_list(reply: ReplyText, at: int) -> list[Value]:
    reader = JsonReader(reply.text, at)
    try:
        values = reader.values()
    except MalformedJson as error:
        raise _describe_malformed(error, "list", cut=reply.cut) from None
    if re.search(r"[\[{]", reply.text[reader.at :]):
        raise Unparsable("more than one JSON list")
    reply.end = reader.at
    return values


def read_last_object(
    reply: ReplyText, keys: Iterable[str], *, also_allowed: Iterable[str] = ()
) -> tuple[str, dict[str, Value]]:
    """What stands before the object that ends a reply, and its values by the contract's keys.

    Before it a judge thinks aloud: braces are prose there, until an object has one of the keys.

    Args:
        beside: Keys that it may have as well.

    Raises:
        Unparsable: no such object, several, one that is malformed or not complete, or as for
            `fields`.
    """
    keys, also_allowed = tuple(keys), tuple(also_allowed)
    due = {normalise_key(key) for key in keys}
    before, members = _find_object(reply, due | {normalise_key(key) for key in also_allowed}, due)
    return _FENCE.sub("", before).strip(), match_keys(members, keys, also_allowed)


def _find_object(
    reply: ReplyText, ours: Set[str], due: Set[str] | None = None
) -> tuple[str, Members]:
    """What stands before the one object of a reply since the last draft, and its members.

    Where the object ends is noted.

    Args:
        ours: Keys that it may have.
        due: It has one of these, and all others are prose; None where every object counts.

    Raises:
        Unparsable: no object, several, or one that is malformed or not complete.
    """
    begin, objects = _find_objects(reply, ours, due)
    if len(objects) > 1:
        raise Unparsable(f"more than one JSON object{' with scores' if due else ''}")
    if not objects:
        raise Unparsable(
            "cut at the token limit before the JSON object" if reply.cut else "no JSON object"
        )
    start, reply.end, members = objects[0]
    return reply.text[begin:start], members


def _next_closing_tag(reply: ReplyText, at: int) -> int | None:
    """Where the next closing tag of a draft begins."""
    closing = bisect_left(reply.closes, (at, 0))
    return reply.closes[closing][0] if closing < len(reply.closes) else None


def _next_mark(reply: ReplyText, at: int) -> tuple[int, int, bool] | None:
    """The next brace, or the next closing tag of a draft: where it begins, ends, and if it is one.

    Raises:
        Unparsable: a draft is opened before it, and nothing closes it.
    """
    closing = bisect_left(reply.closes, (at, 0))
    if closing < len(reply.closes):
        start, end = reply.closes[closing]
        brace = reply.text.find("{", at, start)
        return (start, end, True) if brace < 0 else (brace, brace + 1, False)
    brace = reply.text.find("{", at)
    stop = len(reply.text) if brace < 0 else brace
    opening = bisect_left(reply.opens, at)
    if opening < len(reply.opens) and reply.opens[opening] < stop:
        raise unclosed_draft(cut=reply.cut)
    return None if brace < 0 else (brace, brace + 1, False)


def match_keys(
    members: Members, keys: Iterable[str], also_allowed: Iterable[str] = ()
) -> dict[str, Value]:
    """An object's values by the contract's keys.

    Args:
        beside: Further keys that it may have.

    Raises:
        Unparsable: a key is missing, given twice or not of the contract.
    """
    due = {normalise_key(key): key for key in keys}
    also_allowed = {normalise_key(key) for key in also_allowed}
    values: dict[str, Value] = {}
    unexpected_keys = []
    for raw_key, value in members:
        key = due.get(normalise_key(raw_key))
        if key is None and normalise_key(raw_key) in also_allowed:
            continue
        if key is None:
            unexpected_keys.append(abbreviate(raw_key))
        elif key in values:
            raise Unparsable(f'"{key}" is given twice')
        else:
            values[key] = value
    missing = [f'"{key}"' for key in due.values() if key not in values]
    if missing:
        also = f", unexpected {', '.join(unexpected_keys[:3])}" if unexpected_keys else ""
        raise Unparsable(f"missing {', '.join(missing)}{also}")
    if unexpected_keys:
        raise Unparsable(f"unexpected {', '.join(unexpected_keys[:3])}")
    return values


def _find_objects(
    reply: ReplyText, ours: Set[str], due: Set[str] | None
) -> tuple[int, list[tuple[int, int, Members]]]:
    """Where the reply begins behind its drafts, and its objects: start, end and members.

    They are not looked for beyond the second, one too many.
    """
    objects: list[tuple[int, int, Members]] = []
    begin = drafts = at = 0
    last = reply.closes[-1][0] if reply.closes else -1
    while len(objects) < (_DRAFTS if at <= last else 2):
        if (mark := _next_mark(reply, at)) is None:
            break
        start, at, closes = mark
        if closes:
            # Only a tag outside any object counts: one that a judge quotes in its answer is text.
            objects, begin = [], at
            continue
        if not _begins_json(reply.text, start, ours):
            continue
        reader = JsonReader(reply.text, start)
        try:
            members = reader.members()
        except MalformedJson as error:
            first = _KEY.match(reply.text, start)
            if due is not None and not (first and normalise_key(first["key"]) in ours):
                continue
            # What stands inside a broken object is no answer. It may be a draft.
            drafts += 1
            after = _next_closing_tag(reply, at)
            if reply.has_draft or drafts > _DRAFTS or after is None:
                raise _describe_malformed(error, cut=reply.cut) from None
            at = after
            continue
        at = reader.at
        if due is None or due & {normalise_key(key) for key, _ in members}:
            objects.append((start, at, members))
    return begin, objects


def _begins_json(text: str, at: int, due: Set[str]) -> bool:
    """Whether JSON begins at this brace, be it broken."""
    quoted_key = _QUOTED_KEY.match(text, at)
    if quoted_key:
        return quoted_key["colon"] is not None
    bare_key = _BARE.match(text, at)
    if bare_key:
        # No object that can be read, but what stands inside it is no answer either.
        return normalise_key(bare_key["key"]) in due or bare_key["opens"] is not None
    return _QUOTE.match(text, at) is not None


def _describe_malformed(error: MalformedJson, what: str = "object", *, cut: bool) -> Unparsable:
    if cut and error.is_incomplete:
        return Unparsable(f"cut at the token limit before the JSON {what} was complete")
    if error.is_incomplete:
        return Unparsable(f"the JSON {what} is not complete: {error.reason}")
    return Unparsable(f"the JSON is malformed: {error.reason}")
