"""What people said of edits, and what stored judges did: ratings, votes and how files hold them.

A rating is a number for one edit, a vote a choice between two. Raters stay apart: nobody's ratings
are averaged away when they are read. A record that cannot be used costs itself and is reported with
its place in the file.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeAlias, cast
from zlib import crc32

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError

from ..base.errors import InputError, MissingExtra
from ..base.parse import describe_failure, first_problem, package_tables, parse_json
from ..stats.preferences import Vote

Json: TypeAlias = dict[str, Any]
Rows: TypeAlias = Iterable[tuple[str, object]]
"""Places in a file, and the records there."""
_Votes: TypeAlias = Mapping[tuple[int, int], object]
"""A vote for each two edits of a record, by their places; something else where it cannot be read."""
_FILE = package_tables(__package__, "public_sets.toml")
_VOTES = {word: cast(Vote, vote) for vote, words in _FILE["votes"].items() for word in words}
"""The votes by the words that files have for them."""
_OTHER_SIDE: Mapping[object, Vote] = {"A": "B", "B": "A"}
_IN_BRACKETS = re.compile(r"\[\[([^\[\]]*)\]\]")
_RANKING = re.compile(r"[A-Z]([>=][A-Z])+")
_COLUMNS = "item, model, dimension, rater, value, or item, model_a, model_b, dimension, rater, vote"
AS_RELEASED = " (as released)"
"""Ends the name of a stored judge whose votes are those that were released, beside those of its replies."""


def _clean(word: object) -> str:
    return re.sub(r"[\s\[\]]", "", str(word))


def _find_vote(word: object) -> Vote | None:
    return _VOTES.get(_clean(word).lower())


class _Record(BaseModel):
    """What ratings and votes have in common; columns of other names are ignored.

    Attributes:
        item: Id of the item, as the data of the run has it.
        dimension: What was asked; empty where a file has one question only.
        rater: Who answered; empty where the file does not say.
        source: What edits of one source picture share; empty where only the item is known.
        category: The kind of edit, for numbers by category; empty where the file does not say.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=(), coerce_numbers_to_str=True)

    item: str
    dimension: str = ""
    rater: str = ""
    source: str = ""
    category: str = ""


class Rating(_Record):
    """The value that a rater gave one edit, on any scale.

    Attributes:
        probability: The chance that the edit had to be drawn for rating; None without a draw.
        sample_size: How many items were drawn of its stratum.
        stratum: The part of the items that was drawn from by itself.
    """

    model: str
    value: FiniteFloat
    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    sample_size: Annotated[int, Field(ge=1)] | None = None
    stratum: str = ""


class VoteRecord(_Record):
    """The vote of a rater on two edits of one item.

    Attributes:
        model_a: The model of edit A; empty where the file does not say.
        model_b: The model of edit B.
        vote: The better edit, a tie, or both bad.
    """

    model_a: str = ""
    model_b: str = ""
    vote: Annotated[Vote, BeforeValidator(lambda word: _find_vote(word) or word)]


class StoredJudgement(_Record):
    """What a stored judge said of one edit.

    Attributes:
        place: Where it stands in its file.
        judge: The name of the judge; empty where the file does not say.
        instruction: What the editing model was told.
        score: The number as it was released; None where there is none.
        reply: The judge's words; empty where the file has none.
    """

    place: str
    model: str
    judge: str = ""
    instruction: str = ""
    score: FiniteFloat | None = None
    reply: str = ""


class JudgeVote(NamedTuple):
    """The vote of a stored judge on a pair.

    Attributes:
        item: Id of the item, or of the pair where each has its own.
        vote: The better edit; None where the reply was not read.
        is_swapped: Whether edit B was shown first.
        reply: The judge's words, where the file has them.
    """

    item: str
    vote: Vote | None
    is_swapped: bool = False
    reply: str = ""


@dataclass(frozen=True)
class Ratings:
    """The ratings and votes of a file, or of several.

    Attributes:
        judges: The votes of stored judges by name, by each way of reading their replies.
        judgements: What stored judges said of single edits.
        problems: Records that are left out, and why; each names its place in its file.
        words: The values of words that people answered with.
        defaults: What stands in fields that a record does not have.
    """

    ratings: list[Rating] = field(default_factory=list)
    votes: list[VoteRecord] = field(default_factory=list)
    judges: dict[str, list[JudgeVote]] = field(default_factory=dict)
    judgements: list[StoredJudgement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    words: Mapping[str, float] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    def add(self, record: object, place: str) -> bool:
        """Add a rating or a vote, or the reason why it cannot be used; return whether it can."""
        part = {**self.defaults, **{k: v for k, v in _dict(record).items() if v not in (None, "")}}
        if "value" in part:
            part["value"] = self.words.get(str(part["value"]), part["value"])
        if "sample_size" in part and not part.keys() & {"value", "vote"}:
            return True  # drawn, and not rated yet
        try:
            if "value" in part and "vote" not in part:
                self.ratings.append(Rating.model_validate(part))
            elif _dict(record).keys() & {"score", "reply"}:
                self.judgements.append(StoredJudgement.model_validate(part | {"place": place}))
            else:
                self.votes.append(VoteRecord.model_validate(part))
        except ValidationError as error:
            self.problems.append(f"{place}: {first_problem(error)}")
            return False
        return True

    def extend(self, other: Self) -> None:
        """Add all that another file has."""
        for judge, votes in other.judges.items():
            self.judges.setdefault(judge, []).extend(votes)
        for each in ("ratings", "votes", "judgements", "problems"):
            getattr(self, each).extend(getattr(other, each))


def read_ratings(files: Iterable[Path], words: Mapping[str, float] = {}, defaults: Mapping[str, str] = {}) -> Ratings:
    """Read ratings and votes of people, and of stored judges, from files of any known form.

    Tables are CSV, JSON lines and Parquet with the columns `item, model, dimension, rater, value`,
    or `item, model_a, model_b, dimension, rater, vote`. JSON is an export of Label Studio, or
    judgements of MMRB2. Public sets of any of these are told by their fields; `public_sets.toml`
    declares them.

    Args:
        words: The values of words that people answered with, where they did not answer in numbers.
        defaults: What stands in columns that the files do not have.

    Raises:
        InputError: a file cannot be read, is of no known form, or has no record that can be used.
        MissingExtra: a file is Parquet, and pyarrow is not installed.
    """
    whole = Ratings()
    for file in files:
        part = Ratings(words=words, defaults=defaults)
        _add_file(part, file)
        if not (part.ratings or part.votes or part.judges or part.judgements):
            why = f"no record can be used; {part.problems[0]}" if part.problems else "no records"
            raise InputError(str(file), why, f"columns: {_COLUMNS}")
        whole.extend(part)
    return whole


def _add_file(of: Ratings, file: Path) -> None:
    read = _TABLES.get(file.suffix.lower())
    records = [(f"{file}, {place}", record) for place, record in (read or _read_json)(file)]
    of.problems.extend(f"{place}: it is no JSON object" for place, record in records if not isinstance(record, dict))
    rows = [(place, record) for place, record in records if isinstance(record, dict)]
    first = rows[0][1] if rows else {}
    if "annotations" in first:
        _add_label_studio(of, rows)
    elif "forward" in first:
        _add_mmrb2_judgements(of, rows, file)
    elif matching := [each for each in _SETS if each.fields <= first.keys()]:
        _add_set(of, rows, matching[0], file)
    elif read or not rows or "item" in first:
        for place, record in rows:
            of.add(record, place)
    else:
        forms = "CSV, JSON lines, Parquet, an export of Label Studio, or a public set"
        raise InputError(str(file), "its form is not known", f"give {forms}")


def _dict(part: object) -> Json:
    return cast(Json, part) if isinstance(part, dict) else {}


def _list(part: object) -> list[Any]:
    return part if isinstance(part, list) else []


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(file), f"it cannot be read ({describe_failure(error)})") from error


def _read_json(file: Path) -> Rows:
    """Read the records of a list, of a list in an object, or of an object by id (field `@id`)."""
    try:
        whole = parse_json(_read_text(file))
    except ValueError as error:
        raise InputError(str(file), f"it is no JSON ({describe_failure(error)})") from error
    by_id = [{"@id": name, **_dict(each)} for name, each in _dict(whole).items()]
    records = _list(whole) or next(filter(None, map(_list, _dict(whole).values())), by_id)
    return [(f"record {n}", record) for n, record in enumerate(records, 1)]


def _read_csv(file: Path) -> Rows:
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
    reader = csv.DictReader(io.StringIO(_read_text(file), newline=""), delimiter=delimiter)
    for row in reader:
        yield f"line {reader.line_num}", {k: v for k, v in row.items() if k is not None}


def _read_lines(file: Path) -> Rows:
    for number, line in enumerate(_read_text(file).split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", parse_json(line)
            except ValueError:
                yield f"line {number}", None


def _read_parquet(file: Path) -> Rows:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("reading Parquet", "report") from error
    try:
        table = parquet.read_table(file)
    except (OSError, ValueError) as error:
        raise InputError(str(file), f"it is no Parquet ({error})") from error
    yield from ((f"row {n}", record) for n, record in enumerate(table.to_pylist(), 1))


_TABLES: Mapping[str, Callable[[Path], Rows]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_lines,
    ".parquet": _read_parquet,
}


def _add_label_studio(of: Ratings, rows: Rows) -> None:
    """Add the annotations of an export of Label Studio, without those that were cancelled."""
    for place, task in rows:
        for annotation in map(_dict, _list(_dict(task).get("annotations"))):
            who = annotation.get("completed_by")
            rater = _dict(who).get("email") or _dict(who).get("id") or who
            results = [] if annotation.get("was_cancelled") else _list(annotation.get("result"))
            for result in map(_dict, results):
                value = _dict(result.get("value"))
                record = {**_dict(_dict(task).get("data")), "rater": rater, "dimension": result.get("from_name")}
                answers = [{"value": n} for n in (value.get("number"), value.get("rating")) if n is not None]
                for answer in answers + [{"vote": vote} for vote in _list(value.get("choices"))[:1]]:
                    of.add(record | answer, place)


def _add_mmrb2_judgements(of: Ratings, rows: Rows, file: Path) -> None:
    """Add MMRB2's judgements. In the reverse order the first edit is B."""
    for _, record in rows:
        for is_swapped, name in enumerate(("forward", "reverse")):
            for one in map(_dict, _list(_dict(record).get(name))):
                vote = _find_vote(one.get("judgement"))
                vote = _OTHER_SIDE.get(vote, vote) if is_swapped else vote
                judge = str(one.get("evaluator") or file.stem)
                item = str(_dict(record).get("@id"))
                of.judges.setdefault(judge, []).append(JudgeVote(item, vote, bool(is_swapped)))


class _Set(BaseModel):
    """How a public set is stored; `public_sets.toml` says what each field means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fields: frozenset[str]
    item: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    group: str = ""
    dimension: str = ""
    category: str = ""
    models: tuple[str, ...] = ()
    vote: str = ""
    scores: tuple[str, ...] = ()
    raters: str = ""
    middle: float = 0.0
    winner_first: bool = False
    judge: str = ""
    judge_vote: str = ""
    judge_reply: str = ""
    judge_scores: str = ""

    def read_people(self, record: Json) -> Mapping[str, _Votes]:
        """What each rater said."""
        if self.raters:
            numbers = enumerate(_list(_find(record, self.raters)), 1)
            return {f"rater {n}": _rank([each, self.middle]) for n, each in numbers}
        if self.scores:
            return {"": _rank([_find(record, path) for path in self.scores])}
        return {"": _read_ranking(_find(record, self.vote)) if self.vote else {(0, 1): "A"}}

    def read_judge(self, record: Json, name: str) -> Mapping[str, _Votes]:
        """What the judge said: as released, and by the one answer that its reply has in brackets."""
        if self.judge_scores:
            return {name: _rank(_list(_find(record, self.judge_scores)))}
        readings = [_read_ranking(each) for each in _IN_BRACKETS.findall(str(_find(record, self.judge_reply)))]
        answers = {tuple(each.items()): each for each in readings if all(map(_find_vote, each.values()))}
        own = next(iter(answers.values())) if len(answers) == 1 else {}
        return {name: own, f"{name}{AS_RELEASED}": _read_ranking(_find(record, self.judge_vote))}


_SETS = [_Set.model_validate(each) for each in _FILE["set"]]


def _add_set(of: Ratings, rows: Rows, form: _Set, file: Path) -> None:
    """Add the records of a public set: people's votes, and the votes of the judge that answered."""
    parts = {"@stem": file.stem, "@folder": file.parent.name, "@above": file.parent.parent.name}
    judges: dict[str, list[JudgeVote]] = {}
    for number, (place, row) in enumerate(rows, 1):
        record = {**_dict(row), **parts}
        whole = _join(record, form.item) or str(number)
        people = form.read_people(record)
        pairs = [*next(iter(people.values()), {})]
        items = {pair: whole if len(pairs) == 1 else f"{whole} {pair[0] + 1}:{pair[1] + 1}" for pair in pairs}
        swaps = {pair for pair, item in items.items() if form.winner_first and crc32(item.encode()) % 2}
        common = {n: _find(record, path) for n in ("dimension", "category") if (path := getattr(form, n))}
        common["source"] = _join(record, form.source) or (whole.partition(form.group)[0] if form.group else whole)
        models = [_find(record, path) for path in form.models]
        for rater, votes in people.items():
            for pair, vote in votes.items():
                names = zip(("model_a", "model_b"), models[:: -1 if pair in swaps else 1], strict=False)
                people_vote = _OTHER_SIDE.get(vote, vote) if pair in swaps else vote
                of.add({**common, **dict(names), "item": items[pair], "rater": rater, "vote": people_vote}, place)
        for name, votes in form.read_judge(record, str(_find(record, form.judge))).items() if form.judge else ():
            for pair, item in items.items():
                vote = _find_vote(votes.get(pair))
                answer = _OTHER_SIDE.get(vote, vote) if pair in swaps else vote
                reply = str(_find(record, form.judge_reply) or "")
                judges.setdefault(name, []).append(JudgeVote(item, answer, reply=reply))
    for name, own in judges.items():
        if of.votes and own not in of.judges.values():  # a reply that is read alike twice counts once
            of.judges[name] = own


def _find(record: object, path: str) -> Any:
    """Return what stands at a path; None where there is nothing."""
    name, _, rest = path.partition(".")
    if name == "*":
        return [_find(each, rest) for each in _list(record)]
    part = _dict(record).get(name)
    return _find(part, rest) if rest else part


def _join(record: Json, paths: Sequence[str]) -> str:
    return " ".join(str(_find(record, path)) for path in paths)


def _rank(scores: Sequence[Any]) -> _Votes:
    """Make a vote for each two edits of their scores, the higher one winning."""
    votes: dict[tuple[int, int], object] = {}
    for (n, a), (m, b) in combinations(enumerate(scores), 2):
        are_numbers = all(isinstance(each, int | float) for each in (a, b))
        votes[n, m] = ("tie" if a == b else "A" if a > b else "B") if are_numbers else f"{a}, {b}"
    return votes


def _read_ranking(word: object) -> _Votes:
    """Read a vote on two edits, or a ranking of letters, whose first is the first edit."""
    text = _clean(word)
    if _find_vote(text) or not _RANKING.fullmatch(text):
        return {(0, 1): text}
    places = {letter: n for n, part in enumerate(text.split(">")) for letter in part.split("=")}
    return _rank([-places[letter] for letter in sorted(places)])
