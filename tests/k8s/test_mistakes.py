"""Mistakes planted in the chart's objects and found: those of `mistakes.yaml`."""

from __future__ import annotations

import copy
import json
from fnmatch import fnmatch
from functools import reduce
from typing import Any

import pytest
import yaml

from .changes import unfollowed
from .chart import HERE, OPTIONS, Object, based, checked, rendered
from .rules import broken, of

MISTAKES: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "mistakes.yaml").read_text())
UNFOLLOWED = MISTAKES.pop("unfollowed")
_WORDS = {"pod": "template spec", "container": "template spec containers 0"}


def planted(things: list[Object], mistake: dict[str, Any]) -> list[Object]:
    """Objects with a mistake."""
    things = copy.deepcopy(things)
    kind, _, name = mistake["in"].partition(" ")
    one = next(x for x in of(things, kind) if fnmatch(x["metadata"]["name"], name or "*"))
    if "put" not in mistake:
        things.remove(one)
    for path, value in mistake.get("put", {}).items():
        first, *rest = path.split()
        words = [*_WORDS.get(first, first).split(), *rest]
        _put(one if words[0] in one else one["spec"], words, value)
    return things


def _put(place: Any, words: list[str], value: Any) -> None:
    word, *rest = words
    for key in _keys(place, word):
        if rest and isinstance(place[key], str):
            inner = json.loads(place[key])
            _put(inner, rest, value)
            place[key] = json.dumps(inner)
        elif rest:
            _put(place[key], rest, value)
        elif value is None:
            del place[key]
        else:
            place[key] = value


def _keys(place: Any, word: str) -> list[Any]:
    if isinstance(place, dict):
        return list(place) if word == "*" else [word]
    if word == "+":
        place.append(None)
        return [len(place) - 1]
    if word.lstrip("-").isdigit():
        return [int(word)]
    named = ((key, {each.get("alert"), each.get("name")}) for key, each in enumerate(place))
    return [key for key, own in named if word == "*" or word in own]


@pytest.fixture(scope="module")
def right() -> dict[str, list[Object]]:
    """What mistakes are planted in: a small installation, and what it may have."""
    small = rendered("single-gpu", values=OPTIONS["HPA of the Judge service"])
    parts = ("GPU by claim", "cache", "run", "run that is merged", "metrics")
    seen = OPTIONS["KEDA"] | OPTIONS["certificate"] | OPTIONS["run on Ray"]
    further = based(*(OPTIONS[each] for each in parts))
    watched = rendered("single-gpu", values=seen)
    return {"refused": small, "taken": small, "further": further, "watched": watched}


@pytest.mark.parametrize("mistake", UNFOLLOWED)
def test_what_does_not_follow_its_value_is_found(mistake: str) -> None:
    told = UNFOLLOWED[mistake]
    before, after = based("installed"), based("installed", told["values"])
    assert not list(unfollowed(before, after))
    kind, name = told["in"].split()
    (one,) = (x for x in of(before, kind) if fnmatch(x["metadata"]["name"], name))
    path = told["put"]
    old = reduce(lambda at, word: at[int(word) if word.isdigit() else word], path.split(), one["spec"])
    wrong = planted(after, {"in": told["in"], "put": {path: old}})
    assert any(told["finds"] in each for each in unfollowed(before, wrong))


@pytest.mark.parametrize(("part", "mistake"), [(part, each) for part, them in MISTAKES.items() for each in them])
def test_each_mistake_is_found(right: dict[str, list[Object]], part: str, mistake: str) -> None:
    things = planted(right[part], MISTAKES[part][mistake])
    # Only what a server refuses is any business of schemas.
    found = [*(checked(things).wrong if part == "refused" else ()), *broken(things)]
    assert any(MISTAKES[part][mistake]["finds"] in one for one in found), found


def test_schemas_alone_would_find_three(right: dict[str, list[Object]]) -> None:
    """So the rules are needed; the server finds all."""
    refused = {name: planted(right["refused"], it) for name, it in MISTAKES["refused"].items()}
    seen = {name for name, things in refused.items() if checked(things).wrong}
    assert seen == {"unknown field", "number for text", "truth for a name"}


def test_the_objects_without_a_mistake_are_right(right: dict[str, list[Object]]) -> None:
    for things in right.values():
        assert [*checked(things).wrong, *broken(things)] == []
