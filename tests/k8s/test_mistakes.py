"""Mistakes planted in the chart's objects and found: those of `mistakes.yaml`."""

from __future__ import annotations

import copy
import json
from fnmatch import fnmatch
from functools import reduce
from typing import Any

import pytest
import yaml

from .changes import find_unfollowed
from .chart import HERE, OPTIONS, Object, check_schemas, render, render_parts
from .rules import find_faults, select_kinds

MISTAKES: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "mistakes.yaml").read_text())
UNFOLLOWED = MISTAKES.pop("unfollowed")
_WORDS = {"pod": "template spec", "container": "template spec containers 0"}


def plant(things: list[Object], mistake: dict[str, Any]) -> list[Object]:
    """Objects with a mistake."""
    things = copy.deepcopy(things)
    kind, _, name = mistake["in"].partition(" ")
    one = next(x for x in select_kinds(things, kind) if fnmatch(x["metadata"]["name"], name or "*"))
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
def render_right() -> dict[str, list[Object]]:
    """What mistakes are planted in: a small installation, and what it may have."""
    small = render("single-gpu", values=OPTIONS["HPA of the Judge service"])
    parts = ("GPU by claim", "cache", "run", "run that is merged", "metrics")
    seen = OPTIONS["KEDA"] | OPTIONS["certificate"] | OPTIONS["run on Ray"]
    further = render_parts(*(OPTIONS[each] for each in parts))
    watched = render("single-gpu", values=seen)
    return {"refused": small, "taken": small, "further": further, "watched": watched}


@pytest.mark.parametrize("mistake", UNFOLLOWED)
def test_what_does_not_follow_its_value_is_found(mistake: str) -> None:
    told = UNFOLLOWED[mistake]
    before, after = render_parts("installed"), render_parts("installed", told["values"])
    assert not list(find_unfollowed(before, after))
    kind, name = told["in"].split()
    (one,) = (x for x in select_kinds(before, kind) if fnmatch(x["metadata"]["name"], name))
    path = told["put"]
    old = reduce(lambda at, word: at[int(word) if word.isdigit() else word], path.split(), one["spec"])
    wrong = plant(after, {"in": told["in"], "put": {path: old}})
    assert any(told["finds"] in each for each in find_unfollowed(before, wrong))


@pytest.mark.parametrize(("part", "mistake"), [(part, each) for part, them in MISTAKES.items() for each in them])
def test_each_mistake_is_found(render_right: dict[str, list[Object]], part: str, mistake: str) -> None:
    things = plant(render_right[part], MISTAKES[part][mistake])
    # Only what a server refuses is any business of schemas.
    found = [*(check_schemas(things).wrong if part == "refused" else ()), *find_faults(things)]
    assert any(MISTAKES[part][mistake]["finds"] in one for one in found), found


def test_schemas_alone_would_find_three(render_right: dict[str, list[Object]]) -> None:
    """So the rules are needed; the server finds all."""
    refused = {name: plant(render_right["refused"], it) for name, it in MISTAKES["refused"].items()}
    seen = {name for name, things in refused.items() if check_schemas(things).wrong}
    assert seen == {"unknown field", "number for text", "truth for a name"}


def test_the_objects_without_a_mistake_are_right(render_right: dict[str, list[Object]]) -> None:
    for things in render_right.values():
        assert [*check_schemas(things).wrong, *find_faults(things)] == []
