"""What nobody serves is counted, and named on wish."""

from __future__ import annotations

from editjudge.app.dimensions import missing_services, missing_services_line
from editjudge.benchmarks.registry import load_dimensions
from editjudge.engine.judge import roles_of


def test_with_nothing_all_that_need_a_model_are_lacking() -> None:
    lacking = missing_services(())
    known = load_dimensions()
    needing = {name for name, dimension in known.items() if roles_of(dimension, known)}
    assert set().union(*lacking.values()) == needing
    assert missing_services_line(lacking) == (
        f"{len(needing)} dimensions need models that are not served: {', '.join(lacking)}"
    )


def test_any_judge_judges() -> None:
    assert "generalist.judge" in missing_services(("lpips.vgg",))
    lacking = missing_services(("generalist.mine", "lpips.vgg"))
    assert not {"generalist.judge", "lpips.vgg"} & lacking.keys()


def test_where_all_is_served_nothing_is_said() -> None:
    everything = missing_services(())
    assert missing_services([*everything]) == {}
    assert missing_services_line({}) == ""
