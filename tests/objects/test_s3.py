"""Pictures in S3, by its own protocol: a server on loopback, commands in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from ..e2e.conftest import CommandResult, run
from ..small_data import save_picture, write_items

COUNT = 5
URL = "s3://pictures/set"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


class Bucket:
    """A bucket on loopback with a data set of ten folders' depth at most."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.variables = {**KEYS, "AWS_ENDPOINT_URL": url}
        self.client: Any = boto3.client(
            "s3", endpoint_url=url, aws_access_key_id="key", aws_secret_access_key="secret", region_name="us-east-1"
        )

    def put(self, file: Path, key: str) -> None:
        self.client.put_object(Bucket=self.name, Key=f"set/{key}", Body=file.read_bytes())

    def run(self, out: Path, *options: str, data: str = URL, **variables: str) -> CommandResult:
        return run(
            *("run", "core", "--data", f"{data}/items.jsonl", "--outputs", f"ours={data}/ours"),
            *("--dimension", "core.psnr.source.whole", "--json", "--out", out, *options),
            **{**self.variables, **variables},
        )


@contextmanager
def serve_bucket(name: str = "pictures") -> Iterator[Bucket]:
    """An empty bucket; servers of one process share what has the same name."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        made = Bucket(f"http://{host}:{port}", name)
        made.client.create_bucket(Bucket=name)
        yield made
    finally:
        server.stop()


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    with serve_bucket() as made:
        lines = ({"source": f"sources/{n}.png"} for n in range(COUNT))
        made.put(write_items(tmp_path, lines), "items.jsonl")
        for number in range(COUNT):
            picture = save_picture(tmp_path / f"{number}.png", (8, 8 + number))
            made.put(picture, f"sources/{number}.png")
            made.put(picture, f"ours/{number}.png")
        yield made


def test_data_sources_and_outputs_are_read_from_s3(bucket: Bucket, tmp_path: Path) -> None:
    done = bucket.run(tmp_path / "run")
    assert (done.code, done.err) == (0, "")
    event = done.out.splitlines()[-1]
    assert f'"judged": {COUNT}' in event
    # An object with another version is read again, and no other one.
    bucket.put(save_picture(tmp_path / "new.png", (9, 9)), "ours/3.png")
    again = bucket.run(tmp_path / "run")
    assert '"judged": 1' in again.out.splitlines()[-1], again.out


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (f"{URL}/none", f"{URL}/none/items.jsonl: no such object"),
        ("s3://nobody/set", "s3://nobody/set/items.jsonl: no such object"),
    ],
)
def test_what_is_not_there_is_one_line(bucket: Bucket, tmp_path: Path, data: str, told: str) -> None:
    done = bucket.run(tmp_path / "run", data=data)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert told in done.err


def test_no_permission_no_keys_and_no_server_are_one_line_each(bucket: Bucket, tmp_path: Path) -> None:
    policy = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*",'
        ' "Action": "s3:*", "Resource": ["arn:aws:s3:::pictures", "arn:aws:s3:::pictures/*"]}]}'
    )
    nobody = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": "/nothing"}
    nobody |= {"AWS_SHARED_CREDENTIALS_FILE": "/nothing", "AWS_EC2_METADATA_DISABLED": "true"}
    told = {
        "keys": bucket.run(tmp_path / "run", **nobody),
        "server": bucket.run(tmp_path / "run", AWS_ENDPOINT_URL="http://127.0.0.1:9"),
    }
    bucket.client.put_bucket_policy(Bucket="pictures", Policy=policy)
    told["permission"] = bucket.run(tmp_path / "run")
    for done in told.values():
        assert (done.code, len(done.err.splitlines())) == (2, 1), told
        assert done.err.startswith(f"error: {URL}/items.jsonl: "), told
    assert "no permission" in told["permission"].err
    assert "credentials" in told["keys"].err
