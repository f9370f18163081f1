"""The health check of a Triton server: whether it serves, with every model that it loaded.

`python -m editjudge_services.runtime.liveness REPOSITORY ADDRESS` exits 1 where no model is
ready, or where the process of a model has ended. Triton itself is ready without any model; and
where a process has ended it stays ready, refuses every call of that model, and does not start
it again. A model that could not be loaded costs itself: Triton tries it again when it next polls.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from editjudge.base.output_files import write_file

from .process import fetch

_STUB = "triton_python_backend_stub"
_RECORD_FILE = "processes.json"
"""The file in the repository that records which instances each model had when first ready."""


def find_fault(repository: Path, address: str, processes: Path = Path("/proc")) -> str:
    """Say in one line why the server is to be started again; "" where it is not.

    Args:
        repository: The folder that the server loads.
        address: Its HTTP address.
        processes: The folder in which the kernel lists processes.
    """
    reply = fetch(f"{address}/v2/repository/index", b"")
    if reply is None:
        return f"{address} does not answer"
    states = {each["name"]: each for each in json.loads(reply)}
    ready_models = {name for name, each in states.items() if each.get("state") == "READY"}
    if not ready_models:
        return "; ".join(["no model is ready", *map(_describe, states.values())])
    # By name: while a model is loaded again it has two processes of each instance.
    now: dict[str, set[str]] = {}
    for command in find_stubs(processes).values():
        model = parse_model(command)
        if f"{repository / model}/1/model.py" in command:
            now.setdefault(model, set()).add(_parse_instance(model, command))
    record = repository / _RECORD_FILE
    before = json.loads(record.read_text()) if record.is_file() else {}
    new_models = {name: sorted(now[name]) for name in ready_models - before.keys() if name in now}
    if new_models:
        write_file(record, json.dumps({**before, **new_models}).encode())
    lost_models = sorted(name for name in ready_models if name not in now or {*before.get(name, ())} - now[name])
    return f"no process any more: {', '.join(lost_models)}" if lost_models else ""


def _parse_instance(model: str, command: Sequence[str]) -> str:
    """The instance that a stub's command line names; the model where it names none."""
    return next((word for word in command if re.fullmatch(rf"{model}_\d+_\d+", word)), model)


def _describe(state: Mapping[str, str]) -> str:
    why = state.get("reason", "").partition("\n")[0] or state.get("state", "not loaded")
    return f"{state['name']}: {why}"


def find_stubs(processes: Path = Path("/proc"), pid: str = "[0-9]*") -> dict[int, list[str]]:
    """Find the processes of Triton's Python models.

    Args:
        processes: The folder in which the kernel lists processes.
        pid: The id of one process, or a glob; all by default.

    Returns:
        Command lines by process id.
    """
    commands = {}
    for process in processes.glob(pid):
        with suppress(OSError):  # the process ended meanwhile
            command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if command[0].endswith(_STUB):
                commands[int(process.name)] = command
    return commands


def parse_model(command: Sequence[str]) -> str:
    """The model that a stub's command line names by a file; "" where it names none."""
    code = next((Path(word) for word in command if word.endswith("/1/model.py")), None)
    return code.parts[-3] if code else ""


if __name__ == "__main__":
    reason = find_fault(Path(sys.argv[1]), sys.argv[2])
    if reason:
        sys.stderr.write(f"{reason}\n")
        raise SystemExit(1)
