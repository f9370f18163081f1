"""What the signature of a dimension holds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from editjudge.base.signature import Signature
from editjudge.benchmarks.dimension import Dimension, Formula, Reading, make_formula
from editjudge.benchmarks.fusion import Gated, WeightedGeometricMean, mean, product
from editjudge.engine.judge import Signatures
from editjudge.pixels.metrics import mse
from editjudge.scorers.pixels import PixelComparison

from ...fakes.scorers import ScriptedScorer


def dimension(name: str, how: Reading | Formula, **more: Any) -> Dimension:
    return Dimension(name, "?", "here", how, (0, 10), **more)


def test_no_version_of_a_library_is_in_a_signature() -> None:
    read = dimension("read", Reading(PixelComparison("source"), "ssim.outside"))
    text = str(read.signature({}))
    assert not re.search(r"numpy|opencv|pillow|rapidfuzz|editjudge", text)
    by = dict(read.signature({}).fields)["by"].split("+")
    names = ["decode", "fitted", "load_mask", "pixels", "ssim", "windows_within"]
    assert [one.partition(".")[0] for one in by] == names


def test_a_digest_is_as_stored_verdicts_name_it() -> None:
    """Formulas and columns name their parts by it."""
    assert Signature.of({"dimension": "core.d", "by": "mse.1"}).digest == "26e17e6e4dcc"


def test_another_field_is_another_signature() -> None:
    """Two numbers under one signature otherwise: `unmasked_pixels` changes the field alone."""
    fields = ("mse.whole", "mse.outside")
    scorer = PixelComparison("source", aligned=True)
    signed = {str(dimension("read", Reading(scorer, name)).signature({})) for name in fields}
    assert len(signed) == 2


def test_a_derived_signature_says_what_its_function_is() -> None:
    part = dimension("part", Reading(ScriptedScorer(key="a"), "f"))
    weighted = [WeightedGeometricMean({"part": weight}) for weight in (1.0, 2.0)]
    fns = (product, mean, *weighted, Gated("part", "part", 1.0, 0.0), Gated("part", "part", 2.0, 0))
    known = {"part": part, **{str(i): dimension(str(i), make_formula(fn, "part")) for i, fn in enumerate(fns)}}
    signed = Signatures(known).of(known.values(), {})
    formulas = [dict(signed[str(i)].fields)["formula"] for i in range(len(fns))]
    assert formulas[:2] == ["product.1", "mean.1"]
    assert formulas[2] == formulas[3], "of one part any weight is the same share"
    assert len(set(formulas)) == len(fns) - 1


def test_a_raised_number_is_another_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    read = dimension("read", Reading(PixelComparison("source"), "mse.whole"))
    made = dimension("made", make_formula(product, "read"))
    known = {"read": read, "made": made}

    def sign() -> dict[str, Signature]:
        return Signatures(known).of(known.values(), {})

    before = sign()
    monkeypatch.setattr(mse, "implementation", 2)
    assert "+mse.2+" in str(sign()["read"])
    assert before["made"] != sign()["made"], "its part has another one"
    monkeypatch.setattr(mse, "implementation", 1)
    assert before == sign()
    monkeypatch.setattr(PixelComparison, "implementation", 2)
    assert before["read"] != sign()["read"]
    monkeypatch.setattr(product, "implementation", 2, raising=False)
    assert "formula:product.2" in str(sign()["made"])
