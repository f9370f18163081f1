"""A server that speaks the part of vLLM's HTTP API that specialists use."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Any]


def choice(text: str, finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"message": {"content": text}, "finish_reason": finish, **more}


class ScriptedVllm:
    """Answers each chat completion with the next of `script`; the last one stays.

    An answer is a choice, a list of choices, an HTTP status, or a function of the request.
    Every reply has the `headers` too.
    """

    def __init__(
        self,
        *script: Any,
        model: str = "judge",
        answers_as: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.script = list(script)
        self.model = model
        self.answers_as = answers_as or model
        self.headers = dict(headers or {})
        self.requests: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def tokens(self, text: str) -> list[int]:
        """A tokenizer that knows pairs of letters: one token each, the same at every call."""
        return [1000 + 26 * ord(a) + ord(b) for a, b in zip(text[::2], text[1::2], strict=True)]

    def answer(self, request: dict[str, Any]) -> Any:
        with self._lock:
            self.requests.append(request)
            answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return answer(request) if callable(answer) else answer

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve on loopback; gives the base address, ending in /v1."""
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._send(200, {"data": [{"id": scripted.model}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/tokenize":
                    self._send(200, {"tokens": scripted.tokens(body["prompt"])})
                    return
                answer = scripted.answer(body)
                if isinstance(answer, int):
                    self._send(answer, {"error": {"message": "scripted"}})
                    return
                choices = answer if isinstance(answer, list) else [answer]
                self._send(200, {"model": scripted.answers_as, "choices": choices})

            def _send(self, status: int, data: Any) -> None:
                payload = json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(payload)))
                for name, value in scripted.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
