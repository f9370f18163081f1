"""The manifest: what it says, and what it must not be able to say."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatchcase
from types import ModuleType
from typing import get_args

import pytest

from editjudge.base.contracts import CONTRACTS
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.panel import SPECIALISTS
from editjudge_services.zoo import manifest as manifests
from editjudge_services.zoo.manifest import Profile, find_entry, load_manifest, load_recipe, profile_entries

VISION = ("dinov2-small", "dinov3-vitb16", "clip-vit-base-patch32", "lpips-vgg", "lpips-alex")
GROUNDED = ("grounded-sam", "grounded-sam-huge", "grounding-dino-tiny")
SAM = ("sam-vit-base", "sam-vit-huge", "sa2va-qwen3-vl-4b")


def test_every_model_is_there() -> None:
    others = ("got-ocr2", "q-insight", "artimuse")
    assert set(load_manifest()) == {*VISION, *GROUNDED, *SAM, *others}


def test_no_revision_is_invented() -> None:
    for entry in load_manifest().values():
        assert entry.revision_pinned or entry.revision in {"", "main"}, entry.name


def test_gated_and_restricted_models_are_marked() -> None:
    entries = load_manifest().values()
    assert [e.name for e in entries if e.gated] == ["dinov3-vitb16"]
    assert [e.name for e in entries if e.restricted] == ["dinov3-vitb16", "artimuse"]


def test_no_model_of_the_lite_profile_needs_a_licence_or_an_account() -> None:
    for entry in profile_entries("lite"):
        parts = [find_entry(part) for part in entry.parts.values()]
        assert not any(one.gated or one.restricted for one in (entry, *parts)), entry.name


def test_profiles_hold_what_can_be_served_as_it_is_named() -> None:
    for profile in get_args(Profile):
        assert profile_entries(profile)
        assert all(e.recipe or e.served_by == "vllm" for e in profile_entries(profile))
    assert {"lpips-vgg", "lpips-alex"} <= {e.name for e in profile_entries("lite")}


def test_a_whole_is_as_large_as_its_parts() -> None:
    for entry in load_manifest().values():
        if entry.parts:
            parts = sum(find_entry(part).parameters for part in entry.parts.values())
            assert entry.parameters == parts, entry.name


def test_memory_follows_from_the_parameters() -> None:
    assert find_entry("q-insight").gib("bf16") == pytest.approx(15.44, abs=0.01)
    assert find_entry("q-insight").gib("fp32") == 2 * find_entry("q-insight").gib("bf16")


def test_every_service_is_one_the_panel_knows() -> None:
    unserved = {entry.service for entry in load_manifest().values()} - set(SPECIALISTS)
    assert unserved <= {"segmenter.grounded_sam_huge"}


def test_what_an_entry_says_goes_together() -> None:
    """`Entry` types each field; what they say of each other is held here."""
    parts = {part for entry in load_manifest().values() for part in entry.parts.values()}
    for name, entry in load_manifest().items():
        assert entry.service.partition(".")[0] in CONTRACTS, name
        assert entry.restricted == bool(entry.restricted_why), name
        assert bool(entry.recipe) != (entry.served_by == "vllm" or name in parts), name
        assert entry.recipe or not entry.recipe_name, name
        assert entry.revision_pinned == bool(re.fullmatch("[0-9a-f]{40}", entry.revision)), name
        paths = (*entry.files, *entry.sha256, *entry.parts, entry.subfolder)
        assert not any(path.startswith("/") or ".." in path.split("/") for path in paths), name
        for file in entry.sha256:
            assert any(fnmatchcase(file, pattern) for pattern in entry.files), name
        match entry.supply:
            case "hub":
                assert all((entry.hub, entry.revision, entry.files)), name
                assert not any((entry.instructions, entry.parts)), name
            case "file":
                assert (bool(entry.instructions), entry.hub, entry.revision) == (True, "", ""), name
                assert (list(entry.sha256), len(entry.files)) == (entry.files, 1), name
            case "parts":
                assert (bool(entry.parts), entry.hub, entry.files) == (True, "", []), name
                assert all(find_entry(part).supply == "hub" for part in entry.parts.values()), name


def test_a_model_that_is_not_there_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean dinov2-small"):
        find_entry("dinov2_small")


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A recipe module under the name that the manifest has for LPIPS; torch is there."""
    module = ModuleType("recipe")
    monkeypatch.setitem(sys.modules, "editjudge_services.perceptual.recipe", module)
    monkeypatch.setattr(manifests, "find_spec", lambda name: object())
    return module


def test_a_recipe_is_found_by_name(recipes: ModuleType) -> None:
    recipes.RECIPES = {"lpips-vgg": (made := object())}  # type: ignore[attr-defined]
    assert load_recipe(find_entry("lpips-vgg")) is made


def test_a_recipe_whose_library_is_not_there(recipes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {lacks!r}", name=lacks)

    monkeypatch.setattr(manifests, "import_module", missing)
    lacks = "onnx"
    with pytest.raises(MissingExtra, match=r"\[export\]"):
        load_recipe(find_entry("lpips-vgg"))


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"exporting lpips-vgg .*\[export\]"):
        load_recipe(find_entry("lpips-vgg"))


def test_what_is_not_exported_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="served by vLLM .* models pull q-insight"):
        load_recipe(find_entry("q-insight"))
    with pytest.raises(ConfigError, match="sam-vit-base is a part of grounded-sam; name that"):
        load_recipe(find_entry("sam-vit-base"))
