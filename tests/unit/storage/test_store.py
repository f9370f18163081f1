from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.digest import digest_bytes
from editjudge.base.errors import Abstention, ConfigError, StoreError
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.item import Missing
from editjudge.base.signature import versions
from editjudge.base.verdict import NoScore, Score, Verdict, make_no_score
from editjudge.engine.content_keys import FileCache, FileContent, ItemContent, JudgedEdit
from editjudge.panel.calls import Call, Reply, SpecialistCall, Usage
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.schema import EDITS
from editjudge.storage.store import FILE, RunStore

from ...replies import count_replies
from .stored import (
    CONTENT,
    HEADER,
    LOST,
    SIGNATURES,
    UNREAD,
    digest,
    header,
    made,
    put,
    scored,
)

A = {"core.a": SIGNATURES["core.a"]}


def test_verdicts_come_back(tmp_path: Path) -> None:
    given: dict[str, dict[str, Verdict]] = {
        "one": {"core.a": scored(0.1 + 0.2, method="logprobs", share=[1, None, {"x": True}])},
        "two": {"core.a": UNREAD, "core.b": LOST},
        "röd/3": {"core.a": Score(value=-3, imputed=True), "core.b": Score(value=0)},
    }
    with RunStore.open(made(tmp_path / "run", **given)) as store:
        found: dict[str, dict[str, Verdict]] = {}
        for one in store.verdicts():
            found.setdefault(one.item, {})[one.dimension] = one.verdict
            assert (one.model, one.signature) == ("alpha", SIGNATURES[one.dimension])
        assert found == given
        assert list(found) == list(given)
        assert [v.item for v in store.verdicts(dimension="core.b")] == ["two", "röd/3"]
        assert [v.dimension for v in store.verdicts("alpha", item="two")] == ["core.a", "core.b"]
        assert list(store.verdicts("beta")) == []
        among = ["röd/3", "unknown", "one"]
        assert [v.item for v in store.verdicts(["alpha", "beta"], item=among)] == [
            "one",
            "röd/3",
            "röd/3",
        ]
        assert [edit.item for edit in store.edits(["alpha"], item=among)] == ["one", "röd/3"]
        assert list(store.verdicts([])) == []
        bare = [one.verdict for one in store.verdicts(evidence=False)]
        assert bare[0] == Score(value=0.1 + 0.2)
        assert bare[1] == UNREAD.model_copy(update={"evidence": {}})
        assert bare[2] == LOST
        assert bare[3] == given["röd/3"]["core.a"]


def test_versions_stand_beside_the_signature(tmp_path: Path) -> None:
    """What stands does not depend on them: nothing is judged again for another NumPy."""
    made(tmp_path, one={"core.a": scored(1)})
    with RunStore.open(tmp_path) as store:
        assert [one.versions for one in store.verdicts()] == [versions()]
        assert "numpy:" in versions()
        edit = JudgedEdit("one", "alpha")
        store.save_edit_now(edit, {"core.a": scored(1)}, SIGNATURES, "numpy:1.26.0")
        assert [one.versions for one in store.verdicts()] == ["numpy:1.26.0"]
        ((standing,),) = store.find_standing("alpha", SIGNATURES).values()
        assert standing.dimensions == {"core.a"}


def test_verdicts_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        edit = put(store, "one", {"core.a": LOST, "core.b": scored(1)})
        assert put(store, "one", {"core.a": scored(2)}) == edit
        assert [one.verdict for one in store.verdicts()] == [scored(2), scored(1)]


def test_all_of_an_edit_or_nothing(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        with pytest.raises(KeyError):
            put(store, "one", {"core.a": scored(1), "core.b": scored(1)}, signatures=A)
        assert list(store.verdicts()) == []
        # The names that the undone transaction brought in are not remembered as if they were there.
        put(store, "one", {"core.a": scored(1), "core.b": scored(1)})
        assert len(list(store.verdicts())) == 2


async def test_verdicts_refer_to_the_replies_they_rest_on(tmp_path: Path) -> None:
    prompt = Prompt("You judge.", (Text("Is it röd?", is_data=True),))
    letters = random.Random(0)
    with RunStore.open(tmp_path, HEADER) as store:
        for index in range(20):
            reasoning = "".join(letters.choices("abcdefghijklmnop ", k=3000))
            text = f'{{"reasoning": "{reasoning}", "score": 3}}'
            call = Call("judge(1)", prompt, {"schema": None}, index)
            await store.ledger.put(call, Reply({"text": text}, "judge", Usage(1000, 0, 700), 0.01))
            verdict = Score(value=0.5, calls=(call.key,))
            put(store, f"item-{index}", {"core.a": verdict, "core.b": verdict})
        for one in store.verdicts():
            (said,) = one.replies
            assert one.verdict == Score(value=0.5, calls=(said.call,))
            assert (said.model, said.prompt, said.cost) == ("judge", prompt.digest, 0.01)
            assert len(said.reply["text"]) > 3000  # type: ignore[index,call-overload,arg-type]
        assert all(one.verdict == Score(value=0.5) for one in store.verdicts(evidence=False))
        assert store.database.query_row("SELECT max(length(details)) FROM edits WHERE id > 2") < (
            80,
        )
        # Dropped calls are made again, and verdicts can still show what they rested on.
        before = list(store.verdicts())
        assert await store.ledger.drop([call.key]) == 1
        assert list(store.verdicts()) == before


def test_what_stands(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        put(store, "done", {"core.a": scored(1), "core.b": UNREAD})
        put(store, "half", {"core.a": scored(1), "core.b": LOST})
        put(store, "old", {"core.a": scored(1)}, signatures={"core.a": "of yesterday"})
        put(store, "other", {"core.a": scored(1)}, model="beta")
        absent = Missing("absent", "no file röd.png")
        store.save_edit_now(JudgedEdit("none", "alpha", None, absent))
        found = {name: one for name, (one,) in store.find_standing("alpha", SIGNATURES).items()}
        assert {name: set(one.dimensions) for name, one in found.items()} == {
            "done": {"core.a", "core.b"},
            "half": {"core.a"},
            "old": set(),
            "none": set(),
        }
        assert found["done"].output == digest_bytes(digest("alphadone"))
        assert (found["none"].output, found["none"].missing) == (
            None,
            Missing("absent", "no file röd.png"),
        )
        assert [(e.item, e.model) for e in store.edits("beta")] == [("other", "beta")]
        assert store.counts()["alpha"] == {
            "core.a": {"scored": 3},
            "core.b": {"unscored": 1, "failed": 1},
        }
        assert store.counts(items={"no such item"}) == {}, "items that the data has no more"
        assert store.counts(A) == {
            "alpha": {"core.a": {"scored": 2}},
            "beta": {"core.a": {"scored": 1}},
        }
        assert store.find_standing("alpha", {"core.new": "unseen"})["done"][0].dimensions == set()
        assert store.find_standing("gamma", SIGNATURES) == {}
        assert store.items() == ["done", "half", "old", "other", "none"]


def test_another_output_has_no_verdicts_yet(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        edit = put(store, "one", {"core.a": scored(1)})
        put(store, "two", {"core.a": scored(2)})
        other = put(store, "one", {}, output="another")
        assert other != edit
        assert [one.item for one in store.verdicts()] == ["two"]
        store.save_edit_now(JudgedEdit("two", "alpha", None, Missing("absent", "gone")))
        assert list(store.verdicts()) == []
        # What was judged of the former output stands once that is there again.
        assert put(store, "one", {}) not in {edit, other}
        assert [one.verdict for one in store.verdicts()] == [scored(1)]


def test_another_item_has_no_verdicts_yet(tmp_path: Path) -> None:
    other = CONTENT._replace(key=bytes(16))
    with RunStore.open(tmp_path, HEADER) as store:
        edit = put(store, "one", {"core.a": scored(1)}, content=CONTENT)
        assert put(store, "one", {}, content=other) != edit
        assert list(store.verdicts()) == []
        assert store.content_keys() == {"one": other.key}
        judged = store.find_standing("alpha", SIGNATURES)["one"]
        assert [(one.content, set(one.dimensions)) for one in judged] == [
            (CONTENT.key, {"core.a"}),
            (other.key, set()),
        ]
        put(store, "one", {}, content=CONTENT)
        assert [one.verdict for one in store.verdicts()] == [scored(1)]
        assert store.content_keys() == {"one": CONTENT.key}


def test_what_files_held_is_kept(tmp_path: Path) -> None:
    first, second = FileContent(b"stat one", bytes(16)), FileContent(b"stat two", bytes(16))
    with RunStore.open(tmp_path, HEADER) as store:
        assert store.file_cache() == FileCache()
        files = FileCache({1: first, 2: first}, digest("data"), b"records")
        store.save_contents([], files, {"data_digest": "sha256:2"})
        store.save_contents([], FileCache({2: second}), {})
        edit = JudgedEdit("one", "alpha", content=ItemContent(bytes(16), {3: first}))
        store.save_edit_now(edit)
        assert store.file_cache() == replace(files, files={1: first, 2: second, 3: first})
        assert store.header.data_digest == "sha256:2"


def test_an_output_that_was_not_looked_at_stays_what_it_was(tmp_path: Path) -> None:
    """An item that cannot be loaded costs its own verdict, not those that stand."""
    with RunStore.open(tmp_path, HEADER) as store:
        edit = put(store, "one", {"core.a": scored(1)})
        before = store.edit("one", "alpha")
        store.save_edit_now(JudgedEdit("one", "alpha"), {"core.b": LOST}, SIGNATURES)
        assert store.edit("one", "alpha") == before
        assert before is not None
        assert before.id == edit
        assert [one.verdict for one in store.verdicts()] == [scored(1), LOST]


async def test_dropping_verdicts_drops_the_replies_behind_them(tmp_path: Path) -> None:
    lpips = SpecialistCall(ServiceName("lpips", "vgg"), "lpips_vgg/1", {"IMAGE_A": digest("a")})
    call = Call("judge", Prompt("", (Text("?"),)), {})
    with RunStore.open(tmp_path, HEADER) as store:
        await store.ledger.put(lpips, Reply({"kind": "degenerate", "reason": "no region"}))
        abstained = Abstention("degenerate", "no region", calls=(lpips.key,))
        await store.ledger.put(call, Reply({"text": "Hm"}, "judge", Usage(1, 0, 1), None))
        unread = NoScore(kind="unparsable", reason="no JSON", calls=(call.key,))
        empty = make_no_score(abstained)
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
        assert left.verdict == number
        assert left.replies[0].reply == {"text": "Hm"}
        # What is said anew is another verdict's.
        await store.ledger.put(call, Reply({"text": "Well"}, "judge", Usage(1, 0, 1), None))
        put(store, "one", {"core.a": number})
        replies = {one.item: one.replies[0].reply for one in store.verdicts()}
        assert replies == {"one": {"text": "Well"}, "two": {"text": "Hm"}}


async def test_what_is_read_from_a_dropped_reply_is_read_anew_together(tmp_path: Path) -> None:
    calls = [Call("judge", Prompt("", (Text(str(i)),)), {}) for i in range(3)]
    asked, generated, other = (call.key for call in calls)
    with RunStore.open(tmp_path, HEADER) as store:
        for call in calls:
            await store.ledger.put(call, Reply({"text": "Hm"}, "judge", Usage(1, 0, 1), None))
        unread = NoScore(kind="unparsable", reason="no JSON", calls=(generated, asked))
        beside, apart = (Score(value=1, calls=(key,)) for key in (asked, other))
        made = {"core.a": unread, "core.b": beside, "core.c": apart, "core.mean": scored(1)}
        put(store, "one", made, signatures=dict.fromkeys(made, "s"))
        put(store, "one", {"core.a": Score(value=1, calls=(generated,))}, model="beta")
        above = {"core.b": {"core.mean"}}
        assert store.drop_verdicts("unscored", dimensions={"core.a"}, derived_ids=above) == 1
        assert {(one.model, one.dimension) for one in store.verdicts()} == {
            ("alpha", "core.c"),
            ("beta", "core.a"),
        }
        # Another model's number rests on what was generated for both.
        assert [await store.ledger.get(call) is None for call in calls] == [True, False, False]


def test_a_run_goes_on_with_more_outputs_and_dimensions(tmp_path: Path) -> None:
    made(tmp_path, one={"core.a": scored(1)})
    more = header(
        outputs={"beta": "/outputs/beta"},
        dimensions=("core.b", "core.c"),
        identities={ServiceName("ocr", "ppocr"): ModelIdentity("ocr_ppocr/1")},
        created="2000-01-01T00:00:00+00:00",
        settings={},
    )
    with RunStore.open(tmp_path, more):
        pass
    with RunStore.open(tmp_path) as store:
        assert store.header.outputs == {"alpha": "/outputs/alpha", "beta": "/outputs/beta"}
        assert store.header.dimensions == ("core.a", "core.b", "core.c")
        assert store.header.identities == {**HEADER.identities, **more.identities}
        assert store.header.created == HEADER.created
        assert store.header.settings == {}
        assert len(list(store.verdicts())) == 1


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"benchmark": "gie"}, "benchmark core, not gie"),
        ({"protocol": "core.2"}, "protocol core.1, not core.2"),
        ({"judges": ("other",)}, "judges judge, not other"),
    ],
)
def test_a_run_of_something_else_is_refused(
    tmp_path: Path, changed: dict[str, object], told: str
) -> None:
    made(tmp_path)
    with pytest.raises(ConfigError, match=told):
        RunStore.open(tmp_path, header(**changed))
    with RunStore.open(tmp_path) as store:
        assert store.header == HEADER


def test_the_folder_above_runs_names_them(tmp_path: Path) -> None:
    for name in "abcd":
        with RunStore.open(tmp_path / name, HEADER):
            pass
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


def test_evidence_that_cannot_be_read_names_its_edit(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        edit = put(store, "one", {"core.a": scored(1, x="y")})
        store.database.change(EDITS, edit, details=b"\x09\xff")
        with pytest.raises(StoreError, match=r"the verdicts on one, alpha cannot be read"):
            list(store.verdicts())


def test_prompts_alike_take_little_room(tmp_path: Path) -> None:
    """A dictionary of the first documents is kept in the file."""
    template = " ".join(f"word{n % 97} of rule {n}" for n in range(120))

    async def asked(store: RunStore) -> None:
        for index in range(200):
            prompt = Prompt(template, (Text(f"Make cup {index} red", is_data=True),))
            call = Call("judge", prompt, {"schema": None})
            await store.ledger.put(call, Reply({"text": "4"}, "judge", Usage(1, 0, 1), None))
            prompts.append(prompt)

    prompts: list[Prompt] = []
    with RunStore.open(tmp_path, HEADER) as store:
        asyncio.run(asked(store))
        last = store.database.query_row("SELECT max(length(document)) FROM prompts WHERE id > 100")
        assert last is not None
        assert last[0] < 150 < len(template)
    with RunStore.open(tmp_path, read_only=True) as store:
        for prompt in prompts:
            kept = store.ledger.get_prompt(prompt.digest)
            assert kept is not None
            assert (kept.system, kept.parts[0]["text"]) == (template, prompt.parts[0].text)  # type: ignore[union-attr]


def test_many_edits_take_little_room(tmp_path: Path) -> None:
    count = 5_000
    values = random.Random(0)
    with RunStore.open(tmp_path, HEADER) as store, store.database.transaction():
        for index in range(count):
            verdict = scored(values.random(), region_share=round(values.random(), 6))
            put(store, f"sample-{index:06}", {"core.a": verdict}, signatures=A)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size / count < 200
    with RunStore.open(tmp_path, read_only=True) as store:
        tracemalloc.start()
        standing = store.find_standing("alpha", A)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sum(len(one.dimensions) for (one,) in standing.values()) == count
        assert held / count < 600  # bytes
        # Evidence is read one verdict at a time.
        tracemalloc.start()
        assert sum(1 for _ in store.verdicts()) == count
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2_000_000


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(range(2, 12), 2)))
def test_pages_that_changed_places_are_refused(tmp_path: Path, first: int, second: int) -> None:
    given = {f"item {i}": {"core.a": scored(i)} for i in range(60)}
    folder = made(tmp_path / "run", **given)  # type: ignore[arg-type]
    before = told(folder)
    file = folder / FILE
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    pages = [slice((n - 1) * size, n * size) for n in (first, second)]
    data[pages[0]], data[pages[1]] = data[pages[1]], data[pages[0]]
    file.write_bytes(data)
    with contextlib.suppress(StoreError, ConfigError):
        assert told(folder) == before


def told(folder: Path) -> list[Any]:
    """All that is read of a run."""
    with RunStore.open(folder, read_only=True) as store:
        return [
            store.counts(),
            [*store.verdicts()],
            [*store.edits()],
            store.content_keys(),
            store.file_cache(),
        ]
