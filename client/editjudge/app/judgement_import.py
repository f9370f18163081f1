"""Makes a run of the judgements of others: the numbers that they released, and ours of the same replies."""

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, cast

from ..answers.reply import Unparsable
from ..answers.scores import ScoreField, Scores
from ..base.digest import content_digest, file_digest
from ..base.errors import ConfigError
from ..base.identity import ModelIdentity, ServiceName
from ..base.output_files import wrap_disk_errors
from ..base.strict import Strict
from ..base.verdict import NoScore, NoScoreKind, Score, Verdict
from ..benchmarks.dataset import Dataset, ItemRef, flaw
from ..benchmarks.imported_dimensions import IMPORT_ROLE, make_imported_dimensions
from ..benchmarks.registry import CORE, load_benchmark
from ..engine.content_keys import ItemContents, JudgedEdit
from ..engine.run_header import RunHeader
from ..panel.calls import Call, Reply, make_record
from ..panel.prompt import Prompt
from ..stats.preferences import Vote
from ..storage.store import RunStore
from .ratings import AS_RELEASED, JudgeVote, Ratings, StoredJudgement, read_ratings
from .view import RunView

VOTE = f"{IMPORT_ROLE}.vote"
"""The dimension of votes on pairs: 1 for A, 0 for B, else a half; the evidence names the vote."""
REREAD = ".reread"
"""Ends the dimension of what our readers find in the replies."""
ORDERS = ("A first", "B first")
"""The models of a run of votes: which edit the judge saw first."""
_SHARES: Mapping[Vote | None, float] = {"A": 1.0, "B": 0.0, "tie": 0.5, "both_bad": 0.5}
_NOTHING = NoScore(kind="degenerate", reason="no judgement of it was imported")
_Answers: TypeAlias = list[tuple[StoredJudgement, dict[str, Verdict]]]
"""What a judge said, and the verdicts of it by dimension: as released, and by our reader."""


class ImportSummary(Strict):
    """`editjudge import --json`.

    Attributes:
        judge: The name of the judge.
        edits: Number of edits; of votes, of pairs in one order.
        scores: Number of scores by dimension.
        replies: Number of replies.
        differ: How many replies give our reader another number than was released, or only one of both.
        problems: Records that cannot be used, each with its place.
    """

    judge: str
    edits: int
    scores: dict[str, int]
    replies: int
    differ: int
    problems: tuple[str, ...]


class _Items(Dataset):
    """The items that judgements name, without pictures."""

    def __init__(self, folder: Path, digest: str, answers: _Answers) -> None:
        super().__init__(folder, folder)
        self._digest, self._records = digest, {each.item: each for each, _ in answers}

    @property
    def digest(self) -> str:
        """The digest of the judgements."""
        return self._digest

    def _read(self, only: object = None, problems: object = None) -> Iterator[ItemRef]:
        no_source = {"source": flaw("imported without pictures")}
        for number, (item, of) in enumerate(self._records.items()):
            # Items share a source by its name, which no file has.
            source = content_digest((of.source or item).encode())
            texts = {"instruction": of.instruction, "task": of.category}
            yield ItemRef(item, number, texts, {"source": (source,)}, no_source)


def import_judgements(
    files: Sequence[Path],
    out: Path,
    *,
    scale: tuple[float, float] | None = None,
    data: Path | None = None,
    outputs: Mapping[str, Path] = {},
) -> ImportSummary:
    """Write a run of the stored judgements of one judge.

    Args:
        files: Of the forms that `read_ratings` knows.
        out: The folder of the new run.
        scale: The ends of the judge's scale; votes have none.
        data: `items.jsonl` with these items, for their pictures.
        outputs: The folder of each model's outputs, for their pictures.

    Raises:
        ConfigError: the folder exists, no scale is given, or the files have several judges or none.
        InputError: a file cannot be read, or no record can be used.
    """
    if out.exists():
        raise ConfigError(f"{out} exists", "give another --as")
    read = read_ratings(files)
    judge, problems = _find_judge(read) or files[0].stem, [*read.problems]
    if not (scale or read.judges):
        raise ConfigError("the judge's scale is not known", "name its ends: --scale LOW:HIGH")
    scale = scale if scale and not read.judges else (0.0, 1.0)
    contract = Scores((ScoreField("score", *scale, integer=False),), reasoning="before")
    answers = _read_votes(read, judge) if read.judges else _read_scores(read, contract, problems)
    how = "by votes.1" if read.judges else f"by {contract.name}.{contract.parser}"
    digest = content_digest("\n".join(map(file_digest, files)).encode())
    benchmark = load_benchmark(CORE)
    dataset = benchmark.data(data) if data else _Items(out, digest, answers)
    refs = {ref.id: ref for ref in dataset.items()}
    problems += [f"{each.place}: {data} has no item {each.item}" for each, _ in answers if each.item not in refs]
    answers = [each for each in answers if each[0].item in refs]
    facts = {"file": digest, "low": f"{scale[0]:g}", "high": f"{scale[1]:g}"}
    identities = {
        ServiceName.parse(name): ModelIdentity(judge, facts | {"read": how if name.endswith(REREAD) else "as released"})
        for name in sorted({name for _, verdicts in answers for name in verdicts})
    }
    models = {each.model: str(outputs.get(each.model, out / "outputs" / each.model)) for each, _ in answers}
    where = {"data": str(dataset.path) if data else "", "data_digest": dataset.digest, "outputs": models}
    what: dict[str, Any] = where | {"dimensions": tuple(identities), "identities": identities}
    header = RunHeader(benchmark=CORE, protocol=benchmark.rules().protocol, **what)
    signatures = {each.id: str(each.signature(identities)) for each in make_imported_dimensions(identities)}
    verdicts_of: dict[tuple[str, str], dict[str, Verdict]] = defaultdict(dict)
    records = []
    for each, verdicts in answers:
        if each.reply:  # the form names the file, so that no call of ours has this key
            form = {"file": digest, "of": [each.item, each.model, *verdicts]}
            call = Call(f"{IMPORT_ROLE} {judge}", Prompt("", ()), form)
            records.append(make_record(call, Reply({"text": each.reply}, judge)))
            verdicts = {name: of.model_copy(update={"calls": (call.key,)}) for name, of in verdicts.items()}
        verdicts_of[each.item, each.model] |= verdicts
    contents, new_folder = ItemContents(dataset), out.with_name(f".{out.name}.partial")
    shutil.rmtree(new_folder, ignore_errors=True)
    with wrap_disk_errors(out):
        with RunStore.open(new_folder, header) as store:
            asyncio.run(store.ledger.put_records(records))
            with store.database.transaction():
                for ref, model in product(refs.values(), header.outputs):
                    edit = JudgedEdit(ref.id, model, content=contents.read(ref))
                    verdicts = dict.fromkeys(map(str, identities), _NOTHING) | verdicts_of[ref.id, model]
                    store.save_edit_now(edit, verdicts, signatures)
                store.save_contents([], contents.updates(), {})
        new_folder.replace(out)
    readings = [[verdict.value for verdict in verdicts.values()] for each, verdicts in answers if each.reply]
    numbers = {"replies": len(readings), "differ": sum(first != second for first, second in readings)}
    scores = {str(name): sum(isinstance(of.get(name), Score) for _, of in answers) for name in identities}
    edits = len({(each.item, each.model) for each, _ in answers})
    return ImportSummary(judge=judge, edits=edits, scores=scores, problems=tuple(problems), **numbers)


def read_imported_votes(view: RunView) -> Mapping[str, Sequence[JudgeVote]]:
    """Read the votes of a run of imported votes, by dimension; empty for other runs."""
    votes: dict[str, list[JudgeVote]] = {}
    for each in view.verdicts() if {*view.header.outputs} <= {*ORDERS} else ():
        vote = cast(Vote | None, getattr(each.verdict, "evidence", {}).get("vote"))
        votes.setdefault(each.dimension, []).append(JudgeVote(each.item, vote, each.model == ORDERS[1]))
    return votes


def _find_judge(read: Ratings) -> str:
    names = {name.removesuffix(AS_RELEASED) for name in read.judges} | {each.judge for each in read.judgements}
    if len(names) != 1:
        why = f"the files hold several judges: {', '.join(sorted(names))}" if names else "the files hold no judgements"
        raise ConfigError(why, "give the files of one judge")
    return names.pop()


def _make_verdict(value: float | None, why: str, **evidence: str) -> Verdict:
    return NoScore(kind="unparsable", reason=why) if value is None else Score(value=value, evidence={**evidence})


def _read_votes(read: Ratings, judge: str) -> _Answers:
    people = {record.item: record for record in read.votes}
    ours, answers = read.judges[judge], _Answers()
    for pair in zip(read.judges.get(f"{judge}{AS_RELEASED}", ours), ours, strict=True):
        item, _, is_swapped, reply = pair[1]
        record = people[item].model_dump(include={"source", "category"}) if item in people else {}
        readings = zip((VOTE, f"{VOTE}{REREAD}")[: 1 + bool(reply)], pair, strict=False)
        verdicts = {n: _make_verdict(_SHARES.get(of.vote), "no vote was read", vote=str(of.vote)) for n, of in readings}
        answers.append(
            (StoredJudgement(place="", item=item, model=ORDERS[is_swapped], reply=reply, **record), verdicts)
        )
    return answers


def _read_scores(read: Ratings, contract: Scores, problems: list[str]) -> _Answers:
    answers: dict[tuple[str, ...], tuple[StoredJudgement, dict[str, Verdict]]] = {}
    (scale,) = contract.fields
    for each in read.judgements:
        name, value, why = f"{IMPORT_ROLE}.{each.dimension or scale.name}", each.score, "released without a score"
        if (each.item, each.model, name) in answers:
            problems.append(f"{each.place}: item {each.item} of {each.model} has another {name} already")
            continue
        if value is not None and not scale.low <= value <= scale.high:
            value, why = None, f"{value:g} is not from {scale.low:g} to {scale.high:g}"
            problems.append(f"{each.place}: {why}")
        verdicts = {name: _make_verdict(value, why)}
        if each.reply:
            try:
                verdicts[f"{name}{REREAD}"] = Score(value=contract.parse(each.reply).scores[scale.name])
            except Unparsable as error:
                verdicts[f"{name}{REREAD}"] = NoScore(kind=cast(NoScoreKind, error.kind), reason=error.reason)
        answers[each.item, each.model, name] = each, verdicts
    return [*answers.values()]
