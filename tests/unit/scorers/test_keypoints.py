"""What edits are compared with is searched once, whoever asks, and kept within a budget."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.images import RGB, Image, load_image
from editjudge.base.item import Edit
from editjudge.pixels.alignment import Keypoints, find_keypoints
from editjudge.scorers import pixels as module
from editjudge.scorers.pixels import KeypointCache, PixelComparison

from ...patience import patience

FIELDS = frozenset({"mse.whole", "psnr.whole", "unaligned"})


def picture(seed: int) -> Image:
    """With plenty of corners for SIFT."""
    coarse = np.random.default_rng(seed).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    return load_image(np.asarray(Pil.fromarray(coarse).resize((320, 240), Pil.Resampling.BICUBIC)))


@pytest.fixture
def searched_pictures(monkeypatch: pytest.MonkeyPatch) -> list[RGB]:
    """The pictures that were searched for others, in their order."""
    pictures: list[RGB] = []

    def count_search(image: RGB) -> Keypoints:
        pictures.append(image)
        return find_keypoints(image)

    monkeypatch.setattr(module, "find_keypoints", count_search)
    return pictures


def test_a_picture_is_searched_once(searched_pictures: list[RGB]) -> None:
    shared = KeypointCache(1024**2)
    image = picture(0)
    again = load_image(image.encoded_bytes)
    assert again is not image
    first, second = shared.of(image).result(), shared.of(again).result()
    assert first is second
    assert len(searched_pictures) == 1
    assert np.array_equal(first.descriptors, find_keypoints(image.rgb).descriptors)


def test_what_is_on_its_way_is_not_waited_for(searched_pictures: list[RGB], monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, begun = threading.Event(), threading.Event()
    plain = module.find_keypoints

    def hold_search(image: RGB) -> Keypoints:
        begun.set()
        assert go_on.wait(patience(10))
        return plain(image)

    monkeypatch.setattr(module, "find_keypoints", hold_search)
    shared, image = KeypointCache(1024**2), picture(0)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shared.of, image)
        assert begun.wait(patience(10))
        second = shared.of(image)
        assert not second.done()
        go_on.set()
        assert second.result(patience(10)) is first.result().result()
    assert len(searched_pictures) == 1


def test_what_is_kept_fits_the_budget(searched_pictures: list[RGB]) -> None:
    images = [picture(seed) for seed in range(4)]
    sizes = [find_keypoints(image.rgb).nbytes for image in images]
    shared = KeypointCache(sum(sizes[:3]))
    for image in (*images[:3], images[0], images[3]):
        shared.of(image)
        assert shared.nbytes <= sum(sizes[:3])
    assert len(searched_pictures) == 4
    shared.of(images[0])
    assert len(searched_pictures) == 4, "it was asked for after the others, which went first"
    shared.of(images[1])
    assert len(searched_pictures) == 5
    nothing = KeypointCache(sizes[0] - 1)
    assert len(nothing.of(images[0]).result().points), "of one beyond the budget all the same"
    assert nothing.nbytes == 0


def test_a_search_that_fails_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(_: RGB) -> Keypoints:
        raise MemoryError

    shared, image = KeypointCache(1024**2), picture(0)
    with monkeypatch.context() as patch:
        patch.setattr(module, "find_keypoints", without_memory)
        with pytest.raises(MemoryError):
            shared.of(image)
    assert len(shared.of(image).result().points)


async def test_all_edits_of_an_item_share_its_source(
    searched_pictures: list[RGB], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEYPOINTS", KeypointCache(1024**2))
    source = picture(0)
    outputs = [np.roll(source.rgb, shift, axis=1) for shift in range(1, 6)]
    edits = [Edit.load(source=source, edited=one, instruction="x") for one in outputs]
    scorer = PixelComparison("source", aligned=True)
    verdicts = [await scorer.score(edit, None, FIELDS) for edit in edits]  # type: ignore[arg-type]
    assert sum(np.array_equal(image, source.rgb) for image in searched_pictures) == 1
    for edit, verdict in zip(edits, verdicts, strict=True):
        monkeypatch.setattr(module, "_KEYPOINTS", KeypointCache(0))
        assert verdict == scorer.compare(edit, FIELDS)
