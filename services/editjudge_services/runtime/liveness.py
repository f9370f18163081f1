"""Whether a Triton server beside this process has lost a model's process.

`python -m editjudge_services.runtime.liveness REPOSITORY` exits 1 where it has. Triton itself
says that it is ready, refuses every call of that model, and does not start it again.
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
_SEEN = "processes.json"
"""In the repository, how many processes each model had when all were first seen."""


def find_lost_models(repository: Path, processes: Path = Path("/proc")) -> str:
    """What is lost, in one line; "" where nothing is.

    To be asked once the server is ready: as many processes as there are then are what is wanted.

    Args:
        repository: The folder that the server loads.
        processes: Where the kernel shows them.
    """
    models = [each.parent.name for each in repository.glob("*/config.pbtxt")]
    now = Counter(map(parse_model, find_stubs(processes).values()))
    missing_models = [model for model in models if not now[model]]
    record = repository / _SEEN
    if not missing_models and not record.is_file():
        write_file(record, json.dumps(now).encode())
    before = json.loads(record.read_text()) if record.is_file() else {}
    shrunk_models = [model for model in models if now[model] < before.get(model, 1)]
    return (
        f"no process any more: {', '.join(sorted({*missing_models, *shrunk_models}))}"
        if missing_models or shrunk_models
        else ""
    )


def find_stubs(processes: Path = Path("/proc"), pid: str = "[0-9]*") -> dict[int, list[str]]:
    """The processes of Python models with their command lines.

    Args:
        processes: Where the kernel shows them.
        pid: The number of the one that is looked for; all by default.
    """
    commands = {}
    for process in processes.glob(pid):
        with suppress(OSError):  # it ended meanwhile; nothing is left of one not waited for
            command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if command[0].endswith(_STUB):
                commands[int(process.name)] = command
    return commands


def parse_model(command: Sequence[str]) -> str:
    """The model of a stub, by the file on its command line; "" where there is none."""
    code = next((Path(word) for word in command if word.endswith("/1/model.py")), None)
    return code.parts[-3] if code else ""


if __name__ == "__main__":
    reason = find_lost_models(Path(sys.argv[1]))
    if reason:
        sys.stderr.write(f"{reason}\n")
        raise SystemExit(1)
