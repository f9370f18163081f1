"""Finding the one JSON object of a reply, or the list that a reply is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set

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
_LIST = re.compile(r"\s*(?:`{3}\w*\s*)?\[")
_OBJECT = re.compile(r"\{")
_FENCE = re.compile(r"`{3}\w*\s*$")
_KEY = re.compile(r"\{\s*+[\"“\u2018']?(?P<key>[\w\- ]{1,60})")
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


def listed(reply: str, key: str, *, cut: bool = False) -> list[Value]:
    """The list that is the value of an object's only key, or that the reply is by itself.

    Raises:
        Unparsable: there is neither, or more than one, or it is malformed or not complete.
    """
    text, thought = answer(reply, cut=cut)
    tags = [] if thought else list(_CLOSED.finditer(text))
    rest = text[tags[-1].end() :] if tags else text
    opened = _LIST.match(rest)
    if opened is None:
        return _under(reply, key, cut=cut)
    try:
        return _alone(rest, opened.end() - 1, cut=cut)
    except Unparsable as error:
        # A bracket in prose may stand before the object.
        try:
            return _under(reply, key, cut=cut)
        except Unparsable:
            raise error from None


def _under(reply: str, key: str, *, cut: bool) -> list[Value]:
    value = fields(reply, (key,), cut=cut)[key]
    if not isinstance(value, list):
        raise Unparsable(f'"{key}" is not a list')
    return value


def _alone(text: str, at: int, *, cut: bool) -> list[Value]:
    reader = Reader(text, at)
    try:
        values = reader.values()
    except Malformed as error:
        raise _broken(error, "list", cut=cut) from None
    if re.search(r"[\[{]", text[reader.at :]):
        raise Unparsable("more than one JSON list")
    return values


def last_fields(
    reply: str, keys: Iterable[str], *, beside: Iterable[str] = (), cut: bool = False
) -> tuple[str, dict[str, Value]]:
    """What stands before the object that ends a reply, and its values by the contract's keys.

    Before it a judge thinks aloud: braces are prose there, until an object has one of the keys.

    Args:
        beside: Keys that it may have as well.

    Raises:
        Unparsable: no such object, several, one that is malformed, not complete or followed by
            more text in a reply that was cut, or as for `fields`.
    """
    text, _ = answer(reply, cut=cut)
    keys, beside = tuple(keys), tuple(beside)
    due = {plain(key) for key in keys}
    ours = due | {plain(key) for key in beside}
    answers: list[tuple[int, int, Members]] = []
    at = 0
    while mark := _OBJECT.search(text, at):
        at = mark.end()
        if (read := _read(text, mark.start(), ours, cut=cut)) is None:
            continue
        members, at = read
        if due & {plain(key) for key, _ in members.pairs}:
            answers.append((mark.start(), at, members))
    if len(answers) > 1:
        raise Unparsable("more than one JSON object with scores")
    if not answers:
        raise Unparsable(
            "cut at the token limit before the JSON object" if cut else "no JSON object"
        )
    start, end, members = answers[0]
    if cut and re.sub(r"[`\s]", "", text[end:]):
        raise Unparsable("cut at the token limit after a JSON object that may be a draft")
    return _FENCE.sub("", text[:start]).strip(), match(members, keys, beside)


def _read(text: str, at: int, ours: Set[str], *, cut: bool) -> tuple[Members, int] | None:
    """The object at a brace and where it ends; None where the brace is prose.

    Raises:
        Unparsable: it begins with one of our keys, and is malformed or not complete.
    """
    if not _begins(text, at, dict.fromkeys(ours, "")):
        return None
    reader = Reader(text, at)
    try:
        return reader.members(), reader.at
    except Malformed as error:
        first = _KEY.match(text, at)
        if first and plain(first["key"]) in ours:
            raise _broken(error, cut=cut) from None
        return None


def match(members: Members, keys: Iterable[str], beside: Iterable[str] = ()) -> dict[str, Value]:
    """An object's values by the contract's keys.

    Args:
        beside: Further keys that it may have.

    Raises:
        Unparsable: a key is missing, given twice or not of the contract.
    """
    due = {plain(key): key for key in keys}
    beside = {plain(key) for key in beside}
    values: dict[str, Value] = {}
    unexpected = []
    for written, value in members.pairs:
        key = due.get(plain(written))
        if key is None and plain(written) in beside:
            continue
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


def _broken(error: Malformed, what: str = "object", *, cut: bool) -> Unparsable:
    if cut and error.ended:
        return Unparsable(f"cut at the token limit before the JSON {what} was complete")
    if error.ended:
        return Unparsable(f"the JSON {what} is not complete: {error.reason}")
    return Unparsable(f"the JSON is malformed: {error.reason}")
