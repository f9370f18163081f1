"""Data, sources and outputs in an object store: what a run says is what it says of files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from editjudge.app.view import RunView
from editjudge.base import objects

from ..small_data import save_picture, write_items
from .conftest import CommandResult, run_in_process

COUNT = 4
PIXELS = ("--dimension", "core.psnr.source.whole", "--json")


class Store:
    """A store in memory, which counts what is asked of it and refuses what it is told to."""

    def __init__(self) -> None:
        self.files: Any = fsspec.filesystem("memory")
        self.asked: list[tuple[str, str]] = []
        self.denied: set[tuple[str, str]] = set()

    def __getattr__(self, method: str) -> Any:
        def ask(path: str, **options: Any) -> Any:
            self.asked.append((method, path))
            if any(method == what and path.endswith(end) for what, end in self.denied):
                raise PermissionError("AccessDenied")
            said = getattr(self.files, method)(path, **options)
            for one in {"ls": said, "info": [said]}.get(method, ()):
                if one["type"] == "file":
                    one["ETag"] = self.files.checksum(one["name"])
            return said

        return ask

    def count(self, method: str) -> int:
        return sum(method == what for what, _ in self.asked)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    folder = tmp_path / "data"
    for number in range(COUNT):
        save_picture(folder / "sources" / f"{number}.png", (8, 8 + number))
        save_picture(folder / "ours" / "a" / f"{number}.png", (8, 8 + number))
    (folder / "ours" / "a" / "3.png").unlink()
    lines = ({"id": f"a/{n}", "source": f"sources/{n}.png", "instruction": f"edit {n}"} for n in range(COUNT))
    write_items(folder, lines)
    made = Store()
    made.files.put(str(folder), "/bucket/data", recursive=True)
    monkeypatch.setattr(objects, "_connect", lambda _: made)
    yield made
    made.files.store.clear()
    made.files.pseudo_dirs[:] = [""]


def run(place: str, out: Path, *options: str) -> CommandResult:
    return run_in_process(
        *("run", "core", "--data", f"{place}/items.jsonl", "--outputs", f"ours={place}/ours"),
        *(*PIXELS, "--out", out, *options),
    )


def columns(out: Path) -> Any:
    said = run_in_process("summary", out, "--json")
    assert said.code == 0, said.err
    return said.json["models"]


URL = "s3://bucket/data"


def test_a_run_over_urls_says_what_a_run_over_files_says(store: Store, tmp_path: Path) -> None:
    local, remote = tmp_path / "local", tmp_path / "remote"
    for place, out in ((str(tmp_path / "data"), local), (URL, remote)):
        done = run(place, out)
        assert done.code == 0, done.err
    # Each folder is listed once. The data, four sources and three outputs are read once.
    assert store.count("ls") == len({path for method, path in store.asked if method == "ls"})
    assert store.count("cat_file") == 2 * COUNT
    assert columns(local) == columns(remote)
    with RunView(remote) as view:
        places = view.header.data, view.header.outputs
    assert places == (f"{URL}/items.jsonl", {"ours": f"{URL}/ours"})
    # Nothing is read again where nothing has changed.
    store.asked.clear()
    again = run(URL, remote)
    assert again.code == 0, again.err
    assert [path for method, path in store.asked if method == "cat_file"] == ["bucket/data/items.jsonl"]
    # An output that was replaced, and one that came.
    save_picture(tmp_path / "new.png", (9, 9))
    for name in ("2", "3"):
        store.files.put(str(tmp_path / "new.png"), f"/bucket/data/ours/a/{name}.png")
    store.asked.clear()
    assert run(URL, remote).code == 0
    read = {path for method, path in store.asked if method == "cat_file"}
    assert {f"bucket/data/ours/a/{name}.png" for name in ("2", "3")} < read
    assert "bucket/data/ours/a/1.png" not in read


def test_pages_bundles_and_checks_show_pictures_of_a_store(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run(URL, out).code == 0
    assert run_in_process("report", out, "--out", tmp_path / "page").code == 0
    assert len([*(tmp_path / "page" / "pictures").iterdir()]) == 2 * COUNT - 1
    assert run_in_process("bundle", out, "--out", tmp_path / "a.ejb", "--originals").code == 0
    with zipfile.ZipFile(tmp_path / "a.ejb") as bundle:
        kept = [bundle.read(name) for name in bundle.namelist() if "/originals/" in name]
    assert (tmp_path / "data" / "ours" / "a" / "1.png").read_bytes() in kept
    checked = run_in_process("validate", "core", "--data", f"{URL}/items.jsonl", "--outputs", f"ours={URL}/ours")
    assert "a/3" in checked.out + checked.err


def test_records_may_name_urls_that_are_allowed(store: Store, tmp_path: Path) -> None:
    lines = [{"id": "0", "source": f"{URL}/sources/0.png", "instruction": "edit"}]
    items = write_items(tmp_path / "own", lines)
    save_picture(tmp_path / "own" / "ours" / "0.png", (8, 8))
    asked = ("run", "core", "--data", items, "--outputs", f"ours={tmp_path / 'own' / 'ours'}")
    closed = run_in_process(*asked, *PIXELS, "--out", tmp_path / "closed")
    assert f"lies outside the folder of the data: {URL}/sources/0.png" in closed.err
    assert f"--root {URL}/sources" in closed.err
    done = run_in_process(*asked, *PIXELS, "--root", f"{URL}/sources", "--out", tmp_path / "open")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("denied", "told"),
    [
        (("ls", "ours"), f"{URL}/ours: cannot be listed: no permission"),
        (("info", "items.jsonl"), f"{URL}/items.jsonl: no permission"),
        (("cat_file", "items.jsonl"), f"{URL}/items.jsonl: cannot be read: no permission"),
    ],
)
def test_what_may_not_be_read_is_one_line(store: Store, tmp_path: Path, denied: tuple[str, str], told: str) -> None:
    store.denied.add(denied)
    done = run(URL, tmp_path / "run")
    assert done.code == 2
    (line,) = [line for line in done.err.splitlines() if "rror" in line]
    assert told in line


def test_a_picture_that_may_not_be_read_costs_its_edit_alone(store: Store, tmp_path: Path) -> None:
    store.denied |= {("cat_file", "sources/1.png"), ("ls", "sources")}
    out = tmp_path / "run"
    assert run(URL, out).code == 3
    shown = run_in_process("show", out, "a/1", "--json").out
    assert "no permission" in shown
    store.denied.clear()
    assert run(URL, out).code == 0
    assert columns(out)["ours"]["core.psnr.source.whole"]["counts"]["scored"] == COUNT - 1


@pytest.mark.parametrize("benchmark", ["core", "kris"])
def test_what_is_not_there_is_one_line(store: Store, tmp_path: Path, benchmark: str) -> None:
    done = run_in_process(
        *("run", benchmark, "--data", f"{URL}/none.jsonl", "--outputs", f"ours={URL}/ours"),
        *("--out", tmp_path / "run", "--json"),
    )
    assert done.code == 2
    told = {"core": f"{URL}/none.jsonl: no such object", "kris": "its outputs may be a URL"}
    assert told[benchmark] in done.err


def test_a_store_whose_packages_are_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsspec, "filesystem", lambda *_, **__: (_ for _ in ()).throw(ImportError()))
    objects._connect.cache_clear()
    done = run("gs://bucket/data", tmp_path / "run")
    assert done.code == 2
    assert "gs:// paths needs packages that are not installed" in done.err
    assert "objects" in done.err
