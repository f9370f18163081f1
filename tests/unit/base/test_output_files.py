from __future__ import annotations

import errno
from pathlib import Path

import pytest

from editjudge.base import output_files
from editjudge.base.errors import ConfigError, EditjudgeError, StoreError


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    output_files.write_file(file, b"before")
    with pytest.raises(EOFError):
        half_written(file)
    assert file.read_bytes() == b"before"
    assert [*file.parent.iterdir()] == [file]


def half_written(file: Path) -> None:
    with output_files.write_atomically(file) as partial:
        partial.write_bytes(b"half")
        raise EOFError


@pytest.mark.parametrize(
    ("names", "kind"), [("ENOENT EISDIR ENOTDIR EACCES EEXIST", ConfigError), ("ENOSPC EIO", StoreError)]
)
def test_what_the_disk_refuses_is_one_line(names: str, kind: type[EditjudgeError]) -> None:
    for name in names.split():
        with pytest.raises(kind, match="^out: .*give another --out$"):
            with output_files.wrap_disk_errors(Path("out")):
                raise OSError(getattr(errno, name), "no")


@pytest.mark.parametrize("name", ["new", "blank", "ours"])
def test_what_is_free(tmp_path: Path, name: str) -> None:
    output_files.check_overwrite(there(tmp_path) / name, is_ours, "table")


@pytest.mark.parametrize("name", ["mine", "folder"])
def test_what_is_there_and_not_ours_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is no table; give another --out, or move it away"):
        output_files.check_overwrite(there(tmp_path) / name, is_ours, "table")


def there(folder: Path) -> Path:
    for name in ("blank", "ours", "mine"):
        (folder / name).write_text(name.removeprefix("blank"))
    (folder / "folder").mkdir()
    return folder


def is_ours(file: Path) -> bool:
    return file.read_text() == "ours"
