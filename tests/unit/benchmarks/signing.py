"""The signature of one dimension, for tests that compare them."""

from __future__ import annotations

from collections.abc import Mapping

from editjudge.base.identity import Identities
from editjudge.base.signature import Signature
from editjudge.benchmarks.dimension import Dimension
from editjudge.engine.judge import Signatures


def signature_of(dimension: Dimension, known: Mapping[str, Dimension], identities: Identities) -> Signature:
    return Signatures(known).of([dimension], identities)[dimension.id]
