"""The chart's command for vLLM, read by vLLM's own parser."""

from __future__ import annotations

import json
import subprocess

import pytest

from ..k8s.chart import TOOLS, rendered
from ..k8s.rules import containers, workloads
from ..k8s.test_chart import REVISION
from .conftest import PYTHON

_PARSER = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
wanted = ("model", "served_model_name", "port", "limit_mm_per_prompt", "tensor_parallel_size")
for line in sys.stdin:
    told = vars(parser.parse_args(json.loads(line)))
    print(json.dumps({name: told[name] for name in wanted}))
"""


@pytest.mark.skipif(not (TOOLS / "bin" / "helm").is_file(), reason="no helm: make k8s brings it")
def test_vllm_takes_the_arguments_of_the_chart() -> None:
    things = rendered("production", values={"vllm.servers.judge.source.revision": REVISION})
    commands = [
        each["args"]
        for _, template in workloads(things)
        for each in containers(template)
        if each["name"] == "vllm"
    ]
    done = subprocess.run(
        [PYTHON, "-c", _PARSER],
        input="".join(json.dumps(command) + "\n" for command in commands),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    read = {each["served_model_name"][0]: each for each in told}
    assert read.keys() == {"artimuse", "judge", "q-insight"}
    assert read["judge"]["tensor_parallel_size"] == 2
    assert read["judge"]["limit_mm_per_prompt"] == {"image": 6}
    assert read["q-insight"]["model"] == "/weights/q-insight/checkpoint/score_degradation"
    assert {each["port"] for each in told} == {8000}
