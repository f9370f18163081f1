"""EditScore's own client, which sends pickles, gets no number from a service that reads none."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ..contract.test_rewards import PIXELS, file
from ..judge_service import png, serve


def load_client(web: str) -> Any:
    """The client of the wheel, by its path: its folder is no name of a package."""
    try:
        files = importlib.metadata.files("editscore") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs editscore: make test-machines")
    (path,) = (each.locate() for each in files if each.name == "reward_client_edit.py")
    spec = importlib.util.spec_from_file_location("reward_client_edit", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    host, port = web.removeprefix("http://").split(":")
    return module.RewardClient(host, int(port), max_retries=1)


async def test_a_pickle_is_refused_and_is_no_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serve(reward=file(tmp_path, PIXELS)) as served:
        client = load_client(served.web)
        assert await asyncio.to_thread(client.ping) is False
        batch = [png(0)], [png(1)], ['{"instruction": "make it red"}']
        assert await asyncio.to_thread(client.evaluate, *batch) is None
    assert "HTTP error: 415" in caplog.text
