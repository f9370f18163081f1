"""Whatever the chart has Prometheus ask of servers is in a scrape of the real ones."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from editjudge.base.probes import probe_inputs
from editjudge.panel import Panel
from editjudge_services.gateway import accounting
from editjudge_services.runtime.process import fetch
from editjudge_services.runtime.triton_server import TritonServer

from ..judge_service import serve_with_judge
from ..k8s.queries import exporter, list_absent, list_records, queries, selectors

pytestmark = pytest.mark.triton


def test_every_name_is_somebody_s() -> None:
    names = {one.name for query in queries() for one in selectors(query.text)}
    assert {exporter(name) for name in names - list_records().keys() - {"up"}} == {"front", "judge", "triton", "vllm"}


async def test_triton_has_what_it_is_asked(panel: Panel, triton: TritonServer) -> None:
    await panel.call("quality.piqe", probe_inputs("quality"))
    scraped = fetch(triton.metrics_url)
    assert scraped is not None
    assert not list_absent("triton", scraped.decode())


async def test_the_judge_service_has_what_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.1)
    async with serve_with_judge(tmp_path, edits=1) as (_, service):
        await service.score("vision")
        async with service.service.edits.acquire("audio", 1):
            with pytest.raises(grpc.aio.AioRpcError):
                await service.score("vision", 2)
        scraped = await service.metrics()
    assert not list_absent("judge", scraped)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("nv_inference_request_failure", "nv_inference_failures"), "is not there"),
        (('reason="REJECTED"', 'reason="FULL"'), 'nothing fits reason="REJECTED"'),
        (("outcome=", "result="), "has no label outcome"),
        (("model=", "name="), "no label model"),
    ],
)
async def test_a_name_that_is_no_more_is_told(
    panel: Panel, triton: TritonServer, change: tuple[str, str], told: str
) -> None:
    scraped = fetch(triton.metrics_url)
    assert scraped is not None
    assert any(told in wrong for wrong in list_absent("triton", scraped.decode().replace(*change)))
