"""Lets torchvision's wheel import beside the CPU build of torch; for the tests' vLLM only.

The wheel's compiled operators do not load there, and the Python side then registers
implementations of two operators that nobody declared. Declaring them is enough for
`torchvision.transforms`, which is all that vLLM's image and video processors use.

A `.pth` file imports this at every start of that environment's Python, so it imports
nothing but the standard library, and torch only together with torchvision.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class _Loader(SourceFileLoader):
    """Loads torchvision once its operators are declared."""

    def exec_module(self, module: ModuleType) -> None:
        import torch

        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(name + _SCHEMA)
        # The declarations go when the library object does.
        module.__dict__["_declared_by_shim"] = library
        super().exec_module(module)


class _Finder:
    """Finds torchvision where it is, with the loader above."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torchvision":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
