"""The real Prometheus and promtool, where `make k8s` could bring them."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from editjudge_services.runtime.process import fetch, reserve_ports

from ..patience import patience
from .chart import TOOLS, run_tool
from .queries import OURS


def program(name: str) -> str | None:
    """Where `prometheus` or `promtool` is."""
    own = TOOLS / "bin" / name
    return str(own) if own.is_file() else shutil.which(name)


def find_absence() -> str:
    """What is not there, and the fix; nothing where all is."""
    absent = [name for name in ("promtool", "prometheus") if program(name) is None]
    if not absent:
        return ""
    return (
        f"no {' and no '.join(absent)}: no alert was tried. apt-get install prometheus, or"
        " apt-get update, and make k8s after rm .venv-k8s/.k8s"
    )


def promtool(*arguments: str | Path) -> str:
    """What promtool says where it finds nothing wrong.

    Raises:
        AssertionError: it does; with its words.
    """
    tool = program("promtool")
    assert tool is not None
    done = run_tool(tool, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Target(NamedTuple):
    """What is scraped: the job and pod that it is called, and the address of its metrics."""

    job: str
    url: str

    @property
    def config(self) -> dict[str, Any]:
        """Its part of the settings, with the labels that our ServiceMonitors give."""
        parts = urllib.parse.urlsplit(self.url)
        labels = {**OURS, "pod": f"{self.job}-0"}
        return {
            "job_name": self.job,
            "metrics_path": parts.path,
            "static_configs": [{"targets": [parts.netloc], "labels": labels}],
        }


class Prometheus:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API.

        Raises:
            AssertionError: it refuses, with its words.
        """
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=patience(30)) as reply:  # noqa: S310
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error


def has_answer(server: Prometheus, query: str) -> bool:
    """Whether a query is answered with a number, now."""
    found = server.get("query", query=query)["result"]
    return any(not math.isnan(float(one["value"][1])) for one in found)


@contextmanager
def prometheus(folder: Path, targets: Sequence[Target], rules: Mapping[str, Any]) -> Iterator[Prometheus]:
    """The real one, asking its targets each second."""
    (port,) = reserve_ports((0,))
    (folder / "rules.yml").write_text(yaml.safe_dump(dict(rules)))
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    jobs = [target.config for target in targets]
    settings = {"global": often, "rule_files": ["rules.yml"], "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    command = [
        str(program("prometheus")),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + patience(30)
        while fetch(f"{url}/-/ready") is None:
            told = (folder / "prometheus.log").read_text()
            assert process.poll() is None, told
            assert time.monotonic() < end, told
            time.sleep(0.1)
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(patience(30))
