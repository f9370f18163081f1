"""Verdicts in whose place others came are kept, and count in nothing."""

from __future__ import annotations

from pathlib import Path

from editjudge.panel.calls import Call, Reply
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.store import RunStore

from .stored import HEADER, LOST, SIGNATURES, UNREAD, digest, put, scored

LATER = {"core.a": "dimension:core.a|v:2", "core.b": "dimension:core.b|v:2"}


def told(store: RunStore) -> list[tuple[str, str, object, str]]:
    """Dimension, why, value and signature of earlier verdicts."""
    return [
        (
            one.verdict.dimension,
            one.why,
            getattr(one.verdict.verdict, "value", None),
            one.verdict.signature,
        )
        for one in store.earlier()
    ]


def test_the_same_value_by_the_same_signature_is_not_kept_twice(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        put(store, "one", {"core.a": scored(1), "core.b": UNREAD})
        put(store, "one", {"core.a": scored(1, more="evidence"), "core.b": UNREAD})
        assert told(store) == []


def test_another_signature_value_or_output(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        put(store, "one", {"core.a": scored(1), "core.b": scored(2)})
        put(store, "one", {"core.a": scored(1)}, signatures=LATER)
        put(store, "one", {"core.a": scored(3)}, signatures=LATER)
        put(store, "one", {}, output="another")
        assert told(store) == [
            ("core.a", "signature", 1, SIGNATURES["core.a"]),
            ("core.a", "again", 1, LATER["core.a"]),
            ("core.a", "output", 3, LATER["core.a"]),
            ("core.b", "output", 2, SIGNATURES["core.b"]),
        ]
        assert {one.output for one in store.earlier()} == {digest("alphaone")}
        assert list(store.verdicts()) == []
        assert store.counts() == {}
        (standing,) = store.standing("alpha", SIGNATURES)
        assert not standing.dimensions


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        put(store, "one", {"core.a": LOST})
        put(store, "one", {"core.a": scored(1)}, signatures=LATER)
        assert told(store) == []


async def test_its_replies_stay(tmp_path: Path) -> None:
    call = Call("judge", Prompt("", (Text("?"),)), {})
    with RunStore.open(tmp_path, HEADER) as store:
        await store.ledger.put(call, Reply({"text": "Hm"}, "judge", 1, 0, 1, 1, None, 1))
        put(store, "one", {"core.a": UNREAD.model_copy(update={"calls": (call.key,)})})
        assert store.drop_verdicts("unscored") == 1
        await store.ledger.put(call, Reply({"text": "5"}, "judge", 1, 0, 1, 1, None, 1))
        put(store, "one", {"core.a": scored(5).model_copy(update={"calls": (call.key,)})})
        (earlier,) = store.earlier(item="one")
        assert [one.reply for one in earlier.verdict.said] == [{"text": "Hm"}]
        assert earlier.why == "again"
        assert list(store.earlier("beta")) == []
