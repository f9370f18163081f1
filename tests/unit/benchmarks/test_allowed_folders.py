"""Which pictures data may name: its own, and those of folders that its user named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.errors import InputError
from editjudge.benchmarks.dataset import OUTSIDE, AllowedFolders, Dataset, ItemRef
from editjudge.benchmarks.registry import load_benchmark

from .gie import release as gie_made
from .kris import release as kris_made
from .omni_iie import release as omni_made


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pil.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(path)
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return picture(tmp_path / "private" / "secret.png")


def own(tmp_path: Path, name: str, lines: list[dict[str, Any]], **more: Any) -> Dataset:
    folder = tmp_path / "data"
    picture(folder / "own.png")
    text = "".join(json.dumps({"instruction": "make it red", **one}) + "\n" for one in lines)
    (folder / "items.jsonl").write_text(text)
    data: Dataset = load_benchmark(name).data(folder, **more)
    return data


def read_by(data: Dataset, ref: ItemRef) -> set[str]:
    return {path.name for paths in data.image_paths(ref).values() for path in paths}


ESCAPES: dict[str, Callable[[Path], str]] = {
    "absolute": str,
    "up": lambda secret: f"../private/{secret.name}",
    "down and up": lambda secret: f"a/../../private/{secret.name}",
    "two slashes": lambda secret: f"/{secret}",
}


@pytest.mark.parametrize("field", ["source", "target", "mask"])
@pytest.mark.parametrize("escape", ESCAPES)
def test_a_picture_elsewhere_is_a_flaw_until_its_folder_is_named(
    tmp_path: Path, secret: Path, escape: str, field: str
) -> None:
    (tmp_path / "data" / "a").mkdir(parents=True)
    named = {"id": "x", "source": "own.png", field: ESCAPES[escape](secret)}
    lines = [named, {"id": "y", "source": "own.png"}]
    data = own(tmp_path, "core", lines)
    first, whole = data.check_items()
    reason = data.flaws(first)[field].reason
    assert OUTSIDE in reason
    assert f"add --root {secret.parent}" in reason.replace("//", "/")
    assert data.flaws(whole) == {}
    assert secret.name not in read_by(data, first)
    item = data.load(first)
    assert getattr(item, "sources" if field == "source" else field) in ((), None)
    if escape != "two slashes":
        roots = {str(secret.parent): str(secret.parent)}
        first, _ = (allowed := own(tmp_path, "core", lines, roots=roots)).check_items()
        assert allowed.flaws(first) == {}
        assert secret.name in read_by(allowed, first)


def test_where_no_item_has_its_source_nothing_begins(tmp_path: Path, secret: Path) -> None:
    data = own(tmp_path, "core", [{"id": "x", "source": str(secret)}])
    with pytest.raises(InputError, match=f"{OUTSIDE}.*--root"):
        list(data.check_items())


def test_links_are_the_users_own(tmp_path: Path) -> None:
    """A snapshot of Hugging Face's cache is all links, out of its folder."""
    blob = picture(tmp_path / "blobs" / "5f3a.png")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "linked.png").symlink_to("../blobs/5f3a.png")
    (folder / "all").symlink_to(blob.parent)
    (folder / "deep").mkdir()
    lines = [
        {"id": "a", "source": "linked.png"},
        {"id": "b", "source": "all/5f3a.png"},
        {"id": "c", "source": "deep/../own.png"},
    ]
    data = own(tmp_path, "core", lines)
    assert [data.flaws(ref) for ref in data.check_items()] == [{}, {}, {}]
    whole = load_benchmark("core").data(folder / "items.jsonl")
    assert [whole.flaws(ref) for ref in whole.check_items()] == [{}, {}, {}]


def test_behind_a_link_two_dots_lead_elsewhere(tmp_path: Path, secret: Path) -> None:
    (secret.parent / "deep").mkdir()
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link").symlink_to(secret.parent / "deep")
    picture(folder / secret.name)
    lines = [{"id": "x", "source": f"link/../{secret.name}"}, {"id": "y", "source": "own.png"}]
    first, _ = (data := own(tmp_path, "core", lines)).check_items()
    assert OUTSIDE in data.flaws(first)["source"].reason


def test_consent_is_to_whole_folders() -> None:
    consent = AllowedFolders("/data/set", {"/more": "/more", "/old": "/new/"})
    for path in ("/data/set/a.png", "/data/set/a/b.png", "/more/x.png", "/new/x.png"):
        assert consent.covers(path)
    for path in ("/data/settle/a.png", "/data/a.png", "/old/x.png", "/etc/passwd"):
        assert not consent.covers(path)
    assert AllowedFolders("/", {}).covers("/etc/passwd")


def test_released_data_asks_too(tmp_path: Path, secret: Path) -> None:
    roots = {str(secret.parent): str(secret.parent)}
    kris = kris_made.write_release(tmp_path / "kris")
    file = kris / "color_change" / "annotation.json"
    records = json.loads(file.read_text())
    first = next(iter(records))
    records[first]["ori_img"] = str(secret)
    file.write_text(json.dumps(records))
    gie = gie_made.write_release(tmp_path / "gie", [gie_made.record(image="/../private/secret.png"), gie_made.record()])
    path = str(secret)
    entry = omni_made.record("coco2017val", "0001", "low")
    omni = omni_made.write_release(
        tmp_path / "omni", [{**entry, "original_image_path": path}, omni_made.record("coco2017val", "0001", "high")], []
    )
    mapped = {omni_made.AUTHORS: str(tmp_path / "omni" / "files")}
    for name, folder, more in (("kris", kris, {}), ("gie", gie, {}), ("omni_iie", omni, mapped)):
        data = load_benchmark(name).data(folder, roots=more)
        ref = next(ref for ref in data.check_items() if data.flaws(ref))
        assert OUTSIDE in data.flaws(ref)["source"].reason, name
        assert secret.name not in read_by(data, ref)
        allowed = load_benchmark(name).data(folder, roots=more | roots)
        assert "source" not in allowed.flaws(next(iter(allowed.items({ref.index}))))
