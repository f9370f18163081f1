"""Pages as files and folders: whole or not at all, and over nothing but themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import ConfigError, InputError
from editjudge.base.verdict import Score
from editjudge.engine.content_keys import JudgedEdit
from editjudge.report import site
from editjudge.report.site import write_report
from editjudge.storage.edit_rows import EditRow
from editjudge.storage.schema import decode_text
from editjudge.storage.store import RunStore

from ...report_runs import DIMENSIONS


def blocks(page: Path) -> dict[str, str]:
    """What a page holds, by id."""
    each = re.findall(r'<script id="([^"]+)" type="[^"]+">(.*?)</script>', page.read_text())
    return dict(each)


def report_of(page: Path) -> Any:
    return json.loads(blocks(page)["data-report"])


def chunk(file: Path) -> tuple[str, Any]:
    """What a chunk of a folder hands over: its name and its JSON."""
    text = file.read_text().removeprefix("editjudge.put(").removesuffix(");\n")
    name, _, rest = text.partition(",")
    return json.loads(name), json.loads(rest)


def test_one_file_holds_all(run: Path, tmp_path: Path) -> None:
    done = write_report([run], tmp_path / "deep" / "page.html")
    held = blocks(done.page)
    report, edits = json.loads(held["data-report"]), json.loads(held["data-edits"])
    assert (done.edits, report["mode"], report["chunks"]) == (12, "file", 1)
    assert json.loads(held["data-detail-0"])["edits"].keys() == {str(n) for n in range(12)}
    for name in edits["picture"][:-1] + edits["items"]["mask"]:
        assert held[f"picture-{name}"].startswith("data:image/webp;base64,")
    assert [path.name for path in done.page.parent.iterdir()] == ["page.html"]


def test_a_folder_is_loaded_piece_by_piece(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editjudge.report.edits.CHUNK", 5)
    done = write_report([run], tmp_path / "page")
    held = blocks(done.page)
    report, edits = json.loads(held["data-report"]), json.loads(held["data-edits"])
    assert held.keys() == {"data-report", "data-edits"}
    data = done.page.parent / report["data"]
    pieces = dict(chunk(data / f"detail-{number}.js") for number in range(3))
    assert [len(pieces[f"detail-{number}"]["edits"]) for number in range(3)] == [5, 5, 2]
    for name in edits["picture"][:-1]:
        assert (done.page.parent / "pictures" / f"{name}.webp").read_bytes()[8:12] == b"WEBP"


def test_a_page_of_ours_is_replaced_and_its_pictures_stay(run: Path, tmp_path: Path) -> None:
    counts: list[int] = []

    def count_edits(made: Iterable[str | None], total: int) -> Iterator[str | None]:
        counts.append(total)
        return iter(made)

    first = write_report([run], tmp_path / "page", progress=count_edits)
    again = write_report([run], tmp_path / "page", progress=count_edits)
    assert counts == [counts[0], 0], "thumbnails that are there are not made again"
    assert first.page == again.page
    assert len(list((tmp_path / "page" / "data").iterdir())) == 1, "no details of the old page"
    file = tmp_path / "page.html"
    write_report([run], file)
    write_report([run], file)


def test_what_was_interrupted_goes_on(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "page"
    write_report([run], out)
    before = (out / "index.html").read_bytes()

    def interrupt(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(site, "render_page", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_report([run], out)
    assert (out / "index.html").read_bytes() == before
    assert (out / report_of(out / "index.html")["data"] / "detail-0.js").is_file(), "the old page still has its details"
    (out / "index.html").unlink()
    write_report([run], out)


def test_nothing_else_is_written_over(run: Path, tmp_path: Path) -> None:
    file, folder = tmp_path / "notes.html", tmp_path / "notes"
    file.write_text("<!doctype html>mine")
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    for out in (file, folder):
        with pytest.raises(ConfigError, match="no page of editjudge report.*give another --out"):
            write_report([run], out)
    assert (folder / "mine.txt").read_text() == "mine"


def test_what_others_put_below_data_stays(run: Path, tmp_path: Path) -> None:
    data = tmp_path / "project" / "data"
    write_report([run], tmp_path / "project")
    held = [data / name for name in ("train/a.png", "0123456789abcdef/mine.txt", ".partial/b")]
    for file in held:
        file.parent.mkdir(parents=True)
        file.write_text("mine")
    older = data / "editjudge-fedcba9876543210"
    older.mkdir()
    (older / "detail-0.js").write_text("editjudge.put()")
    for _ in range(2):
        write_report([run], tmp_path / "project")
        assert [file.read_text() for file in held] == ["mine"] * 3
        assert not older.exists()
    ours = {folder.name for folder in data.iterdir()} - {file.parent.name for file in held}
    assert len(ours) == 1, "the details of the page"


def test_the_page_says_what_is_pending(small: Any, tmp_path: Path) -> None:
    run, page = small(3), tmp_path / "page.html"
    for told in ([], ["1 edit is pending"]):
        write_report([run], page)
        assert [line[:17] for line in report_of(page)["warnings"] if "pending" in line] == told
        with RunStore.open(run) as store:
            signatures, verdicts = {DIMENSIONS[0]: "another"}, {DIMENSIONS[0]: Score(value=2.0)}
            store.save_edit_now(JudgedEdit("item 1", "m"), verdicts, signatures)


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("file", "is a file; give a folder"),
        ("folder.html", "exists and is no page of editjudge report"),
        ("file/page.html", "Not a directory|File exists"),
    ],
)
def test_what_cannot_be_written_is_told(run: Path, tmp_path: Path, out: str, told: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ConfigError, match=told):
        write_report([run], tmp_path / out)


def test_a_run_is_never_written_into(run: Path) -> None:
    with pytest.raises(ConfigError, match="is a run"):
        write_report([run], run)


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run|there is no run|no run"):
        write_report([tmp_path], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_data_that_is_gone_is_told(small: Any, tmp_path: Path) -> None:
    run = small()
    (tmp_path / "items.jsonl").unlink()
    with pytest.raises(InputError, match=r"items\.jsonl"):
        write_report([run], tmp_path / "page.html")


def test_many_edits_need_a_folder(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MAX_EDITS_IN_FILE", 11)
    done = write_report([run], tmp_path / "page.html", pictures=False)
    assert done.edits == 12, "the edit without an output is on the page and does not count"
    monkeypatch.setattr(site, "MAX_EDITS_IN_FILE", 10)
    with pytest.raises(ConfigError, match=r"11 edits with an output are too many.*--out .*page$"):
        write_report([run], tmp_path / "page.html")


def test_a_folder_lists_one_item_of_so_many(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of its edits; the tables stay those of all. Of others no evidence is read."""
    whole = write_report([run], tmp_path / "whole", pictures=False)
    monkeypatch.setattr(site, "MAX_EDITS", 6)
    detailed_items, decode = set[str](), RunStore.verdicts_in

    def verdicts_in(store: RunStore, row: EditRow, *, evidence: bool) -> Any:
        detailed_items.update([decode_text(row.item)] if evidence else [])
        return decode(store, row, evidence=evidence)

    monkeypatch.setattr(RunStore, "verdicts_in", verdicts_in)
    part = write_report([run], tmp_path / "part", pictures=False)
    assert 0 < part.edits < whole.edits == 12
    before, after = report_of(whole.page), report_of(part.page)
    assert after["tables"] == before["tables"]
    line = f"one item in 2 is listed ({part.edits} edits); tables count all"
    assert (line in after["warnings"], line in before["warnings"]) == (True, False)
    assert (after["is_part"], before["is_part"]) == (True, False)
    edits = [json.loads(blocks(each.page)["data-edits"]) for each in (whole, part)]
    of_item = [{name: index["item"].count(n) for n, name in enumerate(index["items"]["id"])} for index in edits]
    assert of_item[1].items() <= of_item[0].items()
    assert detailed_items == of_item[1].keys()


def test_pictures_that_cannot_be_read_are_told(small: Any, tmp_path: Path) -> None:
    run = small(2)
    (tmp_path / "outputs/m/item 0.png").write_bytes(b"no picture")
    (tmp_path / "mask.png").unlink()
    done = write_report([run], tmp_path / "page.html")
    (why,) = done.picture_problems
    assert "item 0.png: not an image" in why
    warnings = report_of(done.page)["warnings"]
    assert any("1 picture cannot be shown" in line for line in warnings)
    assert json.loads(blocks(done.page)["data-edits"])["items"]["mask"] == [None, None]


def test_pictures_can_be_left_out(run: Path, tmp_path: Path) -> None:
    done = write_report([run], tmp_path / "page.html", pictures=False)
    assert not any(name.startswith("picture-") for name in blocks(done.page))
