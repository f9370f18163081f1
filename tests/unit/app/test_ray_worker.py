"""A worker of a run on Ray has one processor, and many of them share a machine."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any, cast

import pytest

from editjudge.app import ray_worker
from editjudge.base.threads import FairThreads


def test_a_worker_aligns_one_edit_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCV_FOR_THREADS_NUM", "1")
    threads, lock, at_once = FairThreads(8), Lock(), [0, 0]
    monkeypatch.setattr(ray_worker, "ALIGNERS", threads)
    ray_worker.Worker(cast(Any, None))

    def align() -> None:
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
        time.sleep(0.01)
        with lock:
            at_once[0] -= 1

    for future in [threads.submit(align) for _ in range(6)]:
        future.result()
    assert at_once == [0, 1]
