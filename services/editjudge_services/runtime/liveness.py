"""The liveness check of a Triton server: it fails where a model's process has ended.

`python -m editjudge_services.runtime.liveness REPOSITORY` exits 1 in that case. Triton itself
stays ready, refuses every call of that model, and does not start it again.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from editjudge.base.output_files import write_file

_STUB = "triton_python_backend_stub"
_RECORD_FILE = "processes.json"
"""The file in the repository that records how many processes each model had at first."""


def find_lost_models(repository: Path, processes: Path = Path("/proc")) -> str:
    """Name the models that have fewer processes than at first, in one line; "" for none.

    Call it only once the server is ready: the first call in which every model has a process
    records how many each of them should have.

    Args:
        repository: The folder that the server loads.
        processes: The folder in which the kernel lists processes.
    """
    models = [each.parent.name for each in repository.glob("*/config.pbtxt")]
    now = Counter(map(parse_model, find_stubs(processes).values()))
    missing_models = [model for model in models if not now[model]]
    record = repository / _RECORD_FILE
    if not missing_models and not record.is_file():
        write_file(record, json.dumps(now).encode())
    before = json.loads(record.read_text()) if record.is_file() else {}
    shrunk_models = [model for model in models if now[model] < before.get(model, 1)]
    lost_models = ", ".join(sorted({*missing_models, *shrunk_models}))
    return f"no process any more: {lost_models}" if lost_models else ""


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
    reason = find_lost_models(Path(sys.argv[1]))
    if reason:
        sys.stderr.write(f"{reason}\n")
        raise SystemExit(1)
