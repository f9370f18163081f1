"""The environments of images, made by the lines of their Dockerfiles."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .dockerfile import FOLDER, LOCKS, context, read


class Layer:
    """The environment of an image, made by the RUN lines of its first stage."""

    def __init__(self, image: str, folder: Path, variant: str = "") -> None:
        self.root = folder
        self._variables = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "VARIANT": variant,
            "PIP_QUIET": "1",
            # Where PyTorch's own index is not reached, its wheel is found elsewhere.
            "PIP_RETRIES": "0",
        }
        for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            self._variables.pop(name, None)
        source = folder / "src"
        (source / "locks").mkdir(parents=True)
        for lock in LOCKS.glob("*.txt"):
            (source / "locks" / lock.name).write_bytes(lock.read_bytes())
        context(source)
        (build, _) = read(FOLDER / f"{image}.Dockerfile")[1]
        for line in build.of("RUN"):
            here = line.replace("/opt/", f"{folder}/opt/").replace("/dist", f"{folder}/dist")
            done = subprocess.run(
                ["sh", "-ec", here], cwd=source, env=self._variables, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def program(self, name: str) -> Path:
        return self.root / "opt" / "editjudge" / "bin" / name

    @property
    def packages(self) -> Path:
        (found,) = (self.root / "opt" / "editjudge" / "lib").glob("python3.*/site-packages")
        return found

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {n: v for n, v in self._variables.items() if not n.startswith("EDITJUDGE_")}
        own = self.program("editjudge").parent
        return {**kept, "PATH": f"{own}:/usr/bin:/bin", "HOME": str(self.root), **more}

    def print_of(self, *command: str, **more: str) -> str:
        """What a command of the image prints, run away from any checkout."""
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.root / "opt", env=self.variables(more), check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def check_parts(self) -> None:
        """The list of parts names what is installed, and all of them are told."""
        listed = json.loads((self.root / "opt" / "editjudge" / "sbom.json").read_text())
        there = {part["name"].lower().replace("_", "-") for part in listed["components"]}
        found = {one.name.split("-")[0].lower().replace("_", "-") for one in self._metadata()}
        assert there == found
        assert "editjudge" in there

    def _metadata(self) -> list[Path]:
        return list(self.packages.glob("*.dist-info"))

    def with_older_numpy(self, folder: Path) -> Path:
        """Its environment with NumPy 1: the python backend of Triton 2.51 takes no other.

        Returns:
            The folder of its programs.
        """
        whole = self.program("editjudge").parents[1]
        shutil.copytree(whole, folder, symlinks=True, copy_function=os.link)
        for part in ("numpy", "numpy.libs"):
            there = folder / self.packages.relative_to(whole) / part
            shutil.rmtree(there)
            there.symlink_to(Path(np.__file__).parents[1] / part)
        return folder / "bin"
