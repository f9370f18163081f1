"""A client in Node from the proto alone, through the real Envoy with TLS and a token."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.client import Client
from editjudge.base.config import Settings
from editjudge.base.item import Edit
from editjudge_services.runtime.triton_server import TritonServer

from ..judge_service import png
from .door import Door, open_judging_door

ROOT = Path(__file__).parents[2]
PACKAGES = ("@grpc/grpc-js@1.14.7", "@grpc/proto-loader@0.8.1")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with gRPC for Node."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("NOT RUN: there is no npm here, so no client in Node was tried")
    folder = tmp_path_factory.mktemp("node")
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
    subprocess.run(command, check=True, capture_output=True)
    return folder


async def ran(door: Door, modules: Path, token: str, folder: Path) -> Any:
    """What the client prints."""
    for name, seed in (("before.png", 0), ("after.png", 1)):
        (folder / name).write_bytes(png(seed))
    process = await asyncio.create_subprocess_exec(
        shutil.which("node") or "node",
        str(Path(__file__).with_name("client.mjs")),
        str(ROOT / "protos/editjudge/v1/judge.proto"),
        str(ROOT / "protos"),
        str(modules),
        door.target,
        str(door.authority.certificate),
        token,
        str(folder / "before.png"),
        str(folder / "after.png"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "GRPC_VERBOSITY": "ERROR"},
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(printed)


async def test_a_client_from_the_proto_alone_gets_our_numbers(
    triton: TritonServer, tmp_path: Path, modules: Path
) -> None:
    async with open_judging_door(triton, tmp_path) as (door, _):
        said = await ran(door, modules, door.token("vision"), tmp_path)
        stranger = await ran(door, modules, "", tmp_path)
    edit = Edit.load(source=png(0), edited=png(1), instruction="make it red")
    async with Client(Settings()) as client:
        ours = (await client.score(edit, ["core.psnr.*"])).outcomes
    outcomes = {o["dimension"]: o for o in said["score"]["reply"]["outcomes"]}
    assert outcomes.keys() == ours.keys()
    for name, outcome in ours.items():
        assert outcomes[name]["status"] == f"STATUS_{outcome.status.upper()}"
        assert outcomes[name].get("value") == getattr(outcome, "value", None)
    assert said["misspelt"]["code"] == "INVALID_ARGUMENT"
    assert "core.psnr" in said["misspelt"]["words"]
    assert {d["id"] for d in said["listed"]["reply"]["dimensions"]} == outcomes.keys()
    assert {s["role"] for s in said["panel"]["reply"]["services"]} == {"quality.piqe", "ocr.ppocr"}
    answers = said["stream"]["answers"]
    assert {(a.get("response") or a["refusal"])["request_id"] for a in answers} == {"b", "c"}
    (refused,) = [a["refusal"] for a in answers if a["result"] == "refusal"]
    assert (refused["request_id"], refused["field"]) == ("c", "edit.edited")
    codes = {stranger[each]["code"] for each in ("score", "listed", "panel", "stream")}
    assert codes == {"UNAUTHENTICATED"}
