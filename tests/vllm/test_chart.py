"""The chart's commands for vLLM, read by vLLM's own parsers."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from editjudge.app.doctor import check_services
from editjudge.base.config import Settings
from editjudge.base.identity import ServiceName

from ..k8s.chart import PARTS, TOOLS, Object, render, render_file
from ..k8s.rules import containers, workloads
from .conftest import PYTHON, Pair

pytestmark = pytest.mark.skipif(not (TOOLS / "bin" / "helm").is_file(), reason="no helm: make k8s brings it")
_WANTED = """
wanted = (
    "model", "served_model_name", "port", "limit_mm_per_prompt", "tensor_parallel_size",
    "scheduling_policy", "mm_processor_cache_gb", "logprobs_mode", "enable_prefix_caching",
    "allowed_media_domains",
)
import json, sys
for line in sys.stdin:
    told = vars(parser.parse_args(json.loads(line)))
    print(json.dumps({name: told[name] for name in wanted}))
"""
_HTTP = """
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
"""
# As vllm.entrypoints.launchers.grpc_server makes it.
_GRPC = """
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
parser.add_argument("--host")
parser.add_argument("--port", type=int)
AsyncEngineArgs.add_cli_args(parser)
"""


def read(parser: str, things: list[Object]) -> dict[str, Any]:
    """What a parser makes of the chart's arguments, by the name of the model."""
    commands = [
        each["args"] for _, template in workloads(things) for each in containers(template) if each["name"] == "vllm"
    ]
    done = subprocess.run(
        [PYTHON, "-c", parser + _WANTED],
        input="".join(json.dumps(command) + "\n" for command in commands),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each["served_model_name"][0]: each for each in told}


def test_vllm_takes_the_arguments_of_the_chart() -> None:
    things = render_file("production")
    told = read(_HTTP, things)
    assert told.keys() == {"artimuse", "judge", "q-insight"}
    assert told["judge"]["tensor_parallel_size"] == 2
    assert told["judge"]["limit_mm_per_prompt"] == {"image": 6}
    assert told["judge"]["logprobs_mode"] == "raw_logprobs"
    assert told["q-insight"]["model"] == "/weights/q-insight/checkpoint/score_degradation"
    for each in told.values():
        assert each["port"] == 8000
        assert each["scheduling_policy"] == "priority"
        assert each["mm_processor_cache_gb"] == 4
        assert each["enable_prefix_caching"]
        assert each["allowed_media_domains"] == ["none.invalid"]


def test_vllm_takes_those_of_its_own_protocol() -> None:
    server = {**PARTS["server"], "gpus": 0, "protocol": "grpc"}
    things = render(values={"vllm.servers.own": server, "judge.vllm": "own", "front.kind": "none"})
    (own,) = read(_GRPC, things).values()
    assert own["scheduling_policy"] == "priority"
    assert own["logprobs_mode"] == "processed_logprobs"
    assert own["port"] == 8000


async def test_doctor_finds_the_folder_that_the_panel_expects(pair: Pair) -> None:
    settings = Settings(judges={"judge": pair.endpoint("http")})
    judge = ServiceName.judge("judge")
    # The name of the checkpoint says that its weights are random.
    served = {"name": pair.folder.name, "root": str(pair.folder), "untrained": "yes"}
    (finding,) = await check_services(settings, {judge: served})
    assert not finding.problem
    (finding,) = await check_services(settings, {judge: {**served, "root": "/weights/another"}})
    assert f"root /weights/another is expected, and {pair.folder} is served" in finding.problem
