"""A full disk, as each library that writes weights tells it: errno, a text, or nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from editjudge.cli import plugin_commands
from editjudge_services.zoo.artefact import load_artefact, models_dir
from editjudge_services.zoo.checkpoint import load_checkpoint

from ..small_disk import fill_disk, mount_disk

command = plugin_commands()["models"]


def invoke(*arguments: str) -> tuple[int, list[str]]:
    """The exit code and the lines on stderr, without the bars that libraries show where they take long."""
    done = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    assert done.exception is None, done.exception
    lines = [line for line in done.stderr.splitlines() if line and not line.endswith(("it/s]", "s/it]"))]
    return done.return_value, lines


# ONNX; a state of torch; safetensors with the tokens of tokenizers.
@pytest.mark.parametrize("name", ["dinov2-small", "lpips-alex", "got-ocr2"])
def test_a_full_disk_is_named_and_what_is_half_written_does_not_count(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: str) -> None:
        for free in (0, 8 << 10, 40 << 10):
            filler = fill_disk(disk, free)
            code, lines = invoke(*arguments)
            assert (code, len(lines)) == (1, 1), lines
            assert lines[0].startswith(f"error: the disk is full: {disk / name}; free some space there")
            assert not list(models_dir().glob("*/*.partial"))
            filler.unlink()

    with mount_disk(tmp_path / "disk", 32) as disk:
        monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(disk))
        refuse("pull", "--untrained", name)
        assert load_checkpoint(name) is None
        assert invoke("pull", "--untrained", name)[0] == 0
        refuse("export", name)
        assert load_artefact(name, "fp32") is None
        assert invoke("export", name)[0] == 0
        artefact = load_artefact(name, "fp32")
        refuse("export", name)
        assert load_artefact(name, "fp32") == artefact
        assert invoke("verify", name) == (0, [])
        refuse("pull", "--untrained", name)
        assert invoke("verify", name) == (0, [])
