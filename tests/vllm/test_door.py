"""What a team may ask of the real vLLM through the real front door."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from ..front.door import open_door
from ..judge_service import png
from .conftest import serving

DATA = f"data:image/png;base64,{base64.b64encode(png(0, 64)).decode()}"
TEXT = {"type": "text", "text": "Is it good?"}


def part(kind: str, url: str) -> dict[str, Any]:
    """A part of a message."""
    return {"type": kind, kind: {"url": url}}


async def test_vllm_fetches_nothing_and_runs_nothing_for_a_team(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    fetched: list[str] = []

    async def serve_picture(request: web.Request) -> web.Response:
        fetched.append(request.path)
        return web.Response(body=png(1, 64), content_type="image/png")

    app = web.Application()
    app.router.add_get("/{path:.*}", serve_picture)
    folders = {"whole": checkpoints["whole"]}
    with serving(folders, tmp_path, "--dtype=float32") as servers:
        server = servers["whole"]
        async with TestServer(app) as pictures:
            at = f"127.0.0.1:{pictures.port}"
            fetches: dict[str, list[dict[str, Any]]] = {
                "picture": [part("image_url", f"http://{at}/a.png")],
                "picture in capitals": [part("image_url", f"HTTP://{at}/b.png")],
                "name with a part of the domain": [part("image_url", f"http://none.invalid@{at}/c.png")],
                "film": [part("video_url", f"http://{at}/d.mp4")],
                "sound": [part("audio_url", f"http://{at}/e.wav")],
                "file": [part("image_url", "file:///etc/hostname")],
            }
            runs: dict[str, dict[str, Any]] = {
                "template": {"chat_template": "{{ messages }}"},
                "template among its values": {"chat_template_kwargs": {"chat_template": "{{ messages }}"}},
                "options of the processor": {"mm_processor_kwargs": {"max_pixels": 2**31}},
                "options of the reader": {"media_io_kwargs": {"image": {"mode": "L"}}},
                "replies without end": {"n": 9},
                "a place before all others": {"priority": -1},
            }
            server.wait_until_ready()
            judges = {"judge": {"addresses": [f"127.0.0.1:{server.port}"]}}
            async with open_door(tmp_path / "door", judges=judges) as door:
                bearer = dict(door.metadata("vision"))

                async def ask(parts: list[dict[str, Any]], **more: Any) -> tuple[int, str]:
                    message = {"role": "user", "content": [*parts, TEXT]}
                    body = {"messages": [message], "max_tokens": 1, **more}
                    path = "/judges/judge/v1/chat/completions"
                    status, _, text = await door.http(path, body, **bearer)
                    return status, text

                status, words = await ask([part("image_url", DATA)])
                assert status == 200, words
                for name, parts in fetches.items():
                    status, words = await ask(parts)
                    assert status in {400, 500}, f"{name}: {words}"
                for name, more in runs.items():
                    status, words = await ask([part("image_url", DATA)], **more)
                    assert status == 400, f"{name}: {words}"
    assert not fetched
