"""What protocols mean here is bounded, for each and for all that are stored."""

from __future__ import annotations

import pytest

from editjudge.service import DimensionSet
from editjudge_services.gateway import protocols
from editjudge_services.gateway.protocols import MAX_DIMENSIONS, estimate_size, load_dimensions
from editjudge_services.gateway.schemas import InvalidRequest, Protocol
from editjudge_services.runtime.cache import BoundedCache


def test_more_dimensions_than_anybody_means_are_refused_before_they_are_made() -> None:
    most = load_dimensions(Protocol(benchmark="i2i", rounds=100))
    assert len(most.by_id) <= MAX_DIMENSIONS
    for asked in (Protocol(benchmark="i2i", rounds=1000), Protocol(judges=("a", "b"), rounds=80)):
        with pytest.raises(InvalidRequest, match="dimensions in all rounds") as caught:
            load_dimensions(asked)
        assert caught.value.field == "protocol.rounds"


def test_what_is_stored_is_bounded_by_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [Protocol(rounds=rounds) for rounds in (20, 21, 22, 23)]
    sizes = [estimate_size(each.model_dump_json(), load_dimensions(each)) for each in several]
    assert sizes == sorted(sizes)
    stored: BoundedCache[DimensionSet] = BoundedCache(sum(sizes[2:]))
    monkeypatch.setattr(protocols, "_cache", stored)
    first = load_dimensions(several[0])
    assert load_dimensions(several[0]) is first
    for each in several:
        load_dimensions(each)
        assert stored.size <= sum(sizes[2:])
    assert load_dimensions(several[3]) is load_dimensions(several[3])
    assert load_dimensions(several[0]) is not first
