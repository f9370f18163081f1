"""Whatever the chart asks of vLLM is in a scrape of the real one, which Prometheus reads."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest

from ..k8s.prometheus import Target, find_absence, has_answer, prometheus
from ..k8s.queries import OURS, data, fill_query, find_tiers, list_absent, queries
from ..patience import patience
from .conftest import Pair
from .test_transports import YES_NO, question


def metrics(pair: Pair) -> str:
    return pair.servers["http"].url.removesuffix("/v1") + "/metrics"


@pytest.mark.parametrize("pair", ["whole"], indirect=True)
async def test_vllm_has_what_it_is_asked(pair: Pair) -> None:
    async with pair.transport("http") as http:
        await http.choose(question(), YES_NO)
    with urllib.request.urlopen(metrics(pair)) as reply:  # noqa: S310
        assert not list_absent("vllm", reply.read().decode())


@pytest.mark.skipif(bool(find_absence()), reason=find_absence())
@pytest.mark.parametrize("pair", ["whole"], indirect=True)
async def test_a_real_prometheus_answers_of_it(pair: Pair, tmp_path: Path) -> None:
    left = [
        fill_query(query.text, job="vllm-judge")
        for query in queries()
        if not query.condition and find_tiers(query.text) == {"vllm"}
    ]
    assert left
    recorded = [
        {"record": rule["record"], "expr": fill_query(rule["expr"]), "labels": OURS}
        for rule in data("rules")["groups"]["vllm"]["recorded"]
    ]
    rules = {"groups": [{"name": "vllm", "rules": recorded}]}
    targets = [Target("vllm-judge", metrics(pair))]
    async with pair.transport("http") as http:
        with prometheus(tmp_path, targets, rules) as server:
            end = asyncio.get_running_loop().time() + patience(60)
            for seed in range(10_000):
                await http.choose(question(seed), YES_NO)
                left = [query for query in left if not has_answer(server, query)]
                if not left or asyncio.get_running_loop().time() > end:
                    break
    assert not left
