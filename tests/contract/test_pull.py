"""Pulling weights from a hub that misbehaves in every way we know of."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants, snapshot_download

from editjudge.base.errors import ConfigError, InputError
from editjudge_services.zoo import checkpoint
from editjudge_services.zoo import manifest as manifests
from editjudge_services.zoo.artefact import checkpoint_dir
from editjudge_services.zoo.checkpoint import ZooError, load_checkpoint
from editjudge_services.zoo.manifest import Entry
from editjudge_services.zoo.pull import import_weights, pull

from ..fakes.hub import COMMIT, ScriptedHub
from ..small_disk import fill_disk, mount_disk

WEIGHTS = bytes(range(256)) * 1024
FILES = {"config.json": b'{"a": 1}', "model.safetensors": WEIGHTS, "README.md": b"no"}


def entry(**changes: Any) -> Entry:
    """A model on the scripted hub."""
    table = {"name": "tiny", "service": "quality.tiny", "supply": "hub", "hub": "acme/tiny"}
    files = {"revision": "main", "files": ["config.json", "*.safetensors"], "parameters": 1}
    more = {"licence": "Apache-2.0", "preprocessing": "none", "served_by": "vllm"}
    return Entry.model_validate({**table, **files, **more, "used_by": [], "profiles": [], **changes})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedHub]:
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    # It waits a second before it resumes.
    monkeypatch.setattr("time.sleep", lambda _: None)
    scripted = ScriptedHub(dict(FILES))
    close_session()
    with scripted.serving() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield scripted
        close_session()


def usable(name: str = "tiny") -> bool:
    return checkpoint_dir(name).exists() or load_checkpoint(name) is not None


def read_pulled(name: str = "model.safetensors") -> bytes:
    return (checkpoint_dir("tiny") / name).read_bytes()


def check_refusal(told: str, **changes: Any) -> ZooError:
    """How a pull ends that leaves nothing usable: in one line."""
    with pytest.raises(ZooError, match=told) as caught:
        pull(entry(**changes))
    assert "\n" not in str(caught.value)
    assert not usable()
    return caught.value


def test_a_pull_brings_the_wanted_files_and_a_record(hub: ScriptedHub) -> None:
    record = pull(entry())
    folder = checkpoint_dir("tiny")
    wanted = ("config.json", "model.safetensors")
    assert {path.name for path in folder.iterdir()} == {*wanted, "pulled.json"}
    assert read_pulled() == WEIGHTS
    written = json.loads(read_pulled("pulled.json"))
    assert (written["hub"], written["commit"]) == ("acme/tiny", COMMIT)
    digests = {name: hashlib.sha256(FILES[name]).hexdigest() for name in wanted}
    assert written["files"] == digests
    assert record.source == f"acme/tiny@{COMMIT}"
    assert not checkpoint.partial_folder(folder).exists()


def test_what_is_here_is_not_pulled_again(hub: ScriptedHub) -> None:
    pull(entry())
    before = len(hub.gets("model.safetensors"))
    pull(entry())
    assert len(hub.gets("model.safetensors")) == before
    asked = len(hub.asked)
    pull(entry(revision=COMMIT, revision_pinned=True))
    assert len(hub.asked) == asked, "a pinned commit that is here needs no hub"
    (checkpoint_dir("tiny") / "model.safetensors").write_bytes(b"changed")
    pull(entry())
    assert read_pulled() == WEIGHTS


def test_a_new_commit_replaces_the_old_one(hub: ScriptedHub) -> None:
    pull(entry())
    hub.commit, hub.files = "d" * 40, {"config.json": b"{}", "other.safetensors": b"new"}
    assert pull(entry()).commit == "d" * 40
    files = {path.name for path in checkpoint_dir("tiny").iterdir()}
    assert files == {"config.json", "other.safetensors", "pulled.json"}


def test_a_cut_connection_is_resumed_where_it_broke(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    # What it holds of an unfinished piece is lost, so pieces here are as small as the file.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
    hub.cuts = {"model.safetensors": [100_000, len(WEIGHTS)]}
    pull(entry())
    ranges = [one.range for one in hub.gets("model.safetensors")]
    assert "bytes=100000-" in ranges
    assert read_pulled() == WEIGHTS


def test_a_connection_cut_for_good_leaves_nothing_usable(hub: ScriptedHub) -> None:
    hub.cuts = {"model.safetensors": [1000, 0]}
    assert "pull again" in check_refusal("tiny: the download broke off").fix
    hub.cuts.clear()
    configs = len(hub.gets("config.json"))
    pull(entry())
    assert read_pulled() == WEIGHTS
    assert len(hub.gets("config.json")) == configs, "what arrived whole is kept"


def test_a_failed_pull_leaves_the_old_checkpoint_in_use(hub: ScriptedHub) -> None:
    pull(entry())
    hub.commit, hub.files["model.safetensors"] = "d" * 40, b"new"
    hub.cuts = {"model.safetensors": [1, 0]}
    with pytest.raises(ZooError):
        pull(entry())
    record = load_checkpoint("tiny")
    assert record is not None
    assert record.commit == COMMIT
    assert record.is_intact()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_bytes_other_than_the_hub_says_are_named(hub: ScriptedHub, name: str) -> None:
    hub.lies = {name: b"x" * len(FILES[name])}
    check_refusal(rf"tiny: {name} has sha256 .* as the hub says")
    hub.lies.clear()
    pull(entry())
    assert read_pulled(name) == FILES[name]


def test_bytes_other_than_the_manifest_says_are_named(hub: ScriptedHub) -> None:
    none = "0" * 64
    check_refusal(f"not {none} as the manifest says", sha256={"model.safetensors": none})
    check_refusal("b.safetensors did not arrive", sha256={"b.safetensors": none})


GATED = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to model is restricted."}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("where", ["/api/models/", "/resolve/"])
def test_a_gated_model_says_what_to_accept(hub: ScriptedHub, status: int, where: str) -> None:
    hub.refusals = {where: (status, GATED)}
    fix = check_refusal(rf"tiny is gated: the hub refuses it \({status}\)", gated=True).fix
    assert "accept its terms at http://127.0.0.1" in fix
    assert "HF_TOKEN" in fix


def test_the_token_is_sent_to_the_hub_alone(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    pull(entry(gated=True))
    assert {one.token for one in hub.asked if one.path.startswith("/api")} == {"hf_secret"}
    assert {one.token for one in hub.asked if one.path.startswith("/cdn")} == {""}


ABOUT = "/api/models/"
REFUSALS: dict[str, tuple[str, int, dict[str, str], str]] = {
    "refused": (ABOUT, 401, {}, "refused, or not there"),
    "busy": (ABOUT, 429, {"Retry-After": "7"}, r"fewer requests \(429\); pull again in 7 s"),
    "broken": (ABOUT, 500, {}, "the hub answered 500"),
    "gone": (ABOUT, 404, {"X-Error-Code": "RepoNotFound"}, "there is no such repository"),
    "no such revision": (ABOUT, 404, {"X-Error-Code": "RevisionNotFound"}, "has no revision main"),
    "busy at the list": ("/tree/", 429, {}, "fewer requests"),
    "busy at a file": ("/resolve/", 429, {}, "fewer requests"),
    "busy elsewhere": ("/cdn/", 429, {}, "fewer requests"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_line(hub: ScriptedHub, case: str) -> None:
    where, status, headers, text = REFUSALS[case]
    hub.refusals = {where: (status, headers)}
    check_refusal(text)


def test_a_half_filled_staging_folder_is_not_taken_for_the_model(hub: ScriptedHub) -> None:
    # huggingface_hub hands back a folder that has anything in it when the hub is down.
    hub.cuts = {"model.safetensors": [1000, 0]}
    check_refusal("broke off")
    for notes in checkpoint.partial_folder(checkpoint_dir("tiny")).glob(".cache/huggingface/**/*.json"):
        notes.unlink()
    hub.refusals = {"/tree/": (503, {})}
    check_refusal("broke off")


def test_a_hub_that_is_not_there(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    check_refusal("tiny: http://127.0.0.1:9 cannot be reached.* models pull tiny --from FOLDER")


def test_a_disk_too_small_is_told_before_the_download(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    little = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: little)
    check_refusal("the disk is full: .* GiB are free")
    assert not hub.gets("config.json")


def test_a_disk_that_fills_up(hub: ScriptedHub) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        check_refusal("the disk is full: .*EDITJUDGE_MODELS_DIR")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    pull(entry())
    assert usable()


@pytest.mark.parametrize("free", [0, 100 << 10])
def test_a_folder_of_weights_that_does_not_fit(
    hub: ScriptedHub, tmp_path: Path, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (given := tmp_path / "given").mkdir()
    for name, content in FILES.items():
        (given / name).write_bytes(content)
    with mount_disk(tmp_path / "disk", 1) as disk:
        monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(disk))
        for is_here in (False, True):
            filler = fill_disk(disk, free)
            with pytest.raises(ZooError, match=f"the disk is full: {disk}/tiny; free some space there, or move"):
                import_weights(entry(), given)
            assert (load_checkpoint("tiny") is not None) == usable() == is_here
            filler.unlink()
            import_weights(entry(), given).verify()


def test_two_pulls_at_once(hub: ScriptedHub) -> None:
    with checkpoint.lock_entry("tiny"):
        check_refusal("another process works on tiny")


def test_offline_takes_what_the_cache_has(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check_refusal("HF_HUB_OFFLINE is set")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    snapshot_download("acme/tiny", endpoint=os.environ["HF_ENDPOINT"])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = len(hub.asked)
    assert pull(entry()).commit == COMMIT
    assert len(hub.asked) == asked
    assert read_pulled() == WEIGHTS
    assert not (checkpoint_dir("tiny") / "model.safetensors").is_symlink()


def test_a_restricted_licence_must_be_accepted_once(hub: ScriptedHub) -> None:
    wanted = entry(restricted=True, restricted_why="not for fun", licence="Mine")
    with pytest.raises(ConfigError, match=r"\(Mine\): not for fun; accept it with --accept-lic"):
        pull(wanted)
    assert not hub.asked
    assert pull(wanted, accept_license=True).accepted
    assert pull(wanted).accepted


def test_parts_are_pulled_and_laid_side_by_side(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    base = entry().model_dump(exclude={"name"})
    plain = {key: value for key, value in base.items() if key not in {"hub", "revision", "files"}}
    whole = {**plain, "name": "whole", "supply": "parts", "parts": {"left": "tiny"}}
    monkeypatch.setattr(manifests, "load_manifest", lambda: {"tiny": entry()})
    record = pull(Entry.model_validate(whole))
    assert record.source == f"acme/tiny@{COMMIT}"
    assert (checkpoint_dir("whole") / "left" / "model.safetensors").read_bytes() == WEIGHTS
    notes = checkpoint_dir("whole") / "pulled.json"
    made = notes.stat().st_mtime_ns
    assert pull(Entry.model_validate(whole)) == record
    assert notes.stat().st_mtime_ns == made


def file_entry() -> Entry:
    none = {"hub": "", "revision": "", "files": ["tiny.pth"], "instructions": "ask for it"}
    return entry(supply="file", sha256={"tiny.pth": hashlib.sha256(b"weights").hexdigest()}, **none)


def test_a_file_is_imported_when_it_is_the_right_one(hub: ScriptedHub, tmp_path: Path) -> None:
    given = tmp_path / "download.pth"
    told = "ask for it; then run: editjudge models pull tiny --from"
    with pytest.raises(ConfigError, match=told):
        pull(file_entry())
    with pytest.raises(InputError, match=r"download\.pth: it is no folder; give a folder with tiny\.pth"):
        import_weights(file_entry(), given)
    with pytest.raises(InputError, match=r"tiny\.pth of tiny is missing; it needs tiny\.pth"):
        import_weights(file_entry(), tmp_path)
    given.write_bytes(b"others")
    with pytest.raises(InputError, match="sha256 is .* ask for it"):
        import_weights(file_entry(), given)
    assert not usable()
    given.write_bytes(b"weights")
    assert import_weights(file_entry(), given).source == "tiny.pth"
    assert read_pulled("tiny.pth") == b"weights"
    given.rename(folder := tmp_path / "tiny.pth")
    assert import_weights(file_entry(), folder.parent).source == "tiny.pth"


def test_a_folder_that_the_hub_gave_is_imported_with_its_commit(hub: ScriptedHub, tmp_path: Path) -> None:
    where = {"local_dir": tmp_path / "given", "endpoint": os.environ["HF_ENDPOINT"]}
    folder = Path(snapshot_download("acme/tiny", **where))  # type: ignore[arg-type]
    asked = len(hub.asked)
    record = import_weights(entry(revision=COMMIT, revision_pinned=True), folder)
    assert (record.source, record.unchecked_files) == (f"acme/tiny@{COMMIT}", [])
    assert read_pulled() == WEIGHTS
    assert not (checkpoint_dir("tiny") / "README.md").exists()
    assert pull(entry(revision=COMMIT, revision_pinned=True)) == record
    assert len(hub.asked) == asked, "no network is needed"
    with pytest.raises(InputError, match=f"commit {COMMIT}, not d+; download that one"):
        import_weights(entry(revision="d" * 40, revision_pinned=True), folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes(b"changed")
        with pytest.raises(InputError, match=f"{name}: its digest is not .*; download it again"):
            import_weights(entry(), folder)
        (folder / name).write_bytes(FILES[name])


@pytest.fixture
def checkpoint_copy(hub: ScriptedHub, tmp_path: Path) -> Path:
    """A copy of a checkpoint, without notes."""
    (folder := tmp_path / "brought").mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes(b"{}")
    return folder


def test_a_plain_copy_is_compared_with_the_manifest_and_says_what_was_not(hub: ScriptedHub, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    files = {"config.json": b"{}", "model.index.json": json.dumps(index).encode()}
    wanted = ["config.json", "*.index.json", "*.safetensors"]
    digest = hashlib.sha256(b"1").hexdigest()
    pinned = entry(files=wanted, sha256={"one.safetensors": digest}, revision_pinned=True)
    for name, data in {**files, "one.safetensors": b"1"}.items():
        (folder / name).write_bytes(data)
    with pytest.raises(InputError, match=r"two\.safetensors of tiny is missing"):
        import_weights(pinned, folder)
    (folder / "two.safetensors").write_bytes(b"2")
    record = import_weights(pinned, folder)
    assert record.unchecked_files == ["config.json", "model.index.json", "two.safetensors"]
    assert pull(pinned) == record
    with pytest.raises(ConfigError, match="consists of other models; pull a, b --from"):
        import_weights(entry(supply="parts", parts={"x": "a", "y": "b"}), folder)


def test_a_folder_that_is_not_whole_or_not_the_hubs_is_named(checkpoint_copy: Path, tmp_path: Path) -> None:
    files = entry(files=["*.json", "*.safetensors"])
    notes = checkpoint_copy / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    (notes / "config.json.metadata").write_bytes(b"\xff\n\xfe")
    with pytest.raises(InputError, match=r"config\.json: its digest is not"):
        import_weights(files, checkpoint_copy)
    (notes / "config.json.metadata").unlink()
    for index in (b"{", b"[]", b'{"weight_map": 3}', b'{"weight_map": {"a": 1}}'):
        (checkpoint_copy / "model.safetensors.index.json").write_bytes(index)
        with pytest.raises(InputError, match=r"index\.json: it is no index of shards"):
            import_weights(files, checkpoint_copy)
    (checkpoint_copy / "model.safetensors.index.json").unlink()
    (checkpoint_copy / "settings.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"No such file.*settings\.json"):
        import_weights(files, checkpoint_copy)
    assert not usable()


def test_a_checkpoint_of_another_folder_of_models_is_imported_without_its_record(checkpoint_copy: Path) -> None:
    files = entry(files=["*.json", "*.safetensors"])
    (checkpoint_copy / "pulled.json").write_text("{}")
    record = import_weights(files, checkpoint_copy)
    assert record.files.keys() == {"config.json", "model.safetensors"}
    record.verify()
    assert record.source == "2 imported files"
    assert import_weights(files, checkpoint_dir("tiny")) == record, "its own folder"
    (checkpoint_copy / "untrained.json").write_text("{}")
    with pytest.raises(InputError, match=r"its weights are random; run: editjudge models pull tiny --untrained"):
        import_weights(files, checkpoint_copy)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "editjudge", "models", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command_line(hub: ScriptedHub) -> None:
    # `main` of a real entry, then one whose digest the manifest has.
    hub.repo, hub.files = "ByteDance/Sa2VA-Qwen3-VL-4B", {"config.json": b"{}", "README.md": b""}
    done = command("pull", "sa2va-qwen3-vl-4b")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"sa2va-qwen3-vl-4b is here: {hub.repo}@{COMMIT}\n"
    known = manifests.find_entry("dinov2-small")
    hub.repo, hub.commit, hub.files = known.hub, known.revision, dict(FILES)
    done = command("pull", "dinov2-small", "artimuse", "lpips-vgg")
    errors = done.stderr.splitlines()
    assert done.returncode == 1
    assert [line.partition(":")[0] for line in errors] == ["error"] * 3
    assert "model.safetensors has sha256" in errors[0]
    assert "restricted licence" in errors[1]
    assert "editjudge models pull lpips-vgg --from" in errors[2]
    listed = {one["name"]: one for one in json.loads(command("list", "--json").stdout)}
    assert listed["sa2va-qwen3-vl-4b"]["checkpoint"]["source"].endswith(f"Sa2VA-Qwen3-VL-4B@{COMMIT}")
    assert listed["dinov2-small"]["checkpoint"] is None
