"""Find the one JSON object, or the one list, in a judge's reply.

A draft is the text in which a model thinks before it answers, closed by a tag such as `</think>`.
Objects in a draft are no answers.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set

from .contract import abbreviate
from .lenient_json import JsonReader, MalformedJson, Members, Value
from .reply import ReplyText, Unparsable, unclosed_draft

# A brace is taken for JSON once a key in quotes and a colon follow it; `{a, b}`, `\frac{1}{2}`,
# `{'}` and `{}` are prose. The length of a key is limited, so that a million braces cost a million
# short matches. A longer key counts as JSON, which is then malformed.
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
"""Characters that are stripped from around a text: blanks, full stops, quotes."""
_DRAFTS = 64  # the most objects, whole or broken, that may stand in drafts


def normalise_key(key: str) -> str:
    """Return a key without case, blanks, hyphens, underscores and backslashes, to compare it."""
    return _PLAIN.sub("", key).casefold()


def read_object(reply: ReplyText, keys: Iterable[str]) -> dict[str, Value]:
    """Read the one JSON object of a reply.

    Code fences and prose before the object are skipped. The keys in the reply may differ from
    `keys` in case, spaces, hyphens and underscores.

    Returns:
        The object's values, by the names in `keys`.

    Raises:
        Unparsable: There is no object or more than one; the object is malformed or incomplete; or a
            key is missing, repeated or unexpected.
    """
    keys = tuple(keys)
    _, members = _find_object(reply, {normalise_key(key) for key in keys})
    return match_keys(members, keys)


def read_text(values: Mapping[str, Value], key: str, longest: int) -> str:
    """Return the text under a key, with runs of white space as single blanks.

    Args:
        values: The values of an object.
        key: The key of the text.
        longest: The largest number of characters.

    Raises:
        Unparsable: The value is not text, is empty but for blanks, full stops and quotes, or is too
            long.
    """
    value = values[key]
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text.strip(AROUND):
        raise Unparsable(f'"{key}" must hold words, not {abbreviate(value)}')
    if len(text) > longest:
        raise Unparsable(f'"{key}" has {len(text)} characters, more than {longest}')
    return text


def read_list(reply: ReplyText, key: str, most: int) -> list[Value]:
    """Read the one JSON list of a reply: the value of an object's only key, or a bare list.

    A list that is too long is refused rather than shortened, because the score would depend on
    which entries are left out.

    Args:
        reply: The reply.
        key: The object's only key.
        most: The largest number of entries.

    Raises:
        Unparsable: There is no list or more than one, or the list is malformed, incomplete or too
            long.
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
    reply.end, reply.words = reader.at, ""
    return values


def read_last_object(
    reply: ReplyText, keys: Iterable[str], *, also_allowed: Iterable[str] = ()
) -> tuple[str, dict[str, Value]]:
    """Read the object that ends a reply, and the text before it.

    The judge thinks aloud in that text, so an object counts only if it has one of `keys`.

    Args:
        reply: The reply.
        keys: The keys that the object must have.
        also_allowed: Further keys that the object may have; their values are left out.

    Returns:
        The text before the object, and the object's values by the names in `keys`.

    Raises:
        Unparsable: There is no such object or more than one; the object is malformed or incomplete;
            or a key is missing, repeated or unexpected.
    """
    keys, also_allowed = tuple(keys), tuple(also_allowed)
    due = {normalise_key(key) for key in keys}
    before, members = _find_object(reply, due | {normalise_key(key) for key in also_allowed}, due)
    return _FENCE.sub("", before).strip(), match_keys(members, keys, also_allowed)


def _find_object(reply: ReplyText, ours: Set[str], keys: Set[str] | None = None) -> tuple[str, Members]:
    """Find the one object after the last draft of a reply, and set `reply.end` to its end.

    Args:
        reply: The reply.
        ours: Normalised keys that the object may have.
        keys: Normalised keys of which the object must have one; objects without any are prose. None
            if every object counts.

    Returns:
        The text before the object, and the object's members.

    Raises:
        Unparsable: There is no object or more than one, or the object is malformed or incomplete.
    """
    begin, objects = _find_objects(reply, ours, keys)
    if len(objects) > 1:
        raise Unparsable(f"more than one JSON object{' with scores' if keys else ''}")
    if not objects:
        raise Unparsable("cut at the token limit before the JSON object" if reply.cut else "no JSON object")
    start, reply.end, members = objects[0]
    reply.words = reply.text[begin:start]
    return reply.words, members


def _next_closing_tag(reply: ReplyText, at: int) -> tuple[int, int] | None:
    """Return where the next closing tag of a draft begins and ends, from position `at` on."""
    closing = bisect_left(reply.closes, (at, 0))
    return reply.closes[closing] if closing < len(reply.closes) else None


def _next_mark(reply: ReplyText, at: int) -> tuple[int, int, bool] | None:
    """Find the next brace or closing tag of a draft, from position `at` on.

    Returns:
        Where it begins and ends, and whether it is a closing tag; None if neither follows.

    Raises:
        Unparsable: A draft opens before the brace, and no tag closes it.
    """
    if (tag := _next_closing_tag(reply, at)) is not None:
        start, end = tag
        brace = reply.text.find("{", at, start)
        return (start, end, True) if brace < 0 else (brace, brace + 1, False)
    brace = reply.text.find("{", at)
    stop = len(reply.text) if brace < 0 else brace
    opening = bisect_left(reply.opens, at)
    if opening < len(reply.opens) and reply.opens[opening] < stop:
        raise unclosed_draft(cut=reply.cut)
    return None if brace < 0 else (brace, brace + 1, False)


def match_keys(members: Members, keys: Iterable[str], extra: Iterable[str] = ()) -> dict[str, Value]:
    """Return the values of an object by the contract's keys.

    Args:
        members: The object as written.
        keys: The keys that it must have.
        extra: Further keys that it may have; their values are left out.

    Raises:
        Unparsable: A key is missing, repeated or unexpected.
    """
    due = {normalise_key(key): key for key in keys}
    extra = {normalise_key(key) for key in extra}
    values: dict[str, Value] = {}
    unexpected_keys = []
    for raw_key, value in members:
        key = due.get(normalise_key(raw_key))
        if key is None and normalise_key(raw_key) in extra:
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


def _find_objects(reply: ReplyText, ours: Set[str], due: Set[str] | None) -> tuple[int, list[tuple[int, int, Members]]]:
    """Find where the text after the last draft begins, and the objects in it (start, end, members).

    The search stops at the second object, because one is allowed.
    """
    objects: list[tuple[int, int, Members]] = []
    begin = drafts = at = 0
    last = reply.closes[-1][0] if reply.closes else -1
    while len(objects) < (_DRAFTS if at <= last else 2):
        if (mark := _next_mark(reply, at)) is None:
            break
        start, at, closes = mark
        if closes:
            # A tag inside an object does not count, because a judge may quote one in its answer.
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
            # An object inside a broken one is no answer. The broken one may stand in a draft.
            drafts += 1
            after = _next_closing_tag(reply, at)
            if reply.has_draft or drafts > _DRAFTS or after is None:
                raise _describe_malformed(error, cut=reply.cut) from None
            at = after[0]
            continue
        at = reader.at
        if due is None or due & {normalise_key(key) for key, _ in members}:
            objects.append((start, at, members))
    return begin, objects


def _begins_json(text: str, at: int, due: Set[str]) -> bool:
    """Whether JSON, valid or broken, begins at the brace at this position."""
    if quoted_key := _QUOTED_KEY.match(text, at):
        return quoted_key["colon"] is not None
    if bare_key := _BARE.match(text, at):
        # Such an object cannot be read, but an object inside it is no answer either.
        return normalise_key(bare_key["key"]) in due or bare_key["opens"] is not None
    return _QUOTE.match(text, at) is not None


def _describe_malformed(error: MalformedJson, what: str = "object", *, cut: bool) -> Unparsable:
    if cut and error.is_incomplete:
        return Unparsable(f"cut at the token limit before the JSON {what} was complete")
    if error.is_incomplete:
        return Unparsable(f"the JSON {what} is not complete: {error.reason}")
    return Unparsable(f"the JSON is malformed: {error.reason}")
