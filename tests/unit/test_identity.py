"""Names of services and identities of models: texts that are kept, and types that know them."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from pydantic import TypeAdapter

from editjudge.base import identity as module
from editjudge.base.identity import Identities, ModelIdentity, ServiceName
from editjudge.base.item import Missing

DINO, JUDGE = ServiceName("features", "dinov3"), ServiceName.judge("judge")
ASKED = {"choices": "sampled", "repeats": "3", "seed": "0", "server": "vllm 0.32.0, cpu"}


def test_a_service_name_is_its_text() -> None:
    assert DINO == "features.dinov3"
    assert repr(DINO) == "'features.dinov3'"
    assert json.dumps({DINO: DINO}) == '{"features.dinov3": "features.dinov3"}'
    assert {"features.dinov3": 1}[DINO] == 1
    assert (DINO.role, DINO.variant, DINO.is_judge) == ("features", "dinov3", False)
    assert (JUDGE.role, JUDGE.variant, JUDGE.is_judge) == ("generalist", "judge", True)
    assert not ServiceName("judges", "judge").is_judge


@pytest.mark.parametrize("name", [DINO, JUDGE, ServiceName("generalist", "a.b")])
def test_a_service_name_comes_back_whole(name: ServiceName) -> None:
    for again in (ServiceName.parse(str(name)), deepcopy(name)):
        assert (again, again.role, again.variant) == (name, name.role, name.variant)
        assert type(again) is ServiceName


@pytest.mark.parametrize("text", ["", "features", ".dinov3", "features.", "."])
def test_what_is_no_service_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no service name: role\.variant"):
        ServiceName.parse(text)


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (ModelIdentity("piqe/1"), "piqe/1"),
        (ModelIdentity("m", {"b": "2", "a": "1"}), "m(a=1,b=2)"),
        (ModelIdentity("piqe/1", {"precision": ""}), "piqe/1(precision=)"),
        (ModelIdentity("dino/1", {"weights": "x", "fingerprint": "1,2"}), "dino/1(weights=x)"),
        (ModelIdentity("org/model(4bit)", {"seed": "0"}), "org/model(4bit)(seed=0)"),
        (ModelIdentity("m,choices=sampled", {"seed": "0"}), "m,choices=sampled(seed=0)"),
        (ModelIdentity("m", ASKED), "m(choices=sampled,repeats=3,seed=0,server=vllm 0.32.0, cpu)"),
    ],
)
def test_identities_print_as_ever(identity: ModelIdentity, text: str) -> None:
    assert str(identity) == text


def test_an_identity_without_some_facts() -> None:
    model = ModelIdentity("m,choices=sampled(x)", ASKED)
    left = "m,choices=sampled(x)(seed=0,server=vllm 0.32.0, cpu)"
    assert str(model.without("choices", "repeats", "reads")) == left
    assert model.facts == ASKED


def test_a_fingerprint_tells_models_apart_but_is_not_signed() -> None:
    one, other = (ModelIdentity("m", {"fingerprint": text}) for text in "12")
    assert one != other
    assert one.without("fingerprint") == other.without("fingerprint") == ModelIdentity("m")


def test_identities_are_stored_with_their_facts() -> None:
    adapter: TypeAdapter[Identities] = TypeAdapter(dict[ServiceName, ModelIdentity])
    identities = {JUDGE: ModelIdentity("m(4bit)", {"seed": "0"})}
    stored = adapter.dump_json(identities)
    due = {"generalist.judge": {"name": "m(4bit)", "facts": {"seed": "0"}}}
    assert json.loads(stored) == due
    again = adapter.validate_json(stored)
    assert again == identities
    assert next(iter(again)).is_judge
    assert module.format_identities(identities) == {"generalist.judge": "m(4bit)(seed=0)"}


def test_untrained_is_a_fact_and_no_part_of_a_name() -> None:
    identities = {
        DINO: ModelIdentity("x(untrained=yes)", {"note": "untrained=yes"}),
        JUDGE: ModelIdentity("m", {"untrained": "yes"}),
    }
    assert module.untrained_services(identities) == (JUDGE,)


@pytest.mark.parametrize(
    ("missing", "text", "given"),
    [
        (Missing("absent", "no a/1.png"), "no a/1.png", False),
        (Missing("absent", ""), "", False),
        (Missing("several", "1.png, 1.jpg in a"), "several outputs: 1.png, 1.jpg in a", True),
        (Missing("unreadable", "1.png: 0 bytes"), "unreadable: 1.png: 0 bytes", True),
    ],
)
def test_why_an_output_is_missing_is_told_in_words(missing: Missing, text: str, given: bool) -> None:
    assert str(missing) == text
    assert missing.was_given == given
