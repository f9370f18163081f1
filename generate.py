"""Write what is generated of the specialists: `model_repo/`, and what the Helm chart knows of them.

`python generate.py` writes it; with `--check` it only says which files differ.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import click

from editjudge.base.identity import FINGERPRINT
from editjudge.base.terminal import print_text
from editjudge_services.runtime.repository import (
    find_model_repository,
    find_specialists,
    render_config,
)
from editjudge_services.runtime.specialist import Specialist
from editjudge_services.zoo.manifest import Entry, load_manifest

CHART = Path(__file__).parent / "k8s" / "chart" / "files" / "models.json"


def model_text(specialist: type[Specialist]) -> str:
    """The `1/model.py` of a specialist, its imports in order."""
    name, module = specialist.__name__, specialist.__module__
    imports = sorted(
        [f"from {module} import {name}", "from editjudge_services.runtime.adaptor import serve"]
    )
    return "\n".join([*imports, "", f"TritonPythonModel = serve({name})", ""])


def generated() -> dict[Path, str]:
    """What belongs in `model_repo/` and in the chart, by file."""
    files = {}
    for specialist in find_specialists():
        folder = find_model_repository() / specialist.name
        files[folder / "config.pbtxt"] = render_config(specialist)
        files[folder / "1" / "model.py"] = model_text(specialist)
    files[CHART] = chart_text()
    return files


def chart_text() -> str:
    """The models and the entries of their weights, as the Helm chart reads them."""
    entries = load_manifest()
    models = {
        kind.name: {
            "batch": kind.max_batch,
            "entry": kind.entry,
            "gpu": sorted(kind.on_gpu),
            # What it says of itself wherever it is served.
            "identity": {k: v for k, v in kind.identity.items() if k != FINGERPRINT},
            # What lies in shared memory while a batch is judged.
            "pictures": sum(
                tensor.holds in {"image", "mask"}
                for tensor in (*kind.contract.inputs, *kind.contract.outputs)
            ),
            "vllm": next((e.name for e in entries.values() if _is_of(e, kind)), ""),
        }
        for kind in find_specialists()
    }
    weights = {
        entry.name: {
            "exported": bool(entry.recipe),
            "folder": PurePosixPath(entry.name, "checkpoint", entry.subfolder).as_posix(),
            "restricted": entry.restricted,
            "supply": entry.supply,
            # Of the variables EDITJUDGE_…_URL and so on, where vLLM serves it.
            "variable": entry.service.partition(".")[2].upper() if _on_vllm(entry) else "",
        }
        for entry in entries.values()
    }
    return json.dumps({"models": models, "weights": weights}, indent=1, sort_keys=True) + "\n"


def _on_vllm(entry: Entry) -> bool:
    return entry.served_by == "vllm"


def _is_of(entry: Entry, kind: type[Specialist]) -> bool:
    """Whether vLLM serves the weights of a specialist from it."""
    return _on_vllm(entry) and entry.service.replace(".", "_") == kind.name


def stale() -> dict[Path, str]:
    """The files that are not there or hold something else, with what they should hold."""
    return {
        path: text
        for path, text in generated().items()
        if not path.is_file() or path.read_text() != text
    }


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file differs.")
def main(check: bool) -> None:
    """Write the config.pbtxt and model.py of every specialist."""
    differing = stale()
    for path, text in differing.items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        print_text(f"{'differs' if check else 'written'}: {path}")
    raise SystemExit(1 if check and differing else 0)


if __name__ == "__main__":
    main()
