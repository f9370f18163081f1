"""What protocols mean here is bounded, for each and for all that are kept."""

from __future__ import annotations

import pytest

from editjudge_services.judge.bodies import Protocol, Unusable
from editjudge_services.judge.protocols import MAX_DIMENSIONS, Meaning, Meanings


def test_more_dimensions_than_anybody_means_are_refused_before_they_are_made() -> None:
    assert len(Meaning(Protocol(benchmark="i2i", rounds=100)).known) <= MAX_DIMENSIONS
    for asked in (Protocol(benchmark="i2i", rounds=1000), Protocol(judges=("a", "b"), rounds=80)):
        with pytest.raises(Unusable, match="dimensions in all rounds") as caught:
            Meaning(asked)
        assert caught.value.field == "protocol.rounds"


def test_what_is_kept_is_bounded_by_what_it_takes() -> None:
    several = [Protocol(rounds=rounds) for rounds in (20, 21, 22, 23)]
    sizes = [Meaning(each).bytes for each in several]
    assert sizes == sorted(sizes)
    kept = Meanings(sum(sizes[2:]))
    first = kept.of(several[0])
    assert kept.of(several[0]) is first
    for each in several:
        kept.of(each)
        assert kept.bytes <= sum(sizes[2:])
    assert kept.of(several[3]) is kept.of(several[3])
    assert kept.of(several[0]) is not first
