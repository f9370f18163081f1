"""What protocols mean here is bounded, for each and for all that are stored."""

from __future__ import annotations

import pytest

from editjudge.service import DimensionSet
from editjudge_services.gateway import protocols
from editjudge_services.gateway.protocols import MAX_DIMENSIONS, dimensions_of, size_of
from editjudge_services.gateway.schemas import Protocol, Unusable
from editjudge_services.runtime.cache import BoundedCache


def test_more_dimensions_than_anybody_means_are_refused_before_they_are_made() -> None:
    most = dimensions_of(Protocol(benchmark="i2i", rounds=100))
    assert len(most.known) <= MAX_DIMENSIONS
    for asked in (Protocol(benchmark="i2i", rounds=1000), Protocol(judges=("a", "b"), rounds=80)):
        with pytest.raises(Unusable, match="dimensions in all rounds") as caught:
            dimensions_of(asked)
        assert caught.value.field == "protocol.rounds"


def test_what_is_stored_is_bounded_by_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [Protocol(rounds=rounds) for rounds in (20, 21, 22, 23)]
    sizes = [size_of(each.model_dump_json(), dimensions_of(each)) for each in several]
    assert sizes == sorted(sizes)
    stored: BoundedCache[DimensionSet] = BoundedCache(sum(sizes[2:]))
    monkeypatch.setattr(protocols, "_stored", stored)
    first = dimensions_of(several[0])
    assert dimensions_of(several[0]) is first
    for each in several:
        dimensions_of(each)
        assert stored.size <= sum(sizes[2:])
    assert dimensions_of(several[3]) is dimensions_of(several[3])
    assert dimensions_of(several[0]) is not first
