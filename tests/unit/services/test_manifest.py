"""The manifest: what it says, and what it must not be able to say."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.panel import SERVICES
from editjudge_services.zoo import manifest as manifests
from editjudge_services.zoo.manifest import PROFILES, find, manifest, members, parse, recipe_of

NAMES = {
    "dinov2-small",
    "dinov3-vitb16",
    "clip-vit-base-patch32",
    "lpips-vgg",
    "lpips-alex",
    "grounded-sam",
    "grounded-sam-huge",
    "grounding-dino-tiny",
    "sam-vit-base",
    "sam-vit-huge",
    "sa2va-qwen3-vl-4b",
    "got-ocr2",
    "q-insight",
    "artimuse",
}
GOOD = """
[tiny]
service = "quality.tiny"
supply = "hub"
hub = "acme/tiny"
revision = "main"
files = ["*.json"]
licence = "MIT"
parameters = 5
preprocessing = "none"
served_by = "vllm"
used_by = ["gie"]
profiles = ["lite"]
"""


def test_every_model_is_there() -> None:
    assert set(manifest()) == NAMES


def test_no_revision_is_invented() -> None:
    for entry in manifest().values():
        assert entry.revision_pinned or entry.revision in {"", "main"}, entry.name


def test_gated_and_restricted_models_are_marked() -> None:
    assert [e.name for e in manifest().values() if e.gated] == ["dinov3-vitb16"]
    assert [e.name for e in manifest().values() if e.restricted] == ["dinov3-vitb16", "artimuse"]


def test_no_model_of_the_lite_profile_needs_a_licence_or_an_account() -> None:
    for entry in members("lite"):
        parts = [find(part) for part in entry.parts.values()]
        assert not any(one.gated or one.restricted for one in (entry, *parts)), entry.name


def test_profiles_hold_what_can_be_served_as_it_is_named() -> None:
    for profile in PROFILES:
        assert members(profile)
        assert all(e.recipe or e.served_by == "vllm" for e in members(profile))
    assert {"lpips-vgg", "lpips-alex"} <= {e.name for e in members("lite")}


def test_a_whole_is_as_large_as_its_parts() -> None:
    for entry in manifest().values():
        if entry.parts:
            parts = sum(find(part).parameters for part in entry.parts.values())
            assert entry.parameters == parts, entry.name


def test_memory_follows_from_the_parameters() -> None:
    assert find("q-insight").gib("bf16") == pytest.approx(15.44, abs=0.01)
    assert find("q-insight").gib("fp32") == 2 * find("q-insight").gib("fp16")


def test_every_service_is_one_the_panel_knows() -> None:
    unserved = {entry.service for entry in manifest().values()} - set(SERVICES)
    assert unserved <= {"segmenter.grounded_sam_huge"}


@pytest.mark.parametrize(
    ("name", "module"), [("q-insight", "quality.qinsight"), ("artimuse", "aesthetics.artimuse")]
)
def test_prompts_are_those_the_services_ask_for(name: str, module: str) -> None:
    service = importlib.import_module(f"editjudge_services.{module}_service")
    assert find(name).prompts == service.PROMPTS


BAD = {
    "no TOML": ("[tiny", "manifest.toml: "),
    "no table": ("tiny = 1", "tiny is not a table"),
    "unknown field": (GOOD + "colour = 1", "tiny: colour: Extra inputs"),
    "missing field": (GOOD.replace('licence = "MIT"', ""), "tiny: licence: Field required"),
    "wrong type": (GOOD.replace("parameters = 5", 'parameters = "5"'), "tiny: parameters: "),
    "no parameters": (GOOD.replace("parameters = 5", "parameters = 0"), "tiny: parameters: "),
    "name": (GOOD.replace("[tiny]", "[Tiny_1]"), "Tiny_1: name: "),
    "service": (GOOD.replace("quality.tiny", "quality"), "tiny: service: "),
    "role": (GOOD.replace("quality.tiny", "beauty.tiny"), "there is no role 'beauty'"),
    "hub id": (GOOD.replace("acme/tiny", "https://acme/tiny"), "tiny: hub: "),
    "no hub": (GOOD.replace('hub = "acme/tiny"', ""), "`hub` needs hub and revision"),
    "no files": (GOOD.replace('["*.json"]', "[]"), "`hub` needs files"),
    "files outside": (GOOD.replace("*.json", "../*.json"), "leaves the checkpoint's folder"),
    "absolute file": (GOOD.replace("*.json", "/etc/passwd"), "leaves the checkpoint's folder"),
    "claims a pin": (GOOD + "revision_pinned = true", "must say if revision is a commit"),
    "denies a pin": (GOOD.replace('"main"', f'"{"a" * 40}"'), "must say if revision is a commit"),
    "empty licence": (GOOD.replace('"MIT"', '""'), "tiny: licence: "),
    "two lines": (GOOD.replace('"none"', '"a\\nb"'), "tiny: preprocessing: "),
    "no reason": (GOOD + "restricted = true", "restricted: needs a reason"),
    "reason alone": (GOOD + 'restricted_why = "x"', "restricted: needs a reason"),
    "short digest": (GOOD + 'sha256 = { "a.json" = "ab" }', "tiny: sha256.a.json: "),
    "digest of no file": (GOOD + f'sha256 = {{ b = "{"a" * 64}" }}', "not among `files`"),
    "paper": (GOOD.replace('"gie"', '"imagenet"'), "tiny: used_by.0: "),
    "profile": (GOOD.replace('"lite"', '"heavy"'), "tiny: profiles.0: "),
    "server": (GOOD.replace('"vllm"', '"tgi"'), "tiny: served_by: "),
    "recipe with vLLM": (GOOD + 'recipe = "a.b:RECIPES"', "vLLM needs none"),
    "no recipe": (GOOD.replace('"vllm"', '"onnx"'), "tiny: recipe: there is none"),
    "malformed recipe": (GOOD + 'recipe = "a.b"', "tiny: recipe: "),
    "recipe name alone": (GOOD + 'recipe_name = "x"', "recipe_name: needs a recipe"),
    "prompts without vLLM": (
        GOOD.replace('"vllm"', '"onnx"') + f'prompts = {{ a = "{"a" * 64}" }}',
        "prompts: only with vLLM",
    ),
    "file with a hub": (GOOD.replace('"hub"', '"file"'), "`file` has no hub"),
    "parts with a hub": (
        GOOD.replace('"hub"', '"parts"') + 'parts = { a = "b" }',
        "`parts` has nothing of its own",
    ),
    "hub with parts": (GOOD + 'parts = { a = "b" }', "has no instructions or parts"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_manifest_is_one_line(case: str) -> None:
    text, expected = BAD[case]
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


BARE = GOOD.replace('hub = "acme/tiny"', "").replace('revision = "main"', "")
FILE = BARE.replace('"hub"', '"file"').replace('["*.json"]', '["a.pth"]')
PARTS = BARE.replace('"hub"', '"parts"').replace('files = ["*.json"]', "")
DIGEST = f'sha256 = {{ "a.pth" = "{"a" * 64}" }}\n'
BAD_SUPPLIES = {
    "no instructions": (FILE + DIGEST, "needs instructions"),
    "no digest": (FILE + 'instructions = "x"', "needs the file's digest"),
    "two files": (
        FILE.replace('["a.pth"]', '["a.pth", "b.pth"]') + DIGEST + 'instructions = "x"',
        "means one file",
    ),
    "no parts": (PARTS, "`parts` needs parts"),
    "part of nothing": (PARTS + 'parts = { a = "b" }', "b is a part, and no entry from the hub"),
}


@pytest.mark.parametrize("case", BAD_SUPPLIES)
def test_what_is_wrong_with_a_supply(case: str) -> None:
    text, expected = BAD_SUPPLIES[case]
    with pytest.raises(ConfigError, match=expected):
        parse(text)


def test_good_ones_pass() -> None:
    assert parse(GOOD)["tiny"].used_by == ["gie"]
    assert parse(FILE + DIGEST + 'instructions = "x"')["tiny"].supply == "file"
    part = GOOD.replace("[tiny]", "[part]").replace('"vllm"', '"onnx"')
    assert set(parse(part + PARTS + 'parts = { a = "part" }')) == {"part", "tiny"}


def test_a_model_that_is_not_there_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean dinov2-small"):
        find("dinov2_small")


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A recipe module under the name that the manifest has for LPIPS; torch is there."""
    module = ModuleType("recipe")
    monkeypatch.setitem(sys.modules, "editjudge_services.perceptual.recipe", module)
    monkeypatch.setattr(manifests, "find_spec", lambda name: object())
    return module


def test_a_recipe_is_found_by_name(recipes: ModuleType) -> None:
    recipes.RECIPES = {"lpips-vgg": (made := object())}  # type: ignore[attr-defined]
    assert recipe_of(find("lpips-vgg")) is made
    with pytest.raises(ConfigError, match="no recipe for lpips-alex"):
        recipe_of(find("lpips-alex"))


def test_a_recipe_module_that_is_not_there(
    recipes: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {lacks!r}", name=lacks)

    monkeypatch.setattr(manifests, "import_module", missing)
    lacks = "editjudge_services.perceptual.recipe"
    with pytest.raises(ConfigError, match="no recipe for lpips-vgg"):
        recipe_of(find("lpips-vgg"))
    lacks = "onnx"
    with pytest.raises(MissingExtra, match=r"editjudge\[export\]"):
        recipe_of(find("lpips-vgg"))


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"exporting lpips-vgg .*editjudge\[export\]"):
        recipe_of(find("lpips-vgg"))


def test_what_is_not_exported_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="served by vLLM .* models pull q-insight"):
        recipe_of(find("q-insight"))
    with pytest.raises(ConfigError, match="sam-vit-base is a part of grounded-sam; name that"):
        recipe_of(find("sam-vit-base"))
