"""The worked example of docs/howto/capacity.md: what the code says, and arithmetic that is right."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from editjudge.cli import main

from ...small_data import save_picture, write_items

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "capacity.md").read_text()
SUMS = re.findall(
    r"^[^:\n]+: ([\d,.]+(?: [×÷] [\d,.]+)+) = ([\d,.]+)$",
    "\n".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)),
    re.MULTILINE,
)
EDITS = 20


def test_the_estimate_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_picture(tmp_path / "s.png", (1024, 1024))
    for index in range(EDITS):
        save_picture(tmp_path / "out" / "ours" / f"{index}.png", (1024, 1024))
    write_items(tmp_path, [{"instruction": "make the cup on the table red"}] * EDITS)
    (shown,) = re.findall(r"```console\n\$ editjudge (.*?[^\\])\n(.*?)```", PAGE, re.DOTALL)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(shown[0].replace("\\\n", " ")))
    assert ended.value.code == 0
    assert capsys.readouterr().out.splitlines() == shown[1].splitlines()


@pytest.mark.parametrize(("terms", "result"), SUMS)
def test_the_arithmetic_is_right(terms: str, result: str) -> None:
    first, *steps = re.split(r" (?=[×÷])", terms.replace(",", ""))
    value = float(first)
    for step in steps:
        factor = float(step[2:])
        value = value * factor if step[0] == "×" else value / factor
    digits = len(result.partition(".")[2])
    assert float(result.replace(",", "")) == pytest.approx(value, abs=0.5 * 10**-digits + 1e-9)


def test_numbers_are_taken_on_from_line_to_line() -> None:
    """A number of the example stands once in a command's output or behind an = sign."""
    assert len(SUMS) >= 10
    (tokens,) = re.findall(r"judge 9 calls, ([\d,]+) prompt tokens", PAGE)
    results = {result for _, result in SUMS}
    assert any(tokens in terms for terms, _ in SUMS)
    for number in ("3,043", "22,100", "8,177"):
        assert number in results
        assert any(number in terms for terms, _ in SUMS)
