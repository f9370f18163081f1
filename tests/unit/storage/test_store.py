from __future__ import annotations

import random
import re
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from editjudge.base.digest import digest_bytes
from editjudge.base.errors import Abstention, ConfigError, StoreError
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.item import Missing
from editjudge.base.signature import versions
from editjudge.base.verdict import NoScore, Score, Verdict, make_no_score
from editjudge.engine.content_keys import FileCache, FileContent, ItemContent, JudgedEdit
from editjudge.panel.calls import Call, Reply, SpecialistCall
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.schema import EDITS
from editjudge.storage.store import FILE, RunStore

from ...replies import count_replies
from .small_store import (
    CONTENT,
    HEADER,
    LOST,
    SIGNATURES,
    UNREAD,
    ask,
    digest,
    header,
    make_run,
    make_score,
    put,
    reply,
)

A = {"core.a": SIGNATURES["core.a"]}
GONE = Missing("absent", "no file röd.png")


def numbers(store: RunStore) -> list[Verdict]:
    return [one.verdict for one in store.verdicts()]


def test_verdicts_come_back(tmp_path: Path) -> None:
    given: dict[str, dict[str, Verdict]] = {
        "one": {"core.a": make_score(0.1 + 0.2, method="logprobs", share=[1, None, {"x": True}])},
        "two": {"core.a": UNREAD, "core.b": LOST},
        "röd/3": {"core.a": Score(value=-3, imputed=True), "core.b": Score(value=0)},
    }
    with RunStore.open(make_run(tmp_path / "run", **given)) as store:
        found: dict[str, dict[str, Verdict]] = {}
        for one in store.verdicts():
            found.setdefault(one.item, {})[one.dimension] = one.verdict
            assert (one.model, one.signature) == ("alpha", SIGNATURES[one.dimension])
        assert found == given
        assert list(found) == list(given)
        assert [v.item for v in store.verdicts(dimension="core.b")] == ["two", "röd/3"]
        assert [v.dimension for v in store.verdicts("alpha", item="two")] == ["core.a", "core.b"]
        assert list(store.verdicts("beta")) == list(store.verdicts([])) == []
        among = ["röd/3", "unknown", "one"]
        some = store.verdicts(["alpha", "beta"], item=among)
        assert [v.item for v in some] == ["one", "röd/3", "röd/3"]
        assert [edit.item for edit in store.edits(["alpha"], item=among)] == ["one", "röd/3"]
        bare = [one.verdict for one in store.verdicts(evidence=False)]
        unread = UNREAD.model_copy(update={"evidence": {}})
        assert bare[:4] == [Score(value=0.1 + 0.2), unread, LOST, given["röd/3"]["core.a"]]


def test_versions_stand_beside_the_signature(store: RunStore) -> None:
    """What stands does not depend on them: nothing is judged again for another NumPy."""
    put(store, "one", {"core.a": make_score(1)})
    assert [one.versions for one in store.verdicts()] == [versions()]
    assert "numpy:" in versions()
    store.save_edit_now(JudgedEdit("one", "alpha"), {"core.a": make_score(1)}, SIGNATURES, "numpy:1.26.0")
    assert [one.versions for one in store.verdicts()] == ["numpy:1.26.0"]
    ((standing,),) = store.find_standing("alpha", SIGNATURES).values()
    assert standing.dimensions == {"core.a"}


def test_verdicts_take_the_place_of_earlier_ones(store: RunStore) -> None:
    edit = put(store, "one", {"core.a": LOST, "core.b": make_score(1)})
    assert put(store, "one", {"core.a": make_score(2)}) == edit
    assert numbers(store) == [make_score(2), make_score(1)]


def test_all_of_an_edit_or_nothing(store: RunStore) -> None:
    with pytest.raises(KeyError):
        put(store, "one", {"core.a": make_score(1), "core.b": make_score(1)}, signatures=A)
    assert numbers(store) == []
    # The names that the undone transaction brought in are not remembered as if they were there.
    put(store, "one", {"core.a": make_score(1), "core.b": make_score(1)})
    assert len(numbers(store)) == 2


async def test_verdicts_refer_to_the_replies_they_rest_on(store: RunStore) -> None:
    letters = random.Random(0)
    for index in range(20):
        call = ask(index)
        await store.ledger.put(call, reply("".join(letters.choices("abcdef ", k=3000)), 0.01))
        verdict = Score(value=0.5, calls=(call.key,))
        put(store, f"item-{index}", {"core.a": verdict, "core.b": verdict})
    for one in store.verdicts():
        (said,) = one.replies
        assert one.verdict == Score(value=0.5, calls=(said.call,))
        assert (said.model, said.prompt, said.cost) == ("judge-1", call.prompt.digest, 0.01)
        assert len(said.reply["text"]) == 3000  # type: ignore[index,call-overload,arg-type]
    assert all(one.verdict == Score(value=0.5) for one in store.verdicts(evidence=False))
    longest = store.database.query_row("SELECT max(length(details)) FROM edits WHERE id > 2")
    assert longest < (80,)  # type: ignore[operator]
    # Dropped calls are made again, and verdicts can still show what they rested on.
    before = list(store.verdicts())
    assert await store.ledger.drop([call.key]) == 1
    assert list(store.verdicts()) == before


def test_what_stands(store: RunStore) -> None:
    put(store, "done", {"core.a": make_score(1), "core.b": UNREAD})
    put(store, "half", {"core.a": make_score(1), "core.b": LOST})
    put(store, "old", {"core.a": make_score(1)}, signatures={"core.a": "of yesterday"})
    put(store, "other", {"core.a": make_score(1)}, model="beta")
    store.save_edit_now(JudgedEdit("none", "alpha", None, GONE))
    found = {name: one for name, (one,) in store.find_standing("alpha", SIGNATURES).items()}
    both = {"core.a", "core.b"}
    dimensions = {name: set(one.dimensions) for name, one in found.items()}
    assert dimensions == {"done": both, "half": {"core.a"}, "old": set(), "none": set()}
    assert found["done"].output == digest_bytes(digest("alphadone"))
    assert (found["none"].output, found["none"].missing) == (None, GONE)
    assert [(e.item, e.model) for e in store.edits("beta")] == [("other", "beta")]
    counts = {"core.a": {"scored": 3}, "core.b": {"unscored": 1, "failed": 1}}
    assert store.counts()["alpha"] == counts
    assert store.counts(items={"no such item"}) == {}, "items that the data has no more"
    by_signature = {"alpha": {"core.a": {"scored": 2}}, "beta": {"core.a": {"scored": 1}}}
    assert store.counts(A) == by_signature
    assert store.find_standing("alpha", {"core.new": "unseen"})["done"][0].dimensions == set()
    assert store.find_standing("gamma", SIGNATURES) == {}
    assert store.items() == ["done", "half", "old", "other", "none"]


def test_another_output_has_no_verdicts_yet(store: RunStore) -> None:
    edit = put(store, "one", {"core.a": make_score(1)})
    put(store, "two", {"core.a": make_score(2)})
    other = put(store, "one", {}, output="another")
    assert other != edit
    assert [one.item for one in store.verdicts()] == ["two"]
    store.save_edit_now(JudgedEdit("two", "alpha", None, GONE))
    assert numbers(store) == []
    # What was judged of the former output stands once that is there again.
    assert put(store, "one", {}) not in {edit, other}
    assert numbers(store) == [make_score(1)]


def test_another_item_has_no_verdicts_yet(store: RunStore) -> None:
    other = CONTENT._replace(key=bytes(16))
    edit = put(store, "one", {"core.a": make_score(1)}, content=CONTENT)
    assert put(store, "one", {}, content=other) != edit
    assert numbers(store) == []
    assert store.content_keys() == {"one": other.key}
    judged = store.find_standing("alpha", SIGNATURES)["one"]
    contents = [(one.content, set(one.dimensions)) for one in judged]
    assert contents == [(CONTENT.key, {"core.a"}), (other.key, set())]
    put(store, "one", {}, content=CONTENT)
    assert numbers(store) == [make_score(1)]
    assert store.content_keys() == {"one": CONTENT.key}


def test_what_files_held_is_kept(store: RunStore) -> None:
    first, second = FileContent(b"stat one", bytes(16)), FileContent(b"stat two", bytes(16))
    assert store.file_cache() == FileCache()
    files = FileCache({1: first, 2: first}, digest("data"), b"records")
    store.save_contents([], files, {"data_digest": "sha256:2"})
    store.save_contents([], FileCache({2: second}), {})
    store.save_edit_now(JudgedEdit("one", "alpha", content=ItemContent(bytes(16), {3: first})))
    assert store.file_cache() == replace(files, files={1: first, 2: second, 3: first})
    assert store.header.data_digest == "sha256:2"


def test_an_output_that_was_not_looked_at_stays_what_it_was(store: RunStore) -> None:
    """An item that cannot be loaded costs its own verdict, not those that stand."""
    edit = put(store, "one", {"core.a": make_score(1)})
    before = store.edit("one", "alpha")
    store.save_edit_now(JudgedEdit("one", "alpha"), {"core.b": LOST}, SIGNATURES)
    assert store.edit("one", "alpha") == before
    assert getattr(before, "id", None) == edit
    assert numbers(store) == [make_score(1), LOST]


async def test_dropping_verdicts_drops_the_replies_behind_them(store: RunStore) -> None:
    lpips = SpecialistCall(ServiceName("lpips", "vgg"), "lpips_vgg/1", {"IMAGE_A": digest("a")})
    call = ask()
    await store.ledger.put(lpips, Reply({"kind": "degenerate", "reason": "no region"}))
    await store.ledger.put(call, reply("Hm"))
    unread = NoScore(kind="unparsable", reason="no JSON", calls=(call.key,))
    empty = make_no_score(Abstention("degenerate", "no region", calls=(lpips.key,)))
    number = Score(value=1, calls=(call.key,))
    put(store, "one", {"core.a": unread, "core.b": empty})
    put(store, "two", {"core.b": number})
    assert store.drop_verdicts("unscored", models="beta") == 0
    assert store.drop_verdicts("unscored", dimensions={"core.a"}) == 1
    assert await store.ledger.get(call) is None
    assert count_replies(store.ledger) == 1
    assert store.drop_verdicts("unscored", dimensions={"core.b"}) == 1
    assert await store.ledger.get(lpips) is None
    (left,) = store.verdicts()
    assert (left.verdict, left.replies[0].reply) == (number, reply("Hm").content)
    # What is said anew is another verdict's.
    await store.ledger.put(call, reply("Well"))
    put(store, "one", {"core.a": number})
    replies = {one.item: one.replies[0].reply for one in store.verdicts()}
    assert replies == {"one": reply("Well").content, "two": reply("Hm").content}


async def test_what_is_read_from_a_dropped_reply_is_read_anew_together(store: RunStore) -> None:
    calls = [ask(number) for number in range(3)]
    asked, generated, other = (call.key for call in calls)
    for call in calls:
        await store.ledger.put(call, reply())
    unread = NoScore(kind="unparsable", reason="no JSON", calls=(generated, asked))
    beside, apart = (Score(value=1, calls=(key,)) for key in (asked, other))
    verdicts = {"core.a": unread, "core.b": beside, "core.c": apart, "core.mean": make_score(1)}
    put(store, "one", verdicts, signatures=dict.fromkeys(verdicts, "s"))
    put(store, "one", {"core.a": Score(value=1, calls=(generated,))}, model="beta")
    above = {"core.b": {"core.mean"}}
    assert store.drop_verdicts("unscored", dimensions={"core.a"}, derived_ids=above) == 1
    left = {(one.model, one.dimension) for one in store.verdicts()}
    assert left == {("alpha", "core.c"), ("beta", "core.a")}
    # Another model's number rests on what was generated for both.
    assert [await store.ledger.get(call) is None for call in calls] == [True, False, False]


def test_a_run_goes_on_with_more_outputs_and_dimensions(tmp_path: Path) -> None:
    make_run(tmp_path, one={"core.a": make_score(1)})
    more = header(
        outputs={"beta": "/outputs/beta"},
        dimensions=("core.b", "core.c"),
        identities={ServiceName("ocr", "ppocr"): ModelIdentity("ocr_ppocr/1")},
        created="2000-01-01T00:00:00+00:00",
        settings={},
    )
    RunStore.open(tmp_path, more).close()
    with RunStore.open(tmp_path) as store:
        assert store.header == HEADER.model_copy(
            update={
                "outputs": {"alpha": "/outputs/alpha", "beta": "/outputs/beta"},
                "dimensions": ("core.a", "core.b", "core.c"),
                "identities": {**HEADER.identities, **more.identities},
                "settings": {},
            }
        )
        assert numbers(store) == [make_score(1)]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"benchmark": "gie"}, "benchmark core, not gie"),
        ({"protocol": "core.2"}, "protocol core.1, not core.2"),
        ({"judges": ("other",)}, "judges judge, not other"),
    ],
)
def test_a_run_of_something_else_is_refused(tmp_path: Path, changed: dict[str, object], told: str) -> None:
    make_run(tmp_path)
    with pytest.raises(ConfigError, match=told):
        RunStore.open(tmp_path, header(**changed))
    with RunStore.open(tmp_path) as store:
        assert store.header == HEADER


def test_the_folder_above_runs_names_them(tmp_path: Path) -> None:
    for name in "abcd":
        make_run(tmp_path / name)
    named = ", ".join(str(tmp_path / name) for name in "abc")
    with pytest.raises(ConfigError, match=re.escape(f"such as {named} and 1 more")):
        RunStore.open(tmp_path, read_only=True)


def test_what_holds_no_run(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(ConfigError, match="holds no run"):
            RunStore.open(tmp_path / "none", read_only=read_only)
    assert not (tmp_path / "none").exists()
    (tmp_path / FILE).touch()
    with pytest.raises(ConfigError, match="holds no run"):
        RunStore.open(tmp_path)
    with RunStore.open(tmp_path, HEADER) as store:
        assert store.header == HEADER


def test_evidence_that_cannot_be_read_names_its_edit(store: RunStore) -> None:
    store.database.change(EDITS, put(store, "one", {"core.a": make_score(1)}), details=b"\x09\xff")
    with pytest.raises(StoreError, match=r"the verdicts on one, alpha cannot be read"):
        list(store.verdicts())


async def test_prompts_alike_take_little_room(tmp_path: Path) -> None:
    """A dictionary of the first documents is kept in the file."""
    template = " ".join(f"word{n % 97} of rule {n}" for n in range(120))
    texts = [f"Make cup {index} red" for index in range(200)]
    prompts = [Prompt(template, (Text(text, is_data=True),)) for text in texts]
    with RunStore.open(tmp_path, HEADER) as store:
        for prompt in prompts:
            await store.ledger.put(Call("judge", prompt, {"schema": None}), reply())
        last = store.database.query_row("SELECT max(length(document)) FROM prompts WHERE id > 100")
        assert last[0] < 150 < len(template)  # type: ignore[index]
    with RunStore.open(tmp_path, read_only=True) as store:
        kept = [store.ledger.get_prompt(prompt.digest) for prompt in prompts]
    assert [(one.system, one.parts[0]["text"]) for one in kept] == [  # type: ignore[union-attr]
        (template, text) for text in texts
    ]


def test_many_edits_take_little_room(tmp_path: Path) -> None:
    count = 5_000
    values = random.Random(0)
    with RunStore.open(tmp_path, HEADER) as store, store.database.transaction():
        for index in range(count):
            verdict = make_score(values.random(), region_share=round(values.random(), 6))
            put(store, f"sample-{index:06}", {"core.a": verdict}, signatures=A)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size / count < 200
    with RunStore.open(tmp_path, read_only=True) as store:
        tracemalloc.start()
        standing = store.find_standing("alpha", A)
        held, _ = tracemalloc.get_traced_memory()
        assert sum(len(one.dimensions) for (one,) in standing.values()) == count
        assert held / count < 600  # bytes
        # Evidence is read one verdict at a time.
        tracemalloc.reset_peak()
        assert sum(1 for _ in store.verdicts()) == count
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak - held < 2_000_000


FORM_1 = Path(__file__).with_name("form_1.sqlite")


def test_form_1_is_read(tmp_path: Path) -> None:
    shutil.copyfile(FORM_1, tmp_path / FILE)
    with RunStore.open(tmp_path, read_only=True) as store:
        assert store.header.protocol == "core.1"
        verdicts = {(one.item, one.dimension): one for one in store.verdicts()}
        last = verdicts["cup 59", "core.a"]
        assert (last.verdict.value, last.versions) == (59 / 60, "numpy:2.0")
        (said,) = last.replies
        assert said.reply == {"text": '{"score": 4}'}
        assert store.ledger.get_prompt(said.prompt).parts[0]["text"] == "Make cup 59 red"
        assert verdicts["odd", "core.a"].verdict.status == "unscored"
        assert verdicts["odd", "core.b"].verdict.status == "failed"
        assert store.edit("gone", "alpha").missing == Missing("absent", "no file")
        assert store.content_keys()["odd"] == store.content_keys()["cup 1"]
        assert len(store.file_cache().files) == 62
        assert store.database.query_row("SELECT count(*) FROM dictionaries") == (1,)
