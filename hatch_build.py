"""Makes the messages of `protos/` when the package is built or installed from a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProtoBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg]
    """Runs the proto compiler; what it makes is built, and never edited or committed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before anything is put into the wheel.

        Raises:
            RuntimeError: the compiler refuses a file; it has said why.
        """
        from grpc_tools import protoc

        root = Path(self.root)
        protos = root / "protos"
        out = root / "client"
        files = [str(path) for path in sorted(protos.rglob("*.proto"))]
        options = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
        if files and protoc.main(["protoc", f"-I{protos}", *options, *files]):
            raise RuntimeError("the protos cannot be compiled")
