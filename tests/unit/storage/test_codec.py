from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from PIL import Image as Pil

from editjudge.base.contracts import Tensors
from editjudge.base.images import load_mask
from editjudge.storage import codec
from editjudge.storage.compression import Compressor

PACKER = Compressor(list, None)


def png(selected: NDArray[np.bool_]) -> bytes:
    file = io.BytesIO()
    Pil.fromarray(selected.astype(np.uint8) * 255).save(file, format="PNG")
    return file.getvalue()


TEXTS = st.text(st.characters(exclude_categories=[]), max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)  # fmt: skip


@given(JSON)
def test_what_is_packed_comes_back(value: object) -> None:
    again = PACKER.decompress(PACKER.compress(value))
    assert again == value
    assert json.dumps(again) == json.dumps(value)  # also -0.0, and the order of keys


def test_json_is_deflated_where_that_is_shorter() -> None:
    assert PACKER.compress({"region_share": 0.25}) == b'{"region_share":0.25}'
    assert len(PACKER.compress({"reply": "the cup is red, " * 100})) < 80


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        PACKER.compress({"value": float("nan")})


@pytest.mark.parametrize(
    "stored",
    [b"", b"\xff\x00", PACKER.compress("some text " * 99)[:-3], PACKER.compress("some text")[:-3]],
    ids=["empty", "something else", "deflated and cut", "cut"],
)
def test_damaged_text_is_told(stored: bytes) -> None:
    with pytest.raises(ValueError, match="stored text"):
        PACKER.decompress(stored)


@pytest.mark.parametrize("digest", ["sha256:" + "0f" * 32, "sha256:" + "0F" * 32, "x", ""])
def test_digests_come_back(digest: str) -> None:
    stored = codec.digest_to_bytes(digest)
    assert codec.digest_from_bytes(stored) == digest
    assert (len(stored) == 32) == digest.endswith("0f")


def outputs_again(role: str, **outputs: NDArray[np.float32] | bytes) -> Tensors:
    return codec.outputs_from_bytes(codec.outputs_to_bytes(role, outputs))


def test_arrays_and_text_come_back_exactly() -> None:
    boxes = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    none = np.zeros((0,), np.float32)
    found = outputs_again("ocr", TEXT="röd \0".encode(), BOXES=boxes, CONFIDENCE=none)
    assert list(found) == ["TEXT", "BOXES", "CONFIDENCE"]
    assert found["TEXT"] == "röd \0".encode()
    np.testing.assert_array_equal(found["BOXES"], boxes, strict=True)
    np.testing.assert_array_equal(found["CONFIDENCE"], none, strict=True)


def test_an_embedding_is_kept_in_half_precision() -> None:
    given = np.random.default_rng(0).normal(size=768).astype(np.float32)
    stored = codec.outputs_to_bytes("features", {"EMBEDDING": given})
    assert len(stored) < 768 * 2 + 256
    (found,) = codec.outputs_from_bytes(stored).values()
    in_half = given.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found, in_half, strict=True)
    np.testing.assert_array_equal(outputs_again("features", EMBEDDING=found)["EMBEDDING"], found)


@pytest.mark.parametrize("scale", [1e6, 0.01, 1e-6, 0.0])
def test_an_embedding_that_half_precision_cannot_hold_is_kept_exactly(scale: float) -> None:
    given = (np.linspace(-1, 1, 16) * scale).astype(np.float32)
    np.testing.assert_array_equal(outputs_again("clip", EMBEDDING=given)["EMBEDDING"], given)


@given(arrays.arrays(np.bool_, arrays.array_shapes(min_dims=2, max_dims=2, max_side=20)))
def test_a_mask_comes_back_as_a_one_bit_png(selected: NDArray[np.bool_]) -> None:
    found = outputs_again("segmenter", MASK=png(selected))["MASK"]
    np.testing.assert_array_equal(load_mask(found).region, selected)
    assert Pil.open(io.BytesIO(found)).mode == "1"
    assert outputs_again("segmenter", MASK=found)["MASK"] == found


def test_a_large_mask_of_one_colour() -> None:
    selected = np.zeros((300, 300), bool)
    assert not load_mask(outputs_again("segmenter", MASK=png(selected))["MASK"]).region.any()


@pytest.mark.parametrize("mask", [b"", b"no picture", png(np.eye(8, dtype=bool))[:30]])
def test_what_is_no_mask_is_kept_as_it_is(mask: bytes) -> None:
    assert outputs_again("segmenter", MASK=mask)["MASK"] == mask


def test_outputs_are_a_file_of_numpy() -> None:
    stored = codec.outputs_to_bytes("quality", {"SCORE": np.ones(1, np.float32)})
    with np.load(io.BytesIO(stored)) as arrays:
        assert arrays["SCORE"].tolist() == [1.0]


def _npz(**arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_damaged_outputs_are_told() -> None:
    stored = codec.outputs_to_bytes("quality", {"SCORE": np.ones(1, np.float32)})
    middle = len(stored) // 4
    damaged = [b"", b"no archive", stored[:-2], stored[:middle], _npz(X=np.ones(1, bool))]
    damaged += [stored[:middle] + bytes(9) + stored[middle + 9 :], _npz(X=np.array(["x"], object))]
    damaged += [_npz(MASK=np.ones(1, np.uint32))]
    for one in damaged:
        with pytest.raises(ValueError, match="stored outputs"):
            codec.outputs_from_bytes(one)
