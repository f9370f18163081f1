"""What two runs differ in."""

from __future__ import annotations

from pathlib import Path

import pytest

from editjudge.app.diff import Only, diff
from editjudge.app.merge import merge
from editjudge.app.wire.diff import RunDifference as Printed
from editjudge.base.errors import ConfigError
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.cli.diff import lines
from editjudge.engine.items import ItemState
from editjudge.storage.store import RunStore

from ..storage.stored import HEADER, header, made, put, scored

JUDGE = "|generalist.judge:qwen(seed=0,temperature=0)"
FIRST = {name: f"dimension:{name}|protocol:core.1|by:mse.1{JUDGE}" for name in ("core.a", "core.b")}
SECOND = {name: text.replace("temperature=0", "temperature=1") for name, text in FIRST.items()}


def test_a_run_and_itself(tmp_path: Path) -> None:
    made(tmp_path / "a", one={"core.a": scored(1)}, two={"core.b": scored(2)})
    told = diff(tmp_path / "a", tmp_path / "a")
    assert told.is_none
    assert list(lines(told)) == ["2 verdicts are the same"]
    assert Printed.of(told).equal


def test_one_line_for_the_same_difference(tmp_path: Path) -> None:
    both = {"core.a": scored(1), "core.b": scored(2)}
    for name, signatures in (("a", FIRST), ("b", SECOND)):
        with RunStore.open(tmp_path / name, HEADER) as store:
            put(store, "one", both, signatures=signatures)
            put(store, "two", both, signatures=signatures)
    told = diff(tmp_path / "a", tmp_path / "b")
    assert list(lines(told)) == [
        (
            "signatures of 4 verdicts: generalist.judge: temperature (0 → 1)"
            " (2 dimensions: core.a, core.b)"
        ),
        "0 verdicts are the same",
    ]
    with pytest.raises(ConfigError, match=r"another signature .*: generalist.judge: temperature"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")


def test_values_that_differ_by_the_same_signature(tmp_path: Path) -> None:
    for name, value, versions in (("a", 1.0, "numpy:1.26"), ("b", 1.25, "numpy:2.0")):
        with RunStore.open(tmp_path / name, HEADER) as store:
            edit = put(store, "one", {})
            store.put_verdicts(edit, {"core.a": scored(value)}, FIRST, versions)
            put(store, "two", {"core.a": scored(1)}, output="" if name == "a" else "another")
    told = diff(tmp_path / "a", tmp_path / "b")
    assert list(lines(told)) == [
        "1 output of alpha is another (first: two)",
        "core.a: 1 verdict by the same signature differs, by up to 0.25 (alpha, one)",
        "by the same signature, but with package numpy (1.26 → 2.0)",
        "0 verdicts are the same",
    ]


def test_what_was_asked_and_what_only_one_has(tmp_path: Path) -> None:
    made(tmp_path / "a", one={"core.a": scored(1)}, two={})
    other = ModelIdentity("quality_piqe/2")
    later = header(
        protocol="core.2",
        dimensions=("core.a", "core.c"),
        prompts={"a.txt": "new"},
        identities={ServiceName("quality", "piqe"): other},
    )
    with RunStore.open(tmp_path / "b", later) as store:
        put(store, "one", {})
        put(store, "three", {}, model="beta")
    told = diff(tmp_path / "a", tmp_path / "b")
    texts = list(lines(told))
    assert texts[0] == "protocol: core.1 → core.2"
    assert texts[1].startswith("prompt file a.txt: none → sha256:")
    assert texts[2] == "service quality.piqe: model (quality_piqe/1 → quality_piqe/2)"
    assert texts[3:] == [
        "only the second run has 1 model (first: beta)",
        "only the first run has 1 item (first: two)",
        "only the second run has 1 item (first: three)",
        "only the first run has 1 dimension (first: core.b)",
        "only the second run has 1 dimension (first: core.c)",
        "only the first run has 1 verdict (first: core.a of alpha for one)",
        "0 verdicts are the same",
    ]
    assert not Printed.of(told).equal


def test_what_rests_on_another_item_is_not_said_to_vary(tmp_path: Path) -> None:
    for name, value, picture in (("a", 1.0, b"p"), ("b", 7.0, b"q")):
        with RunStore.open(tmp_path / name, HEADER) as store:
            states = {
                "one": ItemState(b"says", picture * 32, name.encode() * 40),
                "two": ItemState(b"says", b"s" * 32, name.encode() * 40),
            }
            store.keep_items(states)
            put(store, "one", {"core.a": scored(value)})
            put(store, "two", {"core.a": scored(1)})
    told = diff(tmp_path / "a", tmp_path / "b")
    assert list(lines(told)) == [
        "1 item is another: what the data says, or a picture (first: one)",
        "1 verdict is the same",
    ]
    printed = Printed.of(told)
    assert (printed.items.count, printed.items.first, printed.equal) == (1, "one", False)


def test_verdicts_on_a_dimension_that_one_run_lacks_are_not_counted_one_by_one(
    tmp_path: Path,
) -> None:
    both = {"core.a": scored(1), "core.b": scored(2)}
    made(tmp_path / "a", one=both, two=both)
    with RunStore.open(tmp_path / "b", header(dimensions=("core.a",))) as store:
        put(store, "one", {"core.a": scored(1)})
        put(store, "two", {})
    assert list(lines(diff(tmp_path / "a", tmp_path / "b"))) == [
        "only the first run has 1 dimension (first: core.b)",
        "only the first run has 1 verdict (first: core.a of alpha for two)",
        "1 verdict is the same",
    ]


def test_items_are_laid_side_by_side_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """Whatever order they were judged in, and whatever their ids are made of."""
    names = ["b", "a/1", "ä", "Z", "\U0001f600", "\udc80", "a"]
    for folder, of in (("first", names), ("second", [*names[::-1], "é"])):
        with RunStore.open(tmp_path / folder, HEADER) as store:
            for name in of:
                put(store, name, {"core.a": scored(len(name))}, output="same")
    told = diff(tmp_path / "first", tmp_path / "second")
    assert told.same == len(names)
    assert dict(told.only) == {"items": Only((0, ""), (1, "é"))}
