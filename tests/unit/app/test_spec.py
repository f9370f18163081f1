"""What is asked, as data; and what it means here."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError
from editjudge.cli import root
from editjudge.cli.options import spec_from

from ...small_data import make_spec, save_picture, write_items

FOLLOWING = "core.instruction_following"
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


@pytest.fixture
def core(tmp_path: Path) -> RunSpec:
    save_picture(tmp_path / "s.png")
    write_items(tmp_path, [{}])
    (tmp_path / "alpha").mkdir()
    return make_spec(tmp_path, ["alpha"], ("core.psnr.*", FOLLOWING))


def test_a_spec_is_the_same_after_json_and_pickle() -> None:
    spec = RunSpec.model_validate(ASKED)
    for again in (
        RunSpec.model_validate_json(spec.model_dump_json()),
        pickle.loads(pickle.dumps(spec)),  # noqa: S301 - our own
        copy.deepcopy(spec),
    ):
        assert again == spec


def test_a_spec_cannot_be_changed() -> None:
    spec = RunSpec.model_validate(ASKED)
    with pytest.raises(TypeError):
        spec.outputs["gamma"] = Path("out/gamma")  # type: ignore[index]
    with pytest.raises(ValueError, match="frozen"):
        spec.limit = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"benchmrk": "core"}, "benchmrk: no such field; did you mean benchmark[?]"),
        ({"benchmark": "korn"}, "no benchmark is called 'korn'"),
        ({"on": ["nonsense"]}, "kris has no switch 'nonsense'; it has "),
        ({"off": ["first_digit"]}, "first_digit is both turned on and off"),
        ({"protocol": "letter"}, "kris has no protocol 'letter'"),
        ({"protocol": "kris.paper.99"}, "by version 99 of kris's protocols"),
        ({"rounds": 0}, "rounds: must be greater than or equal to 1"),
        ({"dimensions": []}, "no dimension is selected: dimensions is empty; name some"),
        ({"dimensions": [3]}, "dimensions: int is no id, glob or Dimension"),
        ({"judges": []}, "judges: must have at least 1 item"),
        ({"outputs": {"a\nb": "x"}}, r"outputs: 'a\\nb' is no name of a model"),
    ],
)
def test_what_cannot_be_asked_is_one_error(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        RunSpec.model_validate(ASKED | change)
    assert "\n" not in str(error.value)


def test_a_stored_run_gives_the_spec_again(core: RunSpec) -> None:
    spec = core.model_copy(update={"judges": ("judge", "second"), "rounds": 2})
    header = ResolvedSpec(spec).header(Settings())
    again = RunSpec.of(header)
    assert (again.rounds, again.judges) == (2, ("judge", "second"))
    assert again.protocol == "core.1"
    assert [d.id for d in ResolvedSpec(again).dimensions] == list(header.dimensions)
    later = ResolvedSpec(again).header(Settings())
    assert later == header.model_copy(update={"created": later.created})
    RunSpec.model_validate_json(again.model_dump_json())


def test_dimensions_that_other_rules_lack_are_left_out() -> None:
    spec = RunSpec(benchmark="co_edit", data="x")
    rules = RunSpec(benchmark="co_edit", data="x", off=("specialists",)).rules()
    here, there = ({d.id for d in one.dimensions} for one in (spec.rules(), rules))
    lacking = here - there
    assert lacking
    stored = spec.model_copy(update={"dimensions": (*sorted(here), "core.psnr.source.whole")})
    left = {d.id for d in ResolvedSpec(stored, rules).dimensions}
    assert left == here & there | {"core.psnr.source.whole"}
    alone = spec.model_copy(update={"dimensions": tuple(sorted(lacking))})
    assert ResolvedSpec(alone, rules).dimensions == ()


def test_data_without_official_paths_has_none_to_map(core: RunSpec) -> None:
    with pytest.raises(ConfigError, match="the data of core does not name the paths of the release"):
        _ = ResolvedSpec(core.model_copy(update={"roots": {"/a": Path("/b")}})).dataset
    _ = ResolvedSpec(core.model_copy(update={"roots": {"/a": Path("/a")}})).dataset


TEMPLATE = 'user = "{sources}{edited}{instruction}"\n'


@pytest.fixture
def words(tmp_path: Path) -> Path:
    folder = tmp_path / "mine" / "core"
    folder.mkdir(parents=True)
    (folder / "instruction_following.toml").write_text(TEMPLATE)
    return folder.parent


def with_words(core: RunSpec, words: Path, **changed: Any) -> RunSpec:
    return RunSpec.model_validate(core.model_dump() | {"prompts": words} | changed)


def test_words_of_ones_own_are_in_the_spec_by_content(core: RunSpec, words: Path) -> None:
    spec = with_words(core, words)
    assert spec.prompts == {"core/instruction_following.toml": TEMPLATE}
    again = RunSpec.model_validate_json(spec.model_dump_json())
    assert again == spec != core
    ours, own = ({d.id: d for d in ResolvedSpec(one).dimensions}[FOLLOWING] for one in (core, spec))
    assert (ours.prompt_origins, own.prompt_origins) == ("own", "custom")
    assert str(ours.signature({})) != str(own.signature({}))
    with pytest.raises(TypeError):
        spec.prompts["x"] = "y"  # type: ignore[index]


def test_words_of_ones_own_reach_every_benchmarks_run(core: RunSpec, words: Path) -> None:
    spec = with_words(core, words, benchmark="i2i", dimensions=None, judges=("judge", "second"))
    custom = {d.id for d in ResolvedSpec(spec).dimensions_by_id.values() if "custom" in (d.prompt_origins or "")}
    # Its own dimensions that ask the template, those of core, and each round of both.
    assert {
        "i2i.se.instruction_following@judge.1",
        "i2i.me.instruction_following@second.1",
        "core.instruction_following@judge.1",
    } <= custom
    assert all("instruction_following" in name for name in custom)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dimensions": ["core.psnr.*"]}, "core.1 asks none of these prompts here: core/instr"),
        ({"benchmark": "kris", "dimensions": None, "protocol": "paper"}, "kris.paper.1 asks none"),
    ],
)
def test_words_that_nothing_asks_are_refused(core: RunSpec, words: Path, change: dict[str, Any], told: str) -> None:
    spec = with_words(core, words, **change)
    with pytest.raises(ConfigError, match=told):
        _ = ResolvedSpec(spec).dimensions


def test_words_that_cannot_be_used_name_their_file(core: RunSpec, words: Path) -> None:
    (words / "core" / "instruction_following.toml").write_text('user = "{sources}{edited}"')
    with pytest.raises(ConfigError, match=r"mine/core/instruction_following\.toml lacks {instr"):
        with_words(core, words)


def test_a_stored_run_keeps_its_words(core: RunSpec, words: Path) -> None:
    spec = with_words(core, words)
    header = ResolvedSpec(spec).header(Settings())
    assert RunSpec.of(header).prompts == spec.prompts
    assert RunSpec.of(header).rules().custom == spec.rules().custom
    assert header.join(header, "the run").prompts == header.prompts
    ours = ResolvedSpec(core).header(Settings())
    for one, other in ((header, ours), (ours, header)):
        told = r"was judged with other prompts: core/instr.*--prompts"
        with pytest.raises(ConfigError, match=told):
            one.join(other, "the run")


def test_a_resumed_run_goes_on_in_its_words(core: RunSpec, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = with_words(core, words)
    given = [each.name for each in root.commands["validate"].params if each.name]
    asked: dict[str, Any] = dict.fromkeys(given, ()) | {
        **dict.fromkeys(("protocol", "limit", "prompts")),
        "data": core.data,
        "rounds": 1,
    }
    assert spec_from("core", asked, Settings(), before).prompts == before.prompts
    assert "using the prompts of the run: core/instruction_following" in capsys.readouterr().err
    assert spec_from("core", asked, Settings()).prompts == {}
    assert spec_from("core", asked | {"prompts": words}, Settings(), core).prompts == before.prompts
