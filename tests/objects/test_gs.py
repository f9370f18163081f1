"""Pictures in Google's store, by its own protocol: a server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from gcp_storage_emulator.server import create_server

from ..e2e.conftest import CommandResult, run
from ..small_data import save_picture, write_items

COUNT = 3
URL = "gs://pictures/set"


@pytest.fixture
def store() -> Iterator[str]:
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="pictures")
    server.start()
    try:
        yield "http://{}:{}".format(*server._api._httpd.server_address)
    finally:
        server.stop()


def test_data_sources_and_outputs_are_read_from_google(store: str, tmp_path: Path) -> None:
    def put(file: Path, key: str) -> None:
        query = {"uploadType": "media", "name": f"set/{key}"}
        url = f"{store}/upload/storage/v1/b/pictures/o"
        requests.post(url, params=query, data=file.read_bytes(), timeout=60).raise_for_status()

    put(write_items(tmp_path, ({"source": f"sources/{n}.png"} for n in range(COUNT))), "items.jsonl")
    for number in range(COUNT):
        picture = save_picture(tmp_path / f"{number}.png", (8, 8 + number))
        put(picture, f"sources/{number}.png")
        put(picture, f"ours/{number}.png")

    def judge(data: str = URL) -> CommandResult:
        return run(
            *("run", "core", "--data", f"{data}/items.jsonl", "--outputs", f"ours={data}/ours"),
            *("--dimension", "core.psnr.source.whole", "--json", "--out", tmp_path / "run"),
            STORAGE_EMULATOR_HOST=store,
            NO_GCE_CHECK="true",
            # The server speaks HTTP alone; without this gcsfs asks over gRPC for a bucket's layout, for a minute.
            GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT="false",
        )

    done = judge()
    assert (done.code, done.err) == (0, "")
    assert f'"judged": {COUNT}' in done.out.splitlines()[-1]
    put(save_picture(tmp_path / "new.png", (9, 9)), "ours/1.png")
    again = judge()
    assert '"judged": 1' in again.out.splitlines()[-1], again.out
    absent = judge(f"{URL}/none")
    assert (absent.code, len(absent.err.splitlines())) == (2, 1), absent.err
    assert f"{URL}/none/items.jsonl: no such object" in absent.err
