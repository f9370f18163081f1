import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from editjudge.base.errors import ImageError, MissingExtra
from editjudge.base.images import load_image
from editjudge.base.item import check_text
from editjudge.benchmarks.items import ItemsFile
from editjudge.cli.commands import load_commands
from editjudge_services.cli import COMMANDS
from editjudge_services.demo import EDITORS, draw_demo_set, edit_jpeg, write_demo_set
from editjudge_services.demo import edits as module
from editjudge_services.demo.files import is_demo

command = load_commands(COMMANDS)["demo"]


def test_the_set_is_varied(edits):
    kinds = Counter(edit.kind for edit in edits.values())
    assert len(edits) == 14
    assert set(kinds) == {"text", "recolour", "removal"}
    assert min(kinds.values()) >= 3
    texts = [edit.target_text for edit in edits.values() if edit.target_text]
    assert any(text.isascii() for text in texts)
    assert any("\u4e00" <= character <= "\u9fff" for text in texts for character in text)
    ratios = {edit.source.shape[1] / edit.source.shape[0] for edit in edits.values()}
    assert min(ratios) < 1.0 < 1.4 < max(ratios)


def test_every_edit_is_well_formed(edits):
    for edit in edits.values():
        shape = edit.source.shape
        assert (edit.source.dtype, edit.target.dtype, edit.mask.dtype) == ("u1", "u1", "?")
        assert edit.target.shape == shape == (*edit.mask.shape, 3)
        assert 256 <= min(shape[:2]) <= max(shape[:2]) <= 512
        assert not any(a.flags.writeable for a in (edit.source, edit.target, edit.mask))
        check_text("instruction", edit.instruction)
        assert edit.id.replace("-", "").isalnum()
        assert (edit.kind == "text") == (edit.target_text is not None)


def test_only_what_the_mask_shows_is_changed(edits):
    for edit in edits.values():
        changed = (edit.source != edit.target).any(axis=2)
        assert not (changed & ~edit.mask).any(), edit.id
        assert changed[edit.mask].mean() > 0.8, f"{edit.id}: the mask is far too wide"
        assert np.mean(~edit.mask) > 0.25, edit.id


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "new" / "set"


@pytest.fixture(scope="module")
def demo_set(folder):
    return write_demo_set(folder)


def test_what_is_written_reads_back(edits, folder, demo_set):
    assert list(demo_set.outputs) == list(EDITORS)
    data = ItemsFile(demo_set.data)
    items = [data.load(ref) for ref in data.items()]
    assert [item.id for item in items] == list(edits)
    for item in items:
        edit = edits[item.id]
        texts = item.task, item.instruction, item.target_text
        assert texts == (edit.kind, edit.instruction, edit.target_text)
        assert np.array_equal(item.sources[0].rgb, edit.source)
        assert np.array_equal(item.target.rgb, edit.target)
        assert np.array_equal(item.mask.region, edit.mask)
        assert item.mask.notes == ()
        for name, outputs in demo_set.outputs.items():
            output = load_image(outputs / f"{item.id}.jpg")
            assert np.array_equal(output.rgb, load_image(edit_jpeg(name, edit)).rgb)
    assert is_demo(folder / "items.jsonl")


def test_writing_again_gives_the_same_bytes(tmp_path, folder, demo_set):
    script = (
        "import sys, pathlib, editjudge_services.demo as d; d.write_demo_set(pathlib.Path(sys.argv[1]));"
        "heavy = {'skimage', 'matplotlib', 'matplotlib_fontja'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "a"], check=True)
    before = _contents(folder)
    assert _contents(tmp_path / "a") == before
    write_demo_set(folder)
    assert _contents(folder) == before


def test_editors_do_not_depend_on_each_other(edits):
    edit = edits["coins-without-largest"]
    alone = edit_jpeg("damaged", edit)
    for editor in EDITORS:
        edit_jpeg(editor, edits["coffee-card"])
    assert edit_jpeg("damaged", edit) == alone


def test_a_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[demo\]"):
        draw_demo_set()


def test_a_photograph_that_is_no_longer_shipped_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "package_folder", lambda _: tmp_path)
    with pytest.raises(ImageError, match=r"brick\.png"):
        draw_demo_set()


def _contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", ["set/items.jsonl", "results.json", "report.html"])
def test_a_demo_takes_the_place_of_nothing_else(tmp_path, name):
    (mine := tmp_path / name).parent.mkdir(exist_ok=True)
    mine.write_text('{"id": "mine"}')
    done = CliRunner().invoke(command, ["--out", str(tmp_path)])
    assert f"{name} exists and is no file of an earlier demo" in str(done.exception)
    assert [*tmp_path.rglob("*.*")] == [mine]
