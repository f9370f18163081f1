"""Which dimensions people mean by what they write."""

from __future__ import annotations

import pytest

from editjudge.base.errors import ConfigError
from editjudge.benchmarks.registry import load_benchmark, load_dimensions, select_among, select_dimensions


def select_ids(pattern: str, of: str | None = None) -> list[str]:
    rules = load_benchmark(of).rules() if of else None
    return [dimension.id for dimension in select_dimensions([pattern], rules)]


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("core.psnr.source.whole", ["core.psnr.source.whole"]),
        ("core.psnr.source.*", ["core.psnr.source.whole", "core.psnr.source.outside"]),
        ("kris", [name for name in load_dimensions() if name.startswith("kris.")]),
        ("PSNR", [name for name in load_dimensions() if name.startswith("core.psnr.")]),
    ],
)
def test_an_id_a_glob_or_a_part_of_an_id(pattern: str, ids: list[str]) -> None:
    assert select_ids(pattern) == ids


def test_a_part_means_the_benchmarks_own_where_it_has_such() -> None:
    assert {name.partition(".")[0] for name in select_ids("ssim", "core")} == {"core"}
    assert len(select_ids("ssim", "core")) == 4
    assert {name.partition(".")[0] for name in select_ids("ssim", "gie")} == {"gie"}
    assert {name.partition(".")[0] for name in select_ids("ssim", "kris")} == {"core"}


@pytest.mark.parametrize("name", ["i2i", "co_edit", "gie", "omni_iie"])
def test_the_title_of_a_column_means_what_it_reads(name: str) -> None:
    columns = [c for c in load_benchmark(name).rules().columns if c.dimensions]
    known = {*load_dimensions()}
    for column in columns:
        if column.title.casefold() not in known:
            assert {*column.dimensions} <= {*select_ids(column.title, name)}


def test_what_means_nothing_is_refused_with_what_is_near() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        select_ids("core.psnrr.source.whole")
    with pytest.raises(ConfigError, match="list dimensions"):
        select_ids("zzz")


@pytest.mark.parametrize(
    ("pattern", "of", "ids"),
    [
        ("psnr.source.whole", "core", ["core.psnr.source.whole"]),
        ("PSNR.source.whole ↑", "core", ["core.psnr.source.whole"]),
        ("psnr.source.*", "core", ["core.psnr.source.whole", "core.psnr.source.outside"]),
        ("Instruction following", "core", ["core.instruction_following"]),
        (" quality.piqe ", "core", ["core.quality.piqe"]),
        ("source.whole", "core", [n for n in load_dimensions() if n.endswith(".source.whole")]),
    ],
)
def test_what_a_table_prints_may_be_typed(pattern: str, of: str, ids: list[str]) -> None:
    assert select_ids(pattern, of) == ids


def test_what_may_be_of_several_benchmarks_names_its_candidates() -> None:
    asked = [load_dimensions()[name] for name in ("gie.ssim", "omni_iie.ssim")]
    with pytest.raises(ConfigError, match=r"several benchmarks: gie\.ssim, omni_iie\.ssim") as told:
        select_among(asked, ["SSIM"], load_benchmark("core").rules())
    assert "give an id, or a glob" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_slip_in_a_part_is_seen() -> None:
    with pytest.raises(ConfigError, match="did you mean psnr"):
        select_ids("psmr", "core")


def test_of_a_run_only_its_own_dimensions_are_meant() -> None:
    rules = load_benchmark("core").rules()
    asked = [load_dimensions()[name] for name in ("core.ssim.source.whole", "core.mse.source.whole")]
    assert select_among(asked, ["ssim"], rules) == (asked[0],)
    assert select_among(asked, [], rules) == tuple(asked)
    with pytest.raises(ConfigError, match="no dimension matches 'psnr'"):
        select_among(asked, ["psnr"], rules)
