"""Digests of content."""

import hashlib

import pytest

from editjudge.base.digest import _PIECE, _SHORT, content_digest


@pytest.mark.parametrize("size", [0, 1, _PIECE, _PIECE + 1, 3 * _PIECE + 5, _SHORT, _SHORT + 1])
def test_pieces_have_the_digest_of_the_whole(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    assert content_digest(data) == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_no_piece_of_a_short_text_gives_up_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Digest:
        def update(self, piece: bytes) -> None:
            sizes.append(len(piece))

        def hexdigest(self) -> str:
            return ""

    monkeypatch.setattr(hashlib, "sha256", Digest)
    content_digest(bytes(_SHORT))
    assert max(sizes) < 2048
    assert sum(sizes) == _SHORT
