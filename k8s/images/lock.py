"""Write the locks of the images: every package with the digests of its files, by uv.

`python k8s/images/lock.py UV [LOCK…]` resolves for Linux and every Python that the package allows,
within the versions that passed the whole suite (constraints.txt), but with the newest NumPy that
`make parity` compares. What brings CUDA goes into a file of its own, `<lock>.cuda.txt`. Where a
lock has no CUDA, `<lock>.cpu.txt` has torch's CPU build instead, from PyTorch's own index.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import parse_wheel_filename

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOCKS = HERE / "locks"
TABLE: dict[str, Any] = tomllib.loads((HERE / "images.toml").read_text())
TORCH: dict[str, Any] = tomllib.loads((HERE / "torch_cpu.toml").read_text())
APART = {"build", "vllm"}
"""Locks without the constraints: nothing of them is in an environment that the suite runs in."""
_HEADER = "# Made by `make locks` from pyproject.toml and constraints.txt: edit those, not this.\n"
_OF_CUDA = re.compile(r"(nvidia|cuda|torch|triton|onnxruntime-gpu|vllm|flashinfer|xformers)\b")
_MACHINES = re.compile(r"manylinux.*_(x86_64|aarch64)$")
_PYTHONS = {"cp311", "cp312", "cp313"}
_EVERYWHERE = "python_full_version >= '3.11' and sys_platform == 'linux'"


def constraints() -> str:
    """The versions that the suite passed with, but for NumPy: Triton's own server takes 2."""
    passed = (ROOT / "constraints.txt").read_text().splitlines()
    newest = (ROOT / "tests" / "parity" / "newest.txt").read_text().splitlines()
    kept = [line for line in passed if not line.startswith("numpy==")]
    return "\n".join([*kept, *(line for line in newest if line.startswith("numpy=="))]) + "\n"


def resolved(uv: str, name: str) -> list[dict[str, Any]]:
    """The packages of a lock, as PEP 751 has them."""
    about = TABLE[name]
    extras = ",".join(about.get("extras", ()))
    lines = [f"editjudge[{extras}] @ file://{ROOT}"] if extras else []
    lines += [*about.get("packages", ()), *about.get("alone", ())]
    with tempfile.TemporaryDirectory() as folder:
        asked, within, out = (Path(folder) / one for one in ("asked.in", "within.txt", "pylock.toml"))
        asked.write_text("".join(f"{line} ; sys_platform == 'linux'\n" for line in lines))
        within.write_text("" if name in APART else constraints())
        command = [uv, "pip", "compile", "--universal", "--python-version=3.11", "--quiet"]
        command += ["--format=pylock.toml", "--no-emit-package=editjudge", f"--output-file={out}"]
        command += [f"--config-file={HERE / 'uv.toml'}", f"--constraints={within}", str(asked)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        packages: list[dict[str, Any]] = tomllib.loads(out.read_text())["packages"]
    return packages


def is_ours(package: dict[str, Any]) -> bool:
    """Whether any image could take it: uv resolves for machines that none is for, too."""
    marker = Marker(package.get("marker", _EVERYWHERE))
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return any(
        marker.evaluate({**linux, "platform_machine": machine, "python_version": python})
        for machine in ("x86_64", "aarch64")
        for python in ("3.11", "3.12", "3.13")
    )


def line(package: dict[str, Any]) -> str:
    """A package as pip reads it, with the digests of the files that our images could take."""
    text = f"{package['name']}=={package['version']}"
    if package.get("marker", _EVERYWHERE) != _EVERYWHERE:
        text += f" ; {package['marker']}"
    wheels = [wheel for wheel in package.get("wheels", ()) if _fits(wheel["url"])]
    digests = sorted(file["hashes"]["sha256"] for file in wheels or [package["sdist"]])
    return " \\\n".join([text, *(f"    --hash=sha256:{digest}" for digest in digests)])


def cpu_build(version: str) -> str:
    """The lines of torch's CPU build, as pip reads them."""
    if TORCH["version"] != f"{version}+cpu":
        sys.exit(f"torch {version}: torch_cpu.toml has {TORCH['version']}: give its digests there")
    digests = (f"    --hash=sha256:{digest}" for digest in TORCH["sha256"])
    return " \\\n".join([f"--find-links {TORCH['index']}/torch/\ntorch=={TORCH['version']}", *digests])


def _fits(url: str) -> bool:
    tags = parse_wheel_filename(url.rpartition("/")[2].replace("%2B", "+"))[3]
    return any(
        (tag.abi in {"none", "abi3"} or tag.interpreter in _PYTHONS)
        and (tag.platform == "any" or _MACHINES.match(tag.platform))
        for tag in tags
    )


def main(uv: str, *names: str) -> None:
    """Write the locks of these names, or all."""
    for name in names or TABLE:
        packages = [package for package in resolved(uv, name) if is_ours(package)]
        of_cuda = [p for p in packages if _OF_CUDA.match(p["name"])]
        lines = {"": [line(p) for p in packages if p not in of_cuda]}
        if TABLE[name].get("cuda", True):
            lines[".cuda"] = [line(p) for p in of_cuda]
        else:
            lines[".cpu"] = [cpu_build(p["version"]) for p in of_cuda if p["name"] == "torch"]
        for kind in ("", ".cuda", ".cpu"):
            file = LOCKS / f"{name}{kind}.txt"
            file.unlink(missing_ok=True)
            if lines.get(kind):
                file.write_text(_HEADER + "\n".join(lines[kind]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
