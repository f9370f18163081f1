"""`up --front --judge`: one command, and what a team needs of it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..e2e.conftest import Command, command
from ..judge_service import png
from ..patience import wait_until

__all__ = ["command"]
pytestmark = pytest.mark.triton


@pytest.fixture
def up(command: Command, tmp_path: Path) -> Iterator[dict[str, Any]]:
    values = tmp_path / "values.yaml"
    values.write_text("tokens: {audience: studio, team_claim: studio.department}\n")
    ran = command(
        *("up", "--front", "--gateway", "--model", "quality_piqe", "--json"),
        *('--set=stack.gateway_args=["--edits=7"]', f"--set=stack.front_values={values}"),
    )
    assert ran.code == 0, ran.err
    yield ran.json
    command("down")


def score_edit(up: dict[str, Any], token: str) -> dict[str, Any]:
    """A verdict, as JSON through the door."""
    after, before = ({"data": base64.b64encode(png(seed)).decode()} for seed in (1, 0))
    edit = {"instruction": "x", "sources": [before], "edited": after}
    asked = urllib.request.Request(  # noqa: S310 - its scheme is https
        f"{up['front']['url'].replace('grpcs', 'https')}/v1/score",
        json.dumps({"edit": edit, "dimensions": ["core.quality.piqe"]}).encode(),
        {"authorization": f"Bearer {token}", "content-type": "application/json"},
    )
    context = ssl.create_default_context(cafile=up["front"]["ca"])
    with urllib.request.urlopen(asked, context=context, timeout=60) as reply:  # noqa: S310
        assert reply.headers["x-team"] == "vision"
        return dict(json.loads(reply.read()))


def test_one_command_serves_a_team_and_one_ends_it(command: Command, up: dict[str, Any], tmp_path: Path) -> None:
    made = command("front", "token", "--team", "vision")
    assert made.code == 0, made.err
    assert "vision is new" in made.err
    assert "is new" not in command("front", "token", "--team", "vision").err
    token = made.out.strip()

    def is_token_known() -> bool:
        try:
            return bool(score_edit(up, token)["verdicts"][0]["value"])
        except OSError:
            return False

    wait_until(is_token_known)
    first = score_edit(up, token)["verdicts"]
    assert "gateway  grpc://" in command("status").out

    os.kill(up["gateway"]["pid"], signal.SIGKILL)
    wait_until(lambda: command("status", "--json").json["gateway"]["pid"] != up["gateway"]["pid"])
    wait_until(is_token_known)
    assert score_edit(up, token)["verdicts"] == first

    client = tmp_path / "client"
    client.mkdir()
    shutil.copy(up["front"]["ca"], client / "ca.pem")
    (client / "editjudge.toml").write_text(made.err[made.err.index("[gateway") :])
    (client / "vision.token").write_text(token)
    config = client / "editjudge.toml"
    config.write_text(config.read_text().replace('"ca.pem"', f'"{client}/ca.pem"'))
    config.write_text(config.read_text().replace('"vision.token"', f'"{client}/vision.token"'))
    said = command("doctor", "--config", config)
    assert said.code == 0, said.err + said.out
    assert "vision" in said.out

    assert command("down").code == 0
    assert command("status").code == 1
    log = Path(up["gateway"]["log"]).read_text()
    assert "ending: no further requests are accepted" in log


def test_without_triton_there_is_nothing_to_judge_with(command: Command, tmp_path: Path) -> None:
    ran = command("up", "--gateway", "--set=stack.triton=false", "--generalist", tmp_path)
    assert ran.code == 2
    assert "the Judge service judges with Triton's models" in ran.err


def test_a_client_certificate_is_two_files(command: Command, tmp_path: Path) -> None:
    ran = command("front", "certificate", "--team", "vision", "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert f'cert_file = "{tmp_path}/vision.pem"' in ran.out
    assert (tmp_path / "vision.key").stat().st_mode & 0o077 == 0
    assert command("front", "certificate", "--team", "a b", "--out", tmp_path).code == 2


def test_without_a_front_door_here_the_keys_for_another_are_named(command: Command, tmp_path: Path) -> None:
    ran = command("front", "token", "--team", "vision")
    (keys,) = tmp_path.rglob("jwks.json")
    assert f"put {keys} there" in ran.err


def test_where_others_sign_no_token_is_made(command: Command, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("tokens: {keys: 'https://id.example.org/keys'}")
    ran = command("front", "token", "--team", "vision", "--values", values)
    assert ran.code == 2
    assert "https://id.example.org/keys" in ran.err
