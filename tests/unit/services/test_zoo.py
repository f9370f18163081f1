"""From an untrained checkpoint to a verified export, with a recipe that does as it is told."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from editjudge.base.errors import ConfigError, InputError
from editjudge.base.images import RGB, load_image
from editjudge.cli import plugin_commands
from editjudge_services.runtime.onnx import check_device
from editjudge_services.zoo import artefact as artefacts
from editjudge_services.zoo import manifest as manifests
from editjudge_services.zoo.artefact import Artefact, Parity, Precision, checkpoint_dir, hash_file, models_dir
from editjudge_services.zoo.artefact import load_artefact as load
from editjudge_services.zoo.checkpoint import Checkpoint, hash_files, load_checkpoint
from editjudge_services.zoo.export import export, make_untrained, verify
from editjudge_services.zoo.manifest import find_entry
from editjudge_services.zoo.pull import import_weights

command = plugin_commands()["models"]

ENTRY = find_entry("lpips-vgg")


class FakeRecipe:
    """Doubles the weights; `difference`, `says` and `fails` are what a test makes of it."""

    precisions: tuple[Precision, ...] = ("fp32", "bf16")

    def __init__(self) -> None:
        self.difference = 0.0
        self.says = [0.5, -0.25]
        self.fails: Exception | None = None

    def make_untrained(self, folder: Path) -> None:
        (folder / "weights.bin").write_bytes(b"random")

    def export(self, checkpoint: Path, folder: Path, precision: Precision, pictures: Sequence[RGB] | None) -> Parity:
        (folder / "graph").mkdir()
        weights = b"".join(sorted(one.read_bytes() for one in checkpoint.glob("*.[bp]*")))
        (folder / "graph" / "model.onnx").write_bytes(2 * weights)
        if self.fails:
            raise self.fails
        return Parity(largest_difference=self.difference, tolerance=1e-4, images=len(pictures or "ab"))

    def fingerprint(self, folder: Path, precision: Precision) -> list[float]:
        assert (folder / "graph" / "model.onnx").is_file()
        return list(self.says)


@pytest.fixture(autouse=True)
def recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRecipe:
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path / "models"))
    install_recipe(monkeypatch, made := FakeRecipe())
    return made


def install_recipe(monkeypatch: pytest.MonkeyPatch, recipe: FakeRecipe) -> None:
    module = ModuleType("recipe")
    module.RECIPES = {ENTRY.name: recipe}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "editjudge_services.perceptual.recipe", module)
    monkeypatch.setattr(manifests, "find_spec", lambda name: object())


@pytest.fixture
def checkpoint() -> Checkpoint:
    return make_untrained(ENTRY)


@pytest.fixture
def artefact(checkpoint: Checkpoint) -> Artefact:
    """What is exported of it."""
    return export(ENTRY, "fp32")


def leftovers() -> list[str]:
    """What lies beside whole folders."""
    folder = models_dir() / ENTRY.name
    return [p.name for p in folder.glob("*") if p.suffix in {".partial", ".old"}]


def test_untrained_weights_say_so_all_the_way(checkpoint: Checkpoint, artefact: Artefact) -> None:
    written = json.loads((checkpoint_dir(ENTRY.name) / "untrained.json").read_text())
    assert written["untrained"] is True
    assert load_checkpoint(ENTRY.name) == checkpoint
    assert (artefact.untrained, artefact.source) == (True, "untrained, seed 0")
    assert artefact.identity["untrained"] == "yes"
    assert load(ENTRY.name, "fp32") == artefact
    assert artefact.files == {"graph/model.onnx": hash_file(artefact.folder / "graph/model.onnx")}
    assert not leftovers()


def test_real_weights_are_named_and_not_replaced_by_random_ones(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (given := tmp_path / "download").write_bytes(b"real")
    right = ENTRY.model_copy(update={"sha256": {ENTRY.files[0]: hash_file(given)}})
    import_weights(right, given)
    artefact = export(ENTRY, "bf16")
    assert artefact.source == ENTRY.files[0]
    assert not artefact.untrained
    assert "untrained" not in artefact.identity
    with pytest.raises(ConfigError, match="weights that are not untrained; remove it first"):
        make_untrained(ENTRY)
    assert (checkpoint_dir(ENTRY.name) / ENTRY.files[0]).read_bytes() == b"real"


def test_pulled_weights_are_named_by_hub_and_commit() -> None:
    record = Checkpoint(entry="x", hub="acme/x", commit="c0ffee", files={})
    assert record.source == "acme/x@c0ffee"


@pytest.mark.parametrize(
    ("difference", "told"),
    [
        (0.00123, r"is 0\.00123 from its source \(difference\) on 2 pictures.* 0\.0001"),
        (float("nan"), "the comparison with the source gave no number"),
    ],
)
def test_an_export_beyond_tolerance_is_refused_with_figures(
    recipe: FakeRecipe, checkpoint: Checkpoint, difference: float, told: str
) -> None:
    recipe.difference = difference
    with pytest.raises(ConfigError, match=told):
        export(ENTRY, "bf16")
    assert load(ENTRY.name, "bf16") is None
    assert not leftovers()


@pytest.mark.parametrize("wrong", [{"difference": 1.0}, {"fails": ConfigError("another architecture")}])
def test_a_failed_export_leaves_the_earlier_one_whole(
    recipe: FakeRecipe, artefact: Artefact, wrong: dict[str, object]
) -> None:
    vars(recipe).update(wrong)
    with pytest.raises(ConfigError):
        export(ENTRY, "fp32")
    assert load(ENTRY.name, "fp32") == artefact
    artefact.verify()
    assert not leftovers()


def test_an_export_replaces_the_earlier_one(recipe: FakeRecipe, artefact: Artefact) -> None:
    recipe.says = [1.0]
    assert export(ENTRY, "fp32").fingerprint == [1.0]
    assert not leftovers()


WORKER = """
import os, signal, sys
from pathlib import Path
import pytest
from tests.unit.services.test_zoo import ENTRY, FakeRecipe, install_recipe
from editjudge_services.zoo.export import export, make_untrained

class Halting(FakeRecipe):
    def halt(self, folder):
        (folder / "junk").touch()
        print("half", flush=True)
        sys.stdin.readline()
        (folder / "junk").unlink()

    def export(self, checkpoint, folder, precision, pictures):
        if sys.argv[1] == "export":
            self.halt(folder)
        return super().export(checkpoint, folder, precision, pictures)

    def make_untrained(self, folder):
        if sys.argv[1] == "pull":
            self.halt(folder)
        super().make_untrained(folder)

real = Path.rename
def rename(path, target):
    real(path, target)
    if Path(target).suffix == ".old":
        print("between two names", flush=True)
        sys.stdin.readline()

Path.rename = rename
with pytest.MonkeyPatch.context() as patch:
    install_recipe(patch, Halting())
    print(make_untrained(ENTRY).source if sys.argv[1] == "pull" else export(ENTRY, "fp32").fingerprint)
"""


@contextmanager
def working(act: str) -> Iterator[subprocess.Popen[str]]:
    """Another process; it waits for a line once half is written, and once the old folder has lost its name."""
    pipe = subprocess.PIPE
    folder = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", WORKER, act], stdin=pipe, stdout=pipe, text=True, cwd=folder) as other:
        try:
            yield other
        finally:
            other.kill()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_line(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("is_here", [False, True])
def test_what_a_killed_export_left_is_not_used(recipe: FakeRecipe, checkpoint: Checkpoint, is_here: bool) -> None:
    before = export(ENTRY, "fp32") if is_here else None
    for _ in range(2):
        with working("export") as killed:
            assert read_line(killed) == "half"
        assert (models_dir() / ENTRY.name / "fp32.partial" / "junk").is_file()
        assert load(ENTRY.name, "fp32") == before
        assert len(verify(ENTRY)) == 1 + is_here
    assert set(export(ENTRY, "fp32").files) == {"graph/model.onnx"}
    assert not leftovers()


def test_who_is_killed_between_two_names_leaves_nothing_that_counts(checkpoint: Checkpoint) -> None:
    export(ENTRY, "fp32")
    for act, left in (("export", 1), ("pull", 1)):
        with working(act) as killed:
            assert read_line(killed) == "half"
            send_line(killed)
            assert read_line(killed) == "between two names"
        assert len(verify(ENTRY)) == left
        code, _, err = invoke("export", "lpips-vgg")
        if act == "pull":
            assert (code, "has no checkpoint here; run: editjudge models pull lpips-vgg" in err) == (2, True)
            assert invoke("pull", "lpips-vgg", "--untrained")[0] == 0
            code = invoke("export", "lpips-vgg")[0]
        assert code == 0
        assert len(verify(ENTRY)) == 2
        assert not leftovers()


def test_two_exports_at_once(checkpoint: Checkpoint) -> None:
    with working("export") as other:
        assert read_line(other) == "half"
        code, _, err = invoke("export", "lpips-vgg")
        assert (code, err) == (1, "error: another process works on lpips-vgg; wait for it, then try again\n")
        assert invoke("pull", "--untrained", "lpips-vgg")[0] == 1
        send_line(other)
        assert read_line(other) == "[0.5, -0.25]"
        assert other.wait(20) == 0
    assert len(verify(ENTRY)) == 2
    assert invoke("export", "lpips-vgg")[0] == 0
    assert not leftovers()


def test_who_reads_while_an_export_takes_the_name_of_another_waits_for_it(
    artefact: Artefact, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working("export") as other:
        assert read_line(other) == "half"
        assert load(ENTRY.name, "fp32") == artefact
        send_line(other)
        assert read_line(other) == "between two names"
        pause = SimpleNamespace(sleep=lambda _: (send_line(other), read_line(other)))
        monkeypatch.setattr(artefacts, "time", pause)
        assert load(ENTRY.name, "fp32") == artefact


def test_files_that_vanish_while_they_are_read_are_missing(artefact: Artefact, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that takes the name of another removes its files."""
    real, names = Path.open, []

    def vanish(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.is_relative_to(artefact.folder):
            names.append(path.name)
            path.unlink(missing_ok=True)
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", vanish)
    with pytest.raises(ConfigError, match=r"model\.onnx is missing; run: editjudge models export"):
        artefact.verify()
    assert load(ENTRY.name, "fp32") is None
    assert set(names) == {"model.onnx", "artefact.json"}


def test_an_export_needs_a_checkpoint_a_precision_and_unchanged_weights(recipe: FakeRecipe) -> None:
    def check_refusal(precision: Precision, told: str) -> None:
        with pytest.raises(ConfigError, match=told):
            export(ENTRY, precision)

    check_refusal("fp32", "no checkpoint here; run: editjudge models pull lpips-vgg --from")
    make_untrained(ENTRY)
    recipe.precisions = ("fp32",)
    check_refusal("bf16", "cannot be exported as bf16; it can as fp32")
    (checkpoint_dir(ENTRY.name) / "weights.bin").write_bytes(b"changed")
    check_refusal("fp32", r"weights\.bin was changed; .*models pull lpips-vgg --untrained")


def test_what_is_installed_is_verified() -> None:
    assert verify(ENTRY) == []
    code, _, err = invoke("verify", "lpips-vgg", "lpips-alex")
    assert (code, err.count("\n")) == (2, 2)
    assert "lpips-vgg is not installed; run: editjudge models pull lpips-vgg --from" in err
    make_untrained(ENTRY)
    export(ENTRY, "fp32")
    export(ENTRY, "bf16")
    assert verify(ENTRY) == [
        "lpips-vgg checkpoint is right (untrained, seed 0)",
        "lpips-vgg fp32 is right, fingerprint same (untrained, seed 0)",
        "lpips-vgg bf16 is right, fingerprint same (untrained, seed 0)",
    ]


@pytest.mark.parametrize(
    ("name", "files", "commit", "told"),
    [
        ("lpips-vgg", {"vgg16-397923af.pth": b"other"}, "", "vgg16-397923af.pth: the manifest"),
        ("lpips-vgg", {}, "", "vgg16-397923af.pth: the manifest"),
        ("grounded-sam", {"sam/model.safetensors": b"other"}, "", "detector, sam: the"),
        ("dinov2-small", {}, "c0ffee", "model.safetensors, commit c0ffee: the manifest"),
    ],
)
def test_a_copied_checkpoint_with_a_record_of_its_own_is_held_to_the_manifest(
    name: str, files: dict[str, bytes], commit: str, told: str
) -> None:
    folder = checkpoint_dir(name)
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    folder.mkdir(parents=True, exist_ok=True)
    Checkpoint(entry=name, commit=commit, files=hash_files(folder)).save(folder)
    with pytest.raises(ConfigError, match=f"{name}: .*{told}"):
        verify(find_entry(name))


@pytest.mark.parametrize("name", ["sa2va-qwen3-vl-4b", "q-insight", "artimuse"])
def test_a_checkpoint_whose_commit_nobody_pinned_is_named_as_such(name: str) -> None:
    checkpoint_dir(name).mkdir(parents=True)
    hub = find_entry(name).hub
    Checkpoint(entry=name, hub=hub, commit="c0ffee", files={}).save(checkpoint_dir(name))
    assert verify(find_entry(name)) == [f"{name} checkpoint is right ({hub}@c0ffee), whose commit is not pinned"]


def test_changed_files_are_found(artefact: Artefact) -> None:
    model = artefact.folder / "graph" / "model.onnx"
    good = model.read_bytes()
    model.write_bytes(good + b"!")
    with pytest.raises(ConfigError, match=r"model\.onnx was changed"):
        verify(ENTRY)
    model.unlink()
    with pytest.raises(ConfigError, match=r"model\.onnx is missing"):
        verify(ENTRY)


@pytest.mark.parametrize("says", [[0.502, -0.25], [0.5], [float("nan"), -0.25]])
def test_a_model_that_says_something_else_is_found(recipe: FakeRecipe, artefact: Artefact, says: list[float]) -> None:
    recipe.says = [0.5005, -0.25]
    assert "fingerprint same" in verify(ENTRY)[1]
    recipe.says = says
    with pytest.raises(ConfigError, match=r"fingerprint image, not \[0\.5000, -0\.2500\]"):
        verify(ENTRY)


def test_without_torch_only_digests_are_verified(artefact: Artefact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "find_spec", lambda name: None)
    assert "fingerprint not computed" in verify(ENTRY)[1]


def test_a_record_that_cannot_be_read(checkpoint: Checkpoint) -> None:
    (checkpoint_dir(ENTRY.name) / "untrained.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"untrained\.json: entry: is missing; remove"):
        load_checkpoint(ENTRY.name)


def test_a_models_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="cannot be written: .*EDITJUDGE_MODELS_DIR"):
        make_untrained(ENTRY)


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if isinstance(done.exception, ConfigError):
        return done.exception.exit_code, done.stdout, str(done.exception)
    assert done.exception is None, done.exception
    return done.return_value, done.stdout, done.stderr


def test_the_verbs(recipe: FakeRecipe) -> None:
    assert invoke("verify") == (0, "no model is installed\n", "")
    here = "lpips-vgg is here: untrained, seed 0\n"
    assert invoke("pull", "--untrained", "lpips-vgg") == (0, here, "")
    ready = "lpips-vgg bf16 is ready, within 0 of its source on 2 pictures on cpu (untrained, seed 0)\n"
    assert invoke("export", "lpips-vgg", "--precision", "bf16") == (0, ready, "")
    code, out, _ = invoke("verify", "lpips-vgg")
    assert code == 0
    assert "lpips-vgg bf16 is right, fingerprint same (untrained, seed 0)" in out
    code, out, _ = invoke("list", "--json")
    listed = {one["name"]: one for one in json.loads(out)}
    assert listed["lpips-vgg"]["checkpoint"] == {"source": "untrained, seed 0", "untrained": True}
    assert set(listed["lpips-vgg"]["installed"]) == {"bf16"}
    assert listed["lpips-alex"]["checkpoint"] is None
    assert "bf16 (untrained)" in invoke("list")[1]


def test_a_damaged_record_costs_its_own_model(recipe: FakeRecipe, checkpoint: Checkpoint) -> None:
    checkpoint_dir("lpips-alex").mkdir(parents=True)
    (checkpoint_dir("lpips-alex") / "untrained.json").write_text("{}")
    assert "damaged: editjudge models verify" in " ".join(invoke("list")[1].split())
    listed = {one["name"]: one for one in json.loads(invoke("list", "--json")[1])}
    assert listed["lpips-vgg"]["checkpoint"]["untrained"]
    assert listed["lpips-vgg"]["problem"] == ""
    assert "untrained.json: entry: is missing" in listed["lpips-alex"]["problem"]
    code, out, err = invoke("verify")
    assert code == 2
    assert "lpips-vgg checkpoint is right" in out
    assert "untrained.json: entry: is missing" in err


@pytest.mark.parametrize("names", [(), ("lpips-vgg",)])
def test_each_file_is_read_once_to_verify_it(
    artefact: Artefact, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[str] = Counter()
    real = Path.open

    def count(path: Path, *arguments: Any, **options: Any) -> Any:
        file = real(path, *arguments, **options)
        if path.is_relative_to(models_dir()):
            opened[path.relative_to(models_dir()).as_posix()] += 1
        return file

    monkeypatch.setattr(Path, "open", count)
    assert invoke("verify", *names)[0] == 0
    files = ("checkpoint/untrained.json", "checkpoint/weights.bin", "fp32/artefact.json", "fp32/graph/model.onnx")
    assert opened == {f"lpips-vgg/{file}": 1 for file in files}


def test_nothing_is_imported_to_say_that_there_is_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editjudge_services.zoo.export.load_recipe", pytest.fail)
    with pytest.raises(ConfigError, match="has no checkpoint here"):
        export(ENTRY, "fp32")


def test_the_users_own_pictures_are_compared_and_named(
    checkpoint: Checkpoint, recipe: FakeRecipe, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    with pytest.raises(InputError, match="there is no picture"):
        export(ENTRY, "bf16", folder)
    for index in range(3):
        picture = load_image(np.full((8, 8, 3), index, np.uint8))
        (folder / f"{index}.png").write_bytes(picture.encoded_bytes)
    artefact = export(ENTRY, "bf16", folder)
    said = r"difference within 0\.0001 on 3 pictures \(sha256:\w{16}\) on cpu"
    assert re.fullmatch(said, artefact.identity["parity"])
    assert "parity" not in export(ENTRY, "fp32", folder).identity
    elsewhere = artefact.parity.model_copy(update={"device": "cuda"})  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="compared with its source on cuda, and runs on cpu here"):
        check_device(artefact.model_copy(update={"parity": elsewhere}))


def test_weights_that_a_library_cannot_read_are_one_line(recipe: FakeRecipe, checkpoint: Checkpoint) -> None:
    recipe.fails = RuntimeError("deserializing header:\n  incomplete")
    code, out, err = invoke("export", "lpips-vgg")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "/lpips-vgg/checkpoint cannot be exported: RuntimeError: deserializing header: incomplete; check" in err
    assert not leftovers()
    recipe.fails = OSError(errno.ENOSPC, "No space left on device")
    code, _, err = invoke("export", "lpips-vgg")
    assert (code, "the disk is full" in err) == (1, True)


def test_one_that_fails_does_not_stop_the_others(recipe: FakeRecipe) -> None:
    code, out, err = invoke("pull", "--untrained", "q-insight", "lpips-vgg")
    assert code == 2
    assert err.startswith("error: q-insight is served by vLLM from its checkpoint")
    assert out == "lpips-vgg is here: untrained, seed 0\n"


@pytest.mark.parametrize("arguments", [("export",), ("export", "lpips-vgg", "--profile", "lite")])
def test_models_are_named_or_come_from_a_profile(arguments: tuple[str, ...]) -> None:
    code, _, text = invoke(*arguments)
    assert code == 2
    assert "name models, or give a --profile" in text


def test_names_are_checked_before_anything_is_done() -> None:
    code, _, text = invoke("pull", "--untrained", "lpips-vgg", "nothing-like-it")
    assert code == 2
    assert "there is no model 'nothing-like-it'" in text
    assert load_checkpoint("lpips-vgg") is None
