"""Rewards of a batch: our schema and each dialect, beside a reward server as one writes it.

`editjudge serve --reward` with a scripted judge that answers at once (`scripted_judge.py`), one
question an edit, on edits of 1024x1024 JPEG in groups of siblings; each way has its own process.
The other server is FastAPI with aiohttp (`contenders/rewards_with_fastapi.py`). Processor time is
the server's, memory its peak above what it had before the batch.

    python perf/reward.py [--edits 512] [--siblings 16] [--latency 0] [--fastapi PYTHON]
"""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import click
import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from scripted_judge import Script, record_of, serve_script

CONTENDER = Path(__file__).parent / "contenders" / "rewards_with_fastapi.py"
FILE = """
deadline = 600
[rewards.quality.parts]
"core.instruction_following" = {}
"""
Batch = tuple[list[bytes], list[bytes], list[str]]


def draw(edits: int, siblings: int, size: int = 1024) -> Batch:
    """Sources, edits and instructions: smooth pictures with noise, in JPEG of some 300 KB."""
    rng = np.random.default_rng(7)

    def jpeg() -> bytes:
        small = rng.integers(0, 256, (size // 32, size // 32, 3), np.uint8)
        picture = np.asarray(Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC))
        noisy = picture.astype(np.int16) + rng.integers(-6, 7, picture.shape)
        stream = io.BytesIO()
        Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(stream, "JPEG", quality=90)
        return stream.getvalue()

    own = [jpeg() for _ in range(-(-edits // siblings))]
    sources = [own[place // siblings] for place in range(edits)]
    return sources, [jpeg() for _ in range(edits)], [f"paint pot {i} red" for i in range(edits)]


def encode_picture(picture: bytes) -> str:
    """Base64."""
    return base64.b64encode(picture).decode()


def make_own(batch: Batch) -> tuple[str, bytes]:
    """Our schema, JSON."""
    rows = zip(*batch, strict=True)
    edits = [
        {"source": {"data": encode_picture(a)}, "edited": {"data": encode_picture(b)}, "instruction": words}
        for a, b, words in rows
    ]
    return "application/json", json.dumps({"edits": edits}).encode()


def make_parts(batch: Batch) -> tuple[str, bytes]:
    """Our schema, multipart: each source once."""
    sources, outputs, texts = batch
    names = {source: f"s{place}" for place, source in enumerate(dict.fromkeys(sources))}
    edits = [
        {"source": {"part": names[a]}, "edited": {"part": f"e{i}"}, "instruction": words}
        for i, (a, words) in enumerate(zip(sources, texts, strict=True))
    ]
    parts = {"request": json.dumps({"edits": edits}).encode()}
    parts |= {name: picture for picture, name in names.items()}
    parts |= {f"e{i}": picture for i, picture in enumerate(outputs)}
    head = '--cut\r\ncontent-disposition: attachment; name="{}"\r\n\r\n'
    body = b"".join(head.format(k).encode() + part + b"\r\n" for k, part in parts.items())
    return "multipart/mixed; boundary=cut", body + b"--cut--\r\n"


def make_unirl(batch: Batch) -> tuple[str, bytes]:
    """UniRL's."""
    requests = [
        {"history": [{"text": words, "image_b64": encode_picture(p)} for p in (a, b)]}
        for a, b, words in zip(*batch, strict=True)
    ]
    return "application/json", json.dumps({"requests": requests}).encode()


def make_flow(batch: Batch) -> tuple[str, bytes]:
    """Flow-Factory's, and the contender's; JPEG here, where the client sends PNG."""
    sources, outputs, texts = batch
    lists = {"condition_images": [[encode_picture(p)] for p in sources], "image": list(map(encode_picture, outputs))}
    return "application/json", json.dumps({"prompt": texts, **lists}).encode()


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[tuple[int, str]]:
    """A server that prints its address last in its first line; its process and address."""
    process = subprocess.Popen(command, cwd=folder, stdout=-1, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        yield process.pid, next(word for word in words if word.startswith("http"))
    finally:
        process.terminate()
        process.wait()


def read_usage(pid: int) -> tuple[float, float, float]:
    """Processor seconds, MiB now and at most."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = {line.split(":")[0]: line.split() for line in status}
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds, int(kib["VmRSS"][1]) / 1024, int(kib["VmHWM"][1]) / 1024


def post(url: str, kind: str, body: bytes) -> Any:
    """Send a batch; the JSON of the answer."""
    request = Request(url, body, {"content-type": kind})  # noqa: S310 - on loopback
    with urlopen(request, timeout=1200) as reply:  # noqa: S310
        return json.load(reply)


@click.command()
@click.option("--edits", default=512, show_default=True)
@click.option("--siblings", default=16, show_default=True)
@click.option("--latency", default=0.0, show_default=True, help="Seconds that the judge takes.")
@click.option("--in-flight", default=64, show_default=True, help="Calls at the judge at a time.")
@click.option("--fastapi", default="", help="A Python with fastapi, uvicorn and aiohttp.")
def main(edits: int, siblings: int, latency: float, in_flight: int, fastapi: str) -> None:
    """Print a row for each way."""
    batch = draw(edits, siblings)
    ways: dict[str, tuple[str, Callable[[Batch], tuple[str, bytes]]]] = {
        "our schema, JSON": ("/v1/rewards", make_own),
        "our schema, multipart": ("/v1/rewards", make_parts),
        "UniRL": ("/score", make_unirl),
        "Flow-Factory": ("/compute", make_flow),
        **({"FastAPI": ("/compute", make_flow)} if fastapi else {}),
    }
    heads = "way", "MB sent", "edits/s", "CPU ms an edit", "MiB above", "x request", "busy"
    table = Table(*heads, title=f"{edits} edits, {siblings} siblings, {latency} s a call")
    for name, (path, make) in ways.items():
        with tempfile.TemporaryDirectory() as folder, serve_script(Script(latency=latency)) as judge:
            Path(folder, "reward.toml").write_text(FILE)
            command = [sys.executable, "-m", "editjudge", "serve", "--judge", f"{judge}/v1"]
            command += ["--address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"]
            command += ["--set", f"concurrency={in_flight}", "--reward", "reward.toml"]
            command += ["--rate", "100000", "--notice", "0", "--drain", "1"]
            if name == "FastAPI":
                command = [fastapi, str(CONTENDER), judge, str(in_flight)]
            with serving(command, Path(folder)) as (pid, address):
                kind, body = make((batch[0][:1], batch[1][:1], ["paint pot 9999 red"]))
                post(address + path, kind, body)
                kind, body = make(batch)
                before, began = read_usage(pid), time.perf_counter()
                answer = post(address + path, kind, body)
                seconds, after = time.perf_counter() - began, read_usage(pid)
                results = answer.get("results") or answer["rewards"]
                assert len(results) == edits
                record = record_of(judge)
                busy = (record.beside + len(record.calls)) * latency / in_flight
                above = after[2] - before[1]
                row = len(body) / 1e6, edits / seconds, 1e3 * (after[0] - before[0]) / edits, above
                share = above * 1024**2 / len(body)
                numbers = [*(f"{x:.1f}" for x in row), f"{share:.2f}", f"{busy / seconds:.2f}"]
                table.add_row(name, *numbers)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
