"""What people said of edits, and what stored judges did: ratings, votes and how files hold them.

A rating is a number for one edit, a vote a choice between two. Raters stay apart: nobody's ratings
are averaged away when they are read. A record that cannot be used costs itself and is reported with
its place in the file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, FiniteFloat, ValidationError

from ..base.errors import InputError, MissingExtra
from ..base.parse import describe_failure, first_problem, parse_json
from ..stats.preferences import Vote

Json: TypeAlias = dict[str, Any]
_VOTES: Mapping[str, Vote] = {
    "a": "A", "left": "A", "leftvote": "A", "a>b": "A",
    "b": "B", "right": "B", "rightvote": "B", "b>a": "B",
    "tie": "tie", "tievote": "tie", "a=b": "tie", "a=b=good": "tie",
    "both_bad": "both_bad", "bothbad_vote": "both_bad", "a=b=bad": "both_bad",
}  # fmt: skip
"""The votes by the words that files have for them."""
_OTHER_SIDE: Mapping[Vote | None, Vote] = {"A": "B", "B": "A"}
_MMRB2_MIDDLE = 3.5
_IN_BRACKETS = re.compile(r"\[\[([^\[\]]*)\]\]")
_COLUMNS = "item, model, dimension, rater, value, or item, model_a, model_b, dimension, rater, vote"


def _find_vote(word: object) -> Vote | None:
    return _VOTES.get(re.sub(r"[\s\[\]]", "", str(word)).lower())


class _Record(BaseModel):
    """What ratings and votes have in common; columns of other names are ignored.

    Attributes:
        item: Id of the item, as the data of the run has it.
        dimension: What was asked; empty where a file has one question only.
        rater: Who answered; empty where the file does not say.
        source: What edits of one source picture share; empty where only the item is known.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=(), coerce_numbers_to_str=True)

    item: str
    dimension: str = ""
    rater: str = ""
    source: str = ""


class Rating(_Record):
    """The value that a rater gave one edit, on any scale."""

    model: str
    value: FiniteFloat


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


class JudgeVote(NamedTuple):
    """The vote of a stored judge on a pair.

    Attributes:
        item: Id of the item, or of the pair where each has its own.
        vote: The better edit; None where the reply was not read.
        is_swapped: Whether edit B was shown first.
    """

    item: str
    vote: Vote | None
    is_swapped: bool = False


@dataclass(frozen=True)
class Ratings:
    """The ratings and votes of a file, or of several.

    Attributes:
        judges: The votes of stored judges by name, by each way of reading their replies.
        problems: Records that are left out, and why; each names its place in its file.
    """

    ratings: list[Rating] = field(default_factory=list)
    votes: list[VoteRecord] = field(default_factory=list)
    judges: dict[str, list[JudgeVote]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, record: object, place: str) -> bool:
        """Add a rating or a vote, or the reason why it cannot be used; return whether it can."""
        part = {k: v for k, v in _dict(record).items() if v not in (None, "")}
        try:
            if "value" in part and "vote" not in part:
                self.ratings.append(Rating.model_validate(part))
            else:
                self.votes.append(VoteRecord.model_validate(part))
        except ValidationError as error:
            self.problems.append(f"{place}: {first_problem(error)}")
            return False
        return True

    def extend(self, other: Ratings) -> None:
        """Add all that another file has."""
        self.judges.update(other.judges)
        for each in (f.name for f in fields(self) if f.name != "judges"):
            getattr(self, each).extend(getattr(other, each))


def read_ratings(files: Iterable[Path]) -> Ratings:
    """Read ratings and votes of people, and of stored judges, from files of any known form.

    Tables are CSV, JSON lines and Parquet with the columns `item, model, dimension, rater, value`,
    or `item, model_a, model_b, dimension, rater, vote`. JSON is an export of Label Studio, the
    stored judgements of GenAI-Bench (`pairwise.json`), or pairs or judgements of MMRB2.

    Raises:
        InputError: a file cannot be read, is of no known form, or has no record that can be used.
        MissingExtra: a file is Parquet, and pyarrow is not installed.
    """
    whole = Ratings()
    for file in files:
        part = Ratings()
        if read := _TABLES.get(file.suffix.lower()):
            for place, record in read(file):
                part.add(record, f"{file}, {place}")
        else:
            _add_json(part, file)
        if not (part.ratings or part.votes or part.judges):
            why = f"no record can be used; {part.problems[0]}" if part.problems else "no records"
            raise InputError(str(file), why, f"columns: {_COLUMNS}")
        whole.extend(part)
    return whole


def _add_json(of: Ratings, file: Path) -> None:
    try:
        whole = parse_json(_read_text(file))
    except ValueError as error:
        raise InputError(str(file), f"it is no JSON ({describe_failure(error)})") from error
    pairs = _list(_dict(whole).get("pairs"))
    first = _dict(next(iter(_list(whole) or pairs or _dict(whole).values()), None))
    for name, add in _FORMS.items():
        if name in first:
            add(of, pairs or whole, file)
            return
    raise InputError(
        str(file),
        "its form is not known",
        "give CSV, JSON lines, Parquet, an export of Label Studio, or stored judgements of GenAI-Bench or MMRB2",
    )


Rows: TypeAlias = Iterator[tuple[str, object]]
"""Places in a file, and the records there."""


def _dict(part: object) -> Json:
    return cast(Json, part) if isinstance(part, dict) else {}


def _list(part: object) -> list[Any]:
    return part if isinstance(part, list) else []


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(file), f"it cannot be read ({describe_failure(error)})") from error


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


def _number(records: object, file: Path) -> Iterator[tuple[str, Json]]:
    for number, record in enumerate(_list(records), 1):
        yield f"{file}, record {number}", _dict(record)


def _add_label_studio(of: Ratings, tasks: object, file: Path) -> None:
    """Read the annotations of an export of Label Studio, without those that were cancelled."""
    for place, task in _number(tasks, file):
        for annotation in map(_dict, _list(task.get("annotations"))):
            who = annotation.get("completed_by")
            rater = _dict(who).get("email") or _dict(who).get("id") or who
            results = [] if annotation.get("was_cancelled") else _list(annotation.get("result"))
            for result in map(_dict, results):
                value = _dict(result.get("value"))
                record = {**_dict(task.get("data")), "rater": rater}
                record["dimension"] = result.get("from_name")
                for number in (value.get("number"), value.get("rating")):
                    if number is not None:
                        of.add(record | {"value": number}, place)
                for vote in _list(value.get("choices"))[:1]:
                    of.add(record | {"vote": vote}, place)


def _add_genai_bench(of: Ratings, records: object, file: Path) -> None:
    """Read GenAI-Bench's judgements: a vote of people and a judge's reply in each record.

    A reply is read twice: as released (`model_vote`), and by the one vote that the brackets `[[…]]`
    of the reply name. Where neither reads anything the vote is None.
    """
    own, official = [], []
    for place, record in _number(records, file):
        item = str(record.get("idx"))
        people = {"item": record.get("idx"), "vote": record.get("human_vote")}
        if of.add(people | {"source": record.get("source_prompt")}, place):
            words = _IN_BRACKETS.findall(str(record.get("response")))
            votes = {vote for vote in map(_find_vote, words) if vote}
            own.append(JudgeVote(item, votes.pop() if len(votes) == 1 else None))
            official.append(JudgeVote(item, _find_vote(record.get("model_vote"))))
    readings = {file.parent.name: own, f"{file.parent.name} (as released)": official}
    of.judges.update(list(readings.items())[: (own != official) + bool(own)])


def _add_mmrb2_pairs(of: Ratings, pairs: object, file: Path) -> None:
    """Read MMRB2's pairs: three raters from 1 (B) to 6 (A) without a middle; A is above 3.5."""
    for place, pair in _number(pairs, file):
        for rater, value in enumerate(_list(pair.get("human_annotations")), 1):
            is_number = isinstance(value, int | float) and 1 <= value <= 6
            record = {
                "item": pair.get("id"),
                "model_a": _dict(pair.get("response_a")).get("model_name"),
                "model_b": _dict(pair.get("response_b")).get("model_name"),
                "source": f"{pair.get('prompt_source')} {pair.get('prompt_metadata')}",
                "rater": f"rater {rater}",
                "vote": ("A" if value > _MMRB2_MIDDLE else "B") if is_number else value,
            }
            of.add(record, place)


def _add_mmrb2_judgements(of: Ratings, whole: object, file: Path) -> None:
    """Read MMRB2's judgements. In the reverse order the first edit is B."""
    for item, orders in _dict(whole).items():
        for is_swapped, name in enumerate(("forward", "reverse")):
            for one in map(_dict, _list(_dict(orders).get(name))):
                vote = _find_vote(one.get("judgement"))
                vote = _OTHER_SIDE.get(vote, vote) if is_swapped else vote
                judge = str(one.get("evaluator") or file.stem)
                of.judges.setdefault(judge, []).append(JudgeVote(item, vote, bool(is_swapped)))


_FORMS: Mapping[str, Callable[[Ratings, object, Path], None]] = {
    "human_vote": _add_genai_bench,
    "annotations": _add_label_studio,
    "human_annotations": _add_mmrb2_pairs,
    "forward": _add_mmrb2_judgements,
}
"""The readers of JSON, by a field that the first record has."""
