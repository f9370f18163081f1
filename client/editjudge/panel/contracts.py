"""The tensor contract of each role: what every implementation of it takes and gives.

Shared by both sides: services generate their `config.pbtxt` from it, and the client
checks every reply against it, so an implementation can be swapped without touching the
client. Images travel encoded and are decoded where the model is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

DType: TypeAlias = Literal["BYTES", "FP32"]
Holds: TypeAlias = Literal["array", "image", "text"]


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
    """What one role takes and gives."""

    role: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


IMAGE = Tensor("IMAGE", "BYTES", holds="image")
"""The bytes of one still image: PNG, JPEG, WebP, BMP, TIFF, GIF or PPM."""

QUALITY = Contract(
    "quality",
    inputs=(IMAGE,),
    outputs=(Tensor("SCORE", "FP32", (1,), bounds=(0.0, 1.0)),),
)
OCR = Contract(
    "ocr",
    inputs=(IMAGE,),
    outputs=(
        Tensor("TEXT", "BYTES", holds="text"),
        Tensor("BOXES", "FP32", (-1, 4, 2)),
        Tensor("CONFIDENCE", "FP32", (-1,), bounds=(0.0, 1.0)),
    ),
)
CONTRACTS = {contract.role: contract for contract in (QUALITY, OCR)}

ABSTAINED = "abstained"
"""A server's message `abstained/<kind>: <reason>` says that there is no value for an input.

It travels as INVALID_ARG: like a bad input it concerns this request alone, and asking
again cannot help.
"""
