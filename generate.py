"""Write `model_repo/`, what the chart knows, the reference, and the version that files repeat.

`python generate.py` writes it; with `--check` it only says which files differ.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import click
from reference import reference

from editjudge.base.identity import FINGERPRINT, JUDGE_ROLE
from editjudge.base.terminal import print_text
from editjudge.benchmarks.registry import load_benchmarks, load_dimensions
from editjudge_services.runtime.onnx import BUILDS
from editjudge_services.runtime.repository import find_model_repository, find_specialists, render_config
from editjudge_services.runtime.specialist import Specialist
from editjudge_services.zoo.artefact import Precision
from editjudge_services.zoo.export import PRECISIONS
from editjudge_services.zoo.manifest import Entry, load_manifest, load_recipe

ROOT = Path(__file__).parent
CHART = ROOT / "k8s" / "chart" / "files" / "models.json"
LOCKS = ROOT / "k8s" / "images" / "locks"
PROCESS_MIB = {"rapidocr": 850, "torch": 450, "": 150}
"""What the process of a model takes before its network, by a package that it has; measured."""
WORK_MIB = {"segmenter_grounded_sam": 1900, "segmenter_grounded_sam_huge": 2500}
"""What networks take while they compute a picture of 1024x1024, where it was measured."""


def model_text(specialist: type[Specialist]) -> str:
    """The `1/model.py` of a specialist, its imports in order."""
    name, module = specialist.__name__, specialist.__module__
    imports = sorted([f"from {module} import {name}", "from editjudge_services.runtime.adaptor import serve"])
    return "\n".join([*imports, "", f"TritonPythonModel = serve({name})", ""])


def make_files() -> dict[Path, str]:
    """What belongs in `model_repo/` and in the chart, by file."""
    files = {}
    for specialist in find_specialists():
        folder = find_model_repository() / specialist.name
        files[folder / "config.pbtxt"] = render_config(specialist)
        files[folder / "1" / "model.py"] = model_text(specialist)
    files[CHART] = chart_text()
    return files | make_versioned() | reference()


def make_versioned() -> dict[Path, str]:
    """The files that tell the version of `pyproject.toml` again: the chart's, and the images'."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    version_line = re.compile(r'^(version: |appVersion: |.*\.image\.version=)(")?[^"\n]*"?', re.MULTILINE)
    files = [ROOT / "k8s" / "chart" / "Chart.yaml", *(ROOT / "k8s" / "images").glob("*.Dockerfile")]
    return {
        file: version_line.sub(lambda each: f"{each[1]}{each[2] or ''}{version}{each[2] or ''}", file.read_text())
        for file in files
    }


def chart_text() -> str:
    """Benchmarks, models and the entries of their weights, as the Helm chart reads them."""
    entries = load_manifest()
    variants = image_variants()
    models = {
        kind.name: {
            "batch": kind.max_batch,
            "entry": kind.entry,
            "gpu": sorted(kind.on_gpu),
            # What it says of itself wherever it is served.
            "identity": {k: v for k, v in kind.identity.items() if k != FINGERPRINT},
            # The least memory of an instance, of its network and the process around it.
            "mib": {p: process_mib(kind) + network_mib(entries.get(kind.entry), p) for p in PRECISIONS},
            # What lies in shared memory while a batch is judged.
            "pictures": sum(
                tensor.holds in {"image", "mask"} for tensor in (*kind.contract.inputs, *kind.contract.outputs)
            ),
            # The variants of the image that have its packages.
            "variants": {p: fitting_variants(kind, p, variants) for p in PRECISIONS},
            "vllm": next((e.name for e in entries.values() if _is_of(e, kind)), ""),
        }
        for kind in find_specialists()
    }
    weights = {
        entry.name: {
            "exported": bool(entry.recipe),
            # What lies on the claim: as it is pulled, and exported.
            "mib": {"checkpoint": checkpoint_mib(entry, entries), **{p: network_mib(entry, p) for p in PRECISIONS}},
            "folder": PurePosixPath(entry.name, "checkpoint", entry.subfolder).as_posix(),
            "restricted": entry.restricted,
            "supply": entry.supply,
            # Of the variables EDITJUDGE_…_URL and so on, where vLLM serves it.
            "variable": entry.service.partition(".")[2].upper() if _on_vllm(entry) else "",
        }
        for entry in entries.values()
    }
    cuda = {name: {"cuda": "onnxruntime-gpu" in packages} for name, packages in variants.items()}
    judged_ids = judged_dimensions()
    context = {"benchmarks": judged_ids, "models": models, "variants": cuda, "weights": weights}
    return json.dumps(context, indent=1, sort_keys=True) + "\n"


def image_variants() -> dict[str, set[str]]:
    """The packages of each variant of Triton's image, as its locks have them."""
    variants: dict[str, set[str]] = {}
    for file in sorted(LOCKS.glob("triton-*.txt")):
        name = file.name.partition(".")[0].removeprefix("triton-")
        packages = re.findall(r"^([\w.-]+)==", file.read_text(), re.MULTILINE)
        variants.setdefault(name, set()).update(packages)
    return variants


def fitting_variants(kind: type[Specialist], precision: Precision, variants: Mapping[str, set[str]]) -> list[str]:
    """The variants in which a specialist can be served in a precision."""
    if kind.entry and precision not in load_recipe(load_manifest()[kind.entry]).precisions:
        return []
    engine = kind.engines.get(precision)
    needs = [*kind.packages, *([engine] if engine else [])]
    return [
        name for name, packages in variants.items() if all(packages & {*BUILDS.get(need, (need,))} for need in needs)
    ]


def process_mib(kind: type[Specialist]) -> int:
    """What a specialist's process takes beside its network."""
    library = next((name for name in PROCESS_MIB if name in kind.packages), "")
    return PROCESS_MIB[library] + WORK_MIB.get(kind.name, 0)


def network_mib(entry: Entry | None, precision: Precision) -> int:
    """The size of a network in a precision, rounded up; 0 for none."""
    return math.ceil(entry.gib(precision) * 1024) if entry else 0


def checkpoint_mib(entry: Entry, entries: Mapping[str, Entry]) -> int:
    """The size of what is pulled; vLLM's checkpoints hold two bytes a parameter, others four."""
    if entry.parts:
        return sum(checkpoint_mib(entries[name], entries) for name in entry.parts.values())
    return entry.checkpoint_mib or network_mib(entry, "bf16" if _on_vllm(entry) else "fp32")


def judged_dimensions() -> dict[str, list[str]]:
    """Which dimensions of each benchmark ask a judge, or are made of such."""
    every = load_dimensions()

    def asks(name: str) -> bool:
        roles = (service.role for service in every[name].roles)
        return JUDGE_ROLE in roles or any(map(asks, every[name].operands))

    return {
        name: sorted(each.id for each in benchmark.dimensions if asks(each.id))
        for name, benchmark in load_benchmarks().items()
    }


def _on_vllm(entry: Entry) -> bool:
    return entry.served_by == "vllm"


def _is_of(entry: Entry, kind: type[Specialist]) -> bool:
    """Whether vLLM serves the weights of a specialist from it."""
    return _on_vllm(entry) and entry.service.replace(".", "_") == kind.name


def stale() -> dict[Path, str]:
    """The files that are not there or hold something else, with what they should hold."""
    return {path: text for path, text in make_files().items() if not path.is_file() or path.read_text() != text}


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
