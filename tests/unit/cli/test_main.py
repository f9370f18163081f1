"""What every command does with an error."""

from __future__ import annotations

import pytest

from editjudge.cli import main


@pytest.mark.parametrize("command", [["summary"], ["show"], ["prompts", "check"]])
def test_a_name_that_is_too_long_is_one_line(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name = "r" * 300
    with pytest.raises(SystemExit) as ended:
        main([*command, name, *(["1"] if command == ["show"] else [])])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: rrr")
    assert line.endswith("…: File name too long; give another path")
