"""A bundle: what is in it, what it unpacks to, and what becomes of it where all goes wrong."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import editjudge
from editjudge import RunView
from editjudge.base.digest import file_digest
from editjudge.base.errors import ConfigError
from editjudge.report import bundle as module
from editjudge.report.bundle import write_bundle
from editjudge.report.site import write_report

from ...report_runs import picture
from ...small_data import make_spec, write_items

IDS = ("plain", "dé/jà vu (é)", "broken", "none")
PSNR = "core.psnr.source.whole"


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A folder with a run of odd names, an output that is no picture and one that is missing."""
    folder = tmp_path / "author"
    source = picture(folder / "s ü.png", 1)
    for number, name in enumerate(IDS[:3]):
        picture(folder / "ours" / f"{name}.png", number + 2)
    (folder / "ours" / "broken.png").write_bytes(b"no picture")
    lines = ({"id": name, "instruction": "red", "source": source.name} for name in IDS)
    data = write_items(folder, lines)
    editjudge.run(make_spec(folder, data=data, dimensions=(PSNR,)), out=folder / "run")
    return folder


def names_in(file: Path) -> list[PurePosixPath]:
    with zipfile.ZipFile(file) as bundle:
        assert bundle.testzip() is None
        return [*map(PurePosixPath, bundle.namelist())]


def unpack(file: Path, to: Path) -> Path:
    with zipfile.ZipFile(file) as bundle:
        bundle.extractall(to)
    (run,) = to.iterdir()
    return run


def read_results(run: Path) -> dict[str, Any]:
    with RunView(run) as view:
        return view.results().to_dict()["models"]


@pytest.mark.parametrize("originals", [False, True])
def test_a_bundle_is_the_folder_of_a_run_and_its_page(run_folder: Path, tmp_path: Path, originals: bool) -> None:
    before = read_results(run_folder / "run")
    outputs = {name: file_digest(run_folder / "ours" / f"{name}.png") for name in IDS[:3]}
    bundle = write_bundle(run_folder / "run", tmp_path / "b.zip", originals=originals)
    assert (bundle.page.edits, bundle.originals) == (4, 4 if originals else 0)
    assert bundle.size == (tmp_path / "b.zip").stat().st_size
    (problem,) = bundle.page.picture_problems
    assert "broken.png: not an image" in problem
    shutil.rmtree(run_folder)
    run = unpack(tmp_path / "b.zip", tmp_path / "elsewhere")
    run.chmod(0o500)
    assert read_results(run) == before
    with RunView(run) as view:
        finder = view.make_picture_finder()
        for name in IDS[:2]:
            found = finder.find(name)
            output = found.outputs["ours"]
            assert output is not None
            assert output.parent == run / ("originals" if originals else "pictures")
            assert outputs[name][7:].startswith(output.stem)
            assert len(found.sources) == 1
    run.chmod(0o700)
    page = write_report([run], tmp_path / "page.html")
    assert len(page.picture_problems) == originals, "an output that is no picture has no thumbnail"
    assert page.page.read_text("utf-8").count("data:image/webp") == 3
    again = write_bundle(run, tmp_path / "again.zip", originals=True)
    assert again.originals == bundle.originals


def test_no_name_leads_out_of_a_bundle(run_folder: Path, tmp_path: Path) -> None:
    for name in ("b.zip", "...zip", "a b (é).zip", "-rf.zip"):
        write_bundle(run_folder / "run", tmp_path / name, originals=True)
        tops = set()
        for path in names_in(tmp_path / name):
            assert not path.is_absolute()
            assert not {"..", "."} & {*path.parts}
            assert str(path).isprintable()
            tops.add(path.parts[0])
            assert path.parts[1] in {"run.sqlite", "index.html", "data", "pictures", "originals"}
        assert len(tops) == 1


def test_only_what_was_judged_is_in_a_bundle(run_folder: Path, tmp_path: Path) -> None:
    picture(run_folder / "ours" / "plain.png", 99)
    bundle = write_bundle(run_folder / "run", tmp_path / "b.zip", originals=True)
    names = {path.stem for path in names_in(tmp_path / "b.zip")}
    assert file_digest(run_folder / "ours" / "plain.png")[7:39] not in names
    assert bundle.originals == 3


def test_a_bundle_is_there_whole_or_not(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out" / "b.zip"
    write_bundle(run_folder / "run", file)
    whole = file.read_bytes()
    (file.parent / ".b.zip.parts").mkdir()
    (file.parent / ".b.zip.parts" / "left.txt").write_text("of a process that was killed")

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "_add", ends)
        with pytest.raises(KeyboardInterrupt):
            write_bundle(run_folder / "run", file)
    assert file.read_bytes() == whole
    assert [*file.parent.iterdir()] == [file]
    write_bundle(run_folder / "run", file, originals=True)
    assert file.stat().st_size > len(whole)
    assert "left" not in {path.stem for path in names_in(file)}


@pytest.mark.parametrize("content", [b"mine", b"PK\5\6" + bytes(18)])
def test_another_file_is_not_replaced(run_folder: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(ConfigError, match="is no former bundle of editjudge"):
        write_bundle(run_folder / "run", tmp_path / "b.zip")
    assert (tmp_path / "b.zip").read_bytes() == content


def test_a_bundle_is_made_while_the_run_goes_on(run_folder: Path, tmp_path: Path) -> None:
    from editjudge.storage.store import RunStore

    with RunStore.open(run_folder / "run") as store:
        store.database.put_fact("late", "in the log, not in the file")
        write_bundle(run_folder / "run", tmp_path / "b.zip")
    run = unpack(tmp_path / "b.zip", tmp_path / "elsewhere")
    with RunStore.open(run, read_only=True) as copy:
        assert copy.database.fact("late") == "in the log, not in the file"
    assert not [*run.glob("run.sqlite-*")]
