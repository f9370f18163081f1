"""Which dimensions people mean by what they write."""

from __future__ import annotations

import pytest

from editjudge.base.errors import ConfigError
from editjudge.benchmarks.registry import benchmark, dimensions, select


def named(pattern: str, of: str | None = None) -> list[str]:
    rules = benchmark(of).rules() if of else None
    return [dimension.id for dimension in select([pattern], rules)]


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("core.psnr.source.whole", ["core.psnr.source.whole"]),
        ("core.psnr.source.*", ["core.psnr.source.whole", "core.psnr.source.outside"]),
        ("PSNR", [name for name in dimensions() if name.startswith("core.psnr.")]),
    ],
)
def test_an_id_a_glob_or_a_part_of_an_id(pattern: str, ids: list[str]) -> None:
    assert named(pattern) == ids


def test_a_part_means_the_benchmarks_own_where_it_has_such() -> None:
    assert {name.partition(".")[0] for name in named("ssim", "core")} == {"core"}
    assert len(named("ssim", "core")) == 4
    assert {name.partition(".")[0] for name in named("ssim", "gie")} == {"gie"}
    assert {name.partition(".")[0] for name in named("ssim", "kris")} == {"core"}


@pytest.mark.parametrize("name", ["i2i", "co_edit", "gie", "omni_iie"])
def test_the_title_of_a_column_means_what_it_reads(name: str) -> None:
    columns = [c for c in benchmark(name).rules().columns if c.dimensions]
    known = {*dimensions()}
    for column in columns:
        if column.title.casefold() not in known:
            assert {*column.dimensions} <= {*named(column.title, name)}


def test_what_means_nothing_is_refused_with_what_is_near() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        named("core.psnrr.source.whole")
    with pytest.raises(ConfigError, match="list dimensions"):
        named("zzz")
