"""The front door as a container runs it: mounted folders, and an end that is asked for."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from editjudge_services.runtime.process import fetch, reserve_ports

from ..patience import patience, wait_until

pytest.importorskip("envoy")


def mount_files(folder: Path, version: str, files: dict[str, bytes]) -> None:
    """Lay files as a cluster mounts a Secret: links into a folder behind a link."""
    (folder / version).mkdir(parents=True)
    for name, content in files.items():
        (folder / version / name).write_bytes(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    (folder / "..new").symlink_to(version)
    (folder / "..new").replace(folder / "..data")


def pair(authority: trustme.CA) -> dict[str, bytes]:
    issued = authority.issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return {"tls.crt": chain, "tls.key": issued.private_key_pem.bytes()}


Door = tuple["subprocess.Popen[str]", int, int]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    mount_files(tmp_path / "tls", "..1", pair(trustme.CA()))
    mount_files(tmp_path / "keys", "..1", {"jwks.json": b'{"keys": []}'})
    listen, metrics, admin = reserve_ports((0, 0, 0))
    values = {
        "listen": f"127.0.0.1:{listen}",
        "metrics": f"127.0.0.1:{metrics}",
        "admin_port": admin,
        "certificate": str(tmp_path / "tls" / "tls.crt"),
        "private_key": str(tmp_path / "tls" / "tls.key"),
        "tokens": {"keys": str(tmp_path / "keys" / "jwks.json")},
        "triton": {"small": {"addresses": ["127.0.0.1:1"]}},
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "editjudge", "front", "serve", str(file)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    try:
        wait_until(lambda: fetch(f"http://127.0.0.1:{metrics}/ready") or process.poll() is not None)
        yield process, listen, metrics
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_stands_until_it_is_asked_to_end(door: Door) -> None:
    process, _, metrics = door
    assert (fetch(f"http://127.0.0.1:{metrics}/ready") or b"").strip() == b"LIVE"
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=patience(20))
    assert process.returncode == 0, words
    assert fetch(f"http://127.0.0.1:{metrics}/ready") is None


def test_its_calls_are_lines_of_json_apart_from_its_words(door: Door) -> None:
    process, listen, _ = door
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", listen, context=trusting)
    with contextlib.closing(connection):
        connection.request("GET", "/nobody")
        assert connection.getresponse().status >= 400
    process.send_signal(signal.SIGTERM)
    calls, words = process.communicate(timeout=patience(20))
    assert [json.loads(line)["path"] for line in calls.splitlines()] == ["/nobody"]
    assert not [line for line in words.splitlines() if line.startswith("{")]


def test_a_certificate_that_is_renewed_behind_a_link_is_served(door: Door, tmp_path: Path) -> None:
    _, listen, _ = door
    before = ssl.get_server_certificate(("127.0.0.1", listen))
    mount_files(tmp_path / "tls", "..2", pair(trustme.CA()))
    for file in (tmp_path / "tls" / "..1").iterdir():
        file.unlink()
    wait_until(lambda: ssl.get_server_certificate(("127.0.0.1", listen)) != before)


def test_values_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("listn: 127.0.0.1:0\n")
    done = subprocess.run(
        [sys.executable, "-m", "editjudge", "front", "serve", str(file), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"{file}:" in done.stderr
