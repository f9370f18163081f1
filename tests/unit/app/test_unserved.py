"""What nobody serves is counted, and named on wish."""

from __future__ import annotations

from editjudge.app.dimensions import unserved, unserved_line
from editjudge.benchmarks.registry import dimensions
from editjudge.engine.judge import roles_of


def test_with_nothing_all_that_need_a_model_are_lacking() -> None:
    lacking = unserved(())
    known = dimensions()
    needing = {name for name, dimension in known.items() if roles_of(dimension, known)}
    assert set().union(*lacking.values()) == needing
    assert unserved_line(lacking) == (
        f"{len(needing)} dimensions need models that nobody serves: {', '.join(lacking)}"
    )


def test_any_generalist_judges() -> None:
    assert "generalist.judge" in unserved(("lpips.vgg",))
    lacking = unserved(("generalist.mine", "lpips.vgg"))
    assert not {"generalist.judge", "lpips.vgg"} & lacking.keys()


def test_where_all_is_served_nothing_is_said() -> None:
    everything = unserved(())
    assert unserved([*everything]) == {}
    assert unserved_line({}) == ""
