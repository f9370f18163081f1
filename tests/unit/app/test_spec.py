"""What is asked, as data; and what it means here."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.spec import Resolved, RunSpec
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError

ASKED: dict[str, Any] = {
    "benchmark": "kris",
    "data": "data/kris",
    "outputs": {"alpha": "out/alpha", "beta": "out/beta"},
    "protocol": "paper",
    "on": ["first_digit"],
    "judges": ["judge", "second"],
    "rounds": 2,
    "dimensions": ["kris.visual_*"],
    "limit": 9,
    "tasks": ["count_change"],
}
ITEMS = '{"id": "one", "instruction": "x", "source": "one.png"}\n'


@pytest.fixture
def core(tmp_path: Path, photo_file: Path) -> RunSpec:
    (tmp_path / "items.jsonl").write_text(ITEMS.replace("one.png", photo_file.name))
    (tmp_path / "alpha").mkdir()
    return RunSpec(
        benchmark="core",
        data=tmp_path / "items.jsonl",
        outputs={"alpha": tmp_path / "alpha"},
        dimensions=("core.psnr.*", "core.instruction_following"),
    )


def test_a_spec_is_the_same_after_json_and_pickle() -> None:
    spec = RunSpec.model_validate(ASKED)
    for again in (
        RunSpec.model_validate_json(spec.model_dump_json()),
        pickle.loads(pickle.dumps(spec)),  # noqa: S301 - our own
        copy.deepcopy(spec),
    ):
        assert again == spec
        assert hash(again) == hash(spec)
    assert {spec: 1}[RunSpec.model_validate(ASKED)] == 1


def test_a_digest_depends_on_what_is_said_alone() -> None:
    spec = RunSpec.model_validate(ASKED)
    turned = dict(reversed(ASKED["outputs"].items()))
    assert RunSpec.model_validate(ASKED | {"outputs": turned}).digest == spec.digest
    assert RunSpec.model_validate(ASKED | {"limit": 8}).digest != spec.digest
    code = f"from editjudge.app.spec import RunSpec; print(RunSpec(**{ASKED!r}).digest)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == spec.digest


def test_a_spec_cannot_be_changed() -> None:
    spec = RunSpec.model_validate(ASKED)
    with pytest.raises(TypeError):
        spec.outputs["gamma"] = Path("out/gamma")  # type: ignore[index]
    with pytest.raises(ValueError, match="frozen"):
        spec.limit = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"benchmrk": "core"}, "benchmrk: Extra inputs are not permitted; it has benchmark, data"),
        ({"benchmark": "korn"}, "no benchmark is called 'korn'"),
        ({"on": ["nonsense"]}, "kris has no switch 'nonsense'; it has "),
        ({"off": ["first_digit"]}, "first_digit is both asked for and left out"),
        ({"protocol": "letter"}, "kris has no protocol 'letter'"),
        ({"protocol": "kris.paper.99"}, "by version 99 of our reading of kris"),
        ({"rounds": 0}, "rounds: Input should be greater than or equal to 1"),
        ({"judges": []}, "judges: Tuple should have at least 1 item"),
        ({"outputs": {"a\nb": "x"}}, r"outputs: 'a\\nb' is no name of a model"),
    ],
)
def test_what_cannot_be_asked_is_one_error(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        RunSpec.model_validate(ASKED | change)
    assert "\n" not in str(error.value)


def test_a_stored_run_gives_the_spec_again(core: RunSpec) -> None:
    spec = core.model_copy(update={"judges": ("judge", "second"), "rounds": 2})
    header = Resolved(spec).header(Settings())
    again = RunSpec.of(header)
    assert (again.rounds, again.judges) == (2, ("judge", "second"))
    assert again.protocol == "core.1"
    assert [d.id for d in Resolved(again).dimensions] == list(header.dimensions)
    same = Resolved(again).header(Settings())
    assert same.model_copy(update={"created": header.created}) == header
    RunSpec.model_validate_json(again.model_dump_json())


def test_dimensions_that_other_rules_lack_are_left_out() -> None:
    spec = RunSpec(benchmark="co_edit", data="x")
    rules = RunSpec(benchmark="co_edit", data="x", off=("specialists",)).rules()
    here, there = ({d.id for d in one.dimensions} for one in (spec.rules(), rules))
    lacking = here - there
    assert lacking
    stored = spec.model_copy(update={"dimensions": (*sorted(here), "core.psnr.source.whole")})
    left = {d.id for d in Resolved(stored, rules).dimensions}
    assert left == here & there | {"core.psnr.source.whole"}
    alone = spec.model_copy(update={"dimensions": tuple(sorted(lacking))})
    assert Resolved(alone, rules).dimensions == ()


def test_data_without_roots_refuses_them(core: RunSpec) -> None:
    with pytest.raises(ConfigError, match="the data of core has no roots"):
        _ = Resolved(core.model_copy(update={"roots": {"/a": Path("/b")}})).dataset
