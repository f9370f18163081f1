"""A server that speaks the part of the hub's HTTP API that a pull uses, and misbehaves."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

COMMIT = "c0ffee" + "0" * 34


@dataclass(frozen=True)
class HubRequest:
    method: str
    path: str
    range: str
    token: str


@dataclass
class ScriptedHub:
    """One repository.

    Attributes:
        lfs: Files that are stored out of line: the hub redirects to them and says their sha256.
        cuts: By file, after how many bytes each GET breaks off; the last one stays.
        lies: By file, what is sent in its place.
        refusals: By a pattern of paths, the status and headers to answer with.
    """

    files: dict[str, bytes]
    lfs: tuple[str, ...] = ("model.safetensors",)
    repo: str = "acme/tiny"
    commit: str = COMMIT
    cuts: dict[str, list[int]] = field(default_factory=dict)
    lies: dict[str, bytes] = field(default_factory=dict)
    refusals: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    asked: list[HubRequest] = field(default_factory=list)

    def gets(self, name: str) -> list[HubRequest]:
        """The downloads of one file."""
        paths = (f"/{self.repo}/resolve/{self.commit}/{name}", f"/cdn/{name}")
        return [one for one in self.asked if one.method == "GET" and one.path in paths]

    def sha256(self, name: str) -> str:
        return hashlib.sha256(self.files[name]).hexdigest()

    def oid(self, name: str) -> str:
        data = self.files[name]
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324

    def info(self) -> dict[str, Any]:
        siblings = [
            {"rfilename": name, "size": len(data), "blobId": self.oid(name), **self._lfs(name)}
            for name, data in self.files.items()
        ]
        return {"id": self.repo, "sha": self.commit, "siblings": siblings}

    def tree(self) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": name, "size": len(data), "oid": self.oid(name)}
            | self._lfs(name, oid=self.sha256(name))
            for name, data in self.files.items()
        ]

    def _lfs(self, name: str, **more: str) -> dict[str, Any]:
        """Where a file that is stored out of line is pointed to."""
        size = len(self.files[name])
        pointer = {"sha256": self.sha256(name), "size": size, "pointerSize": 130, **more}
        return {"lfs": pointer} if name in self.lfs else {}

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve on loopback; gives the address."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: ScriptedHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        hub = self.hub
        hub.asked.append(HubRequest(self.command, path, self.headers.get("Range", ""), token))
        for pattern, (status, headers) in hub.refusals.items():
            if re.search(pattern, path):
                return self._send(status, b"{}", headers)
        if re.fullmatch(f"/api/models/{hub.repo}/revision/(main|{hub.commit})", path):
            return self._send(200, json.dumps(hub.info()).encode())
        if path == f"/api/models/{hub.repo}/tree/{hub.commit}":
            return self._send(200, json.dumps(hub.tree()).encode())
        if found := re.fullmatch(f"/{hub.repo}/resolve/{hub.commit}/(.+)", path):
            return self._resolve(found[1])
        if found := re.fullmatch("/cdn/(.+)", path):
            return self._file(found[1], {})
        if path.startswith(f"/api/models/{hub.repo}/"):
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _resolve(self, name: str) -> None:
        hub = self.hub
        headers = {"X-Repo-Commit": hub.commit}
        if name not in hub.files:
            return self._send(404, b"", {**headers, "X-Error-Code": "EntryNotFound"})
        if name not in hub.lfs:
            return self._file(name, {**headers, "ETag": f'"{hub.oid(name)}"'})
        linked = {
            "X-Linked-ETag": f'"{hub.sha256(name)}"',
            "X-Linked-Size": str(len(hub.files[name])),
            "Location": f"http://localhost:{self.server.server_address[1]}/cdn/{name}",
        }
        return self._send(302, b"", {**headers, **linked})

    def _file(self, name: str, headers: dict[str, str]) -> None:
        data = self.hub.lies.get(name, self.hub.files[name])
        start = 0
        if found := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(found[1])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cuts = self.hub.cuts.get(name, []) if self.command == "GET" else []
        cut = (cuts.pop(0) if len(cuts) > 1 else cuts[0]) if cuts else None
        self._send(206 if start else 200, data[start:], headers, cut)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[:cut])
        if cut is not None and cut < len(body):
            self.wfile.flush()
            self.close_connection = True
