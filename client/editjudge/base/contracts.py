"""The tensor contract of each role: what every implementation of it takes and gives.

Shared by both sides: services generate their `config.pbtxt` from it, and the client
checks every reply against it, so an implementation can be swapped without touching the
client. Images travel encoded and are decoded where the model is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from .parse import package_tables

DType: TypeAlias = Literal["BYTES", "FP32"]
Holds: TypeAlias = Literal["array", "image", "mask", "text"]
Tensors: TypeAlias = "dict[str, NDArray[np.float32] | bytes]"
"""What a specialist returns: arrays as float32, everything else as bytes, by tensor name."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One named tensor of a call, without the batch axis.

    Attributes:
        shape: -1 where the size varies.
        optional: May be left out by the client (inputs only).
        bounds: Lowest and highest value a reply may hold.
        holds: What the bytes are, so that the server can decode them.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...] = (1,)
    optional: bool = False
    bounds: tuple[float, float] | None = None
    holds: Holds = "array"


@dataclass(frozen=True, slots=True)
class Contract:
    """What one role takes and gives.

    Attributes:
        parameters: What varies by protocol and travels beside the tensors: allowed values
            by name, the first being the default.
        alike: Outputs that are as long as each other, for each has a row per thing seen.
    """

    role: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alike: tuple[str, ...] = ()


CLASS_HEADER = "x-class"
"""Header of a call with its caller's class, `interactive` or `batch`, as a front door says it."""
MODEL_HEADER = "x-model"
"""Header of a call with the name of its model, by which a front door finds the servers."""
SOURCE_HEADER = "x-source"
"""Header of a call with the digest of its first picture, 64 hex digits: calls that share it find
the picture in the cache of one server. A front door uses it for nothing else."""
TEAM_HEADER = "x-team"
"""Header of a reply with the team that a front door has known the caller as."""
TOKENS_HEADER = "x-tokens-used"
"""Header of a reply with the tokens that judges took for it, prompt and completion."""
LONGEST_NAME = 63
NAME = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}"
"""What teams, models and servers may be called: it goes into headers, paths, logs and metrics."""
CONTRACTS: Mapping[str, Contract] = TypeAdapter(dict[str, Contract]).validate_python(
    {role: {"role": role, **table} for role, table in package_tables(__package__, "contracts.toml").items()}
)
QUALITY, AESTHETICS, OCR, FEATURES, CLIP, LPIPS, SEGMENTER = CONTRACTS.values()
ABSTENTION = "abstained"
"""A server's message `abstained/<kind>: <reason>` says that there is no value for an input.

It travels as INVALID_ARG: like a bad input it concerns this request alone, and asking
again cannot help.
"""
