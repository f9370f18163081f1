"""An API server that has a few objects, for what a chart looks up when it is rendered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml

from .chart import NAMESPACE, RELEASE, Object

KINDS = {
    "v1": ("ConfigMap", "PersistentVolumeClaim", "Service", "ServiceAccount"),
    "apps/v1": ("Deployment", "StatefulSet"),
    "batch/v1": ("Job",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "policy/v1": ("PodDisruptionBudget",),
    "scheduling.k8s.io/v1": ("PriorityClass",),
}


_OWNED = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": NAMESPACE}


def _answers(things: Sequence[Object]) -> Mapping[str, Any]:
    """What it says, by path: its kinds, and the objects that it has."""
    groups = []
    answers: dict[str, Any] = {
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": groups},
    }
    for api, kinds in KINDS.items():
        group, _, version = api.rpartition("/")
        if group:
            only = {"groupVersion": api, "version": version}
            groups.append({"name": group, "versions": [only], "preferredVersion": only})
        root = f"/apis/{api}" if group else f"/api/{api}"
        plurals = {kind: _plural(kind.lower()) for kind in kinds}
        abouts = [
            {"name": name, "namespaced": kind != "PriorityClass", "kind": kind, "verbs": ["get"]}
            for kind, name in plurals.items()
        ]
        answers[root] = {"kind": "APIResourceList", "groupVersion": api, "resources": abouts}
        for one in (x for x in things if x["kind"] in kinds and "namespace" in x["metadata"]):
            about = one["metadata"]
            path = f"{root}/namespaces/{about['namespace']}/{plurals[one['kind']]}/{about['name']}"
            answers[path] = {**one, "metadata": {**about, "annotations": _OWNED}}
    return answers


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s".replace("ys", "ies")


@contextmanager
def cluster(folder: Path, things: Sequence[Object]) -> Iterator[dict[str, str]]:
    """Variables by which helm finds these objects, for the duration of a block."""
    answers = _answers(things)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
            body = json.dumps(found or {**status, "reason": "NotFound"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: pytest shows what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        file.chmod(0o600)
        yield {"KUBECONFIG": str(file), "HELM_CACHE_HOME": str(folder / "cache")}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
