"""The specialists behind the real Triton."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont

from editjudge.base.errors import Abstention, Rejection
from editjudge.base.images import RGB, decode, load_image
from editjudge.base.probes import has_known_answer, probe_inputs, texture_image, wrong_answer
from editjudge.panel import Panel
from editjudge_services.ocr.ppocr import PpOcrReader
from editjudge_services.quality.piqe import compute_piqe, quality_from_piqe
from editjudge_services.runtime.triton_server import TritonServer

from ..unit.base.test_images import CONVERTED, REFUSED

pytestmark = pytest.mark.triton

SERVED = ("ocr.ppocr", "quality.piqe")  # whose weights come with the packages


def sign(text: str, size: tuple[int, int] = (320, 96)) -> RGB:
    picture = Pil.new("RGB", size, "white")
    ImageDraw.Draw(picture).text((16, 20), text, fill="navy", font=ImageFont.load_default(40))
    return np.asarray(picture)


async def ask(panel: Panel, service: str, image: RGB | bytes) -> Any:
    encoded = image if isinstance(image, bytes) else load_image(image).encoded_bytes
    return await panel.call(service, {"IMAGE": encoded})


async def test_every_service_is_served_and_gives_its_known_answer(panel: Panel) -> None:
    assert set(panel.specialists) == set(SERVED)
    for name in SERVED:
        reply = await panel.call(name, probe_inputs(name.partition(".")[0]))
        declared = panel.specialists[name].identity.facts
        assert has_known_answer(name, declared)
        assert wrong_answer(name, reply, declared) is None


async def test_identities_name_the_weights(panel: Panel) -> None:
    identities = panel.identities()
    assert re.search(r"weights=sha256:[0-9a-f]{16}", str(identities["ocr.ppocr"]))
    assert "weights=none" in str(identities["quality.piqe"])


async def test_ocr_equals_the_networks_in_process(panel: Panel) -> None:
    images = [sign("SALE 50%"), sign("one\ntwo", (300, 160)), np.full((40, 60, 3), 200, np.uint8)]
    here = PpOcrReader().read(images)
    there = await asyncio.gather(*(ask(panel, "ocr.ppocr", image) for image in images))
    for reading, reply in zip(here, there, strict=True):
        assert reply["TEXT"].decode() == reading.text
        np.testing.assert_array_equal(reply["BOXES"], reading.boxes)
        np.testing.assert_array_equal(reply["CONFIDENCE"], reading.confidences)
    assert here[0].text == "SALE 50%"
    assert here[2].text == ""


async def test_quality_equals_the_measure_in_process(panel: Panel, photo: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    noisy = np.clip(photo + rng.normal(0, 25, photo.shape), 0, 255).astype(np.uint8)
    reply = await ask(panel, "quality.piqe", noisy)
    assert reply["SCORE"][0] == np.float32(quality_from_piqe(compute_piqe(noisy)))


async def test_a_flat_image_has_no_quality(panel: Panel) -> None:
    with pytest.raises(Abstention) as caught:
        await ask(panel, "quality.piqe", np.full((64, 64, 3), 128, np.uint8))
    assert caught.value.kind == "degenerate"


@pytest.mark.parametrize("service", SERVED)
@pytest.mark.parametrize("case", [case for case in REFUSED if case != "too many bytes"])
async def test_bad_images_are_refused_with_the_reason(panel: Panel, service: str, case: str) -> None:
    make, reason = REFUSED[case]
    with pytest.raises(Rejection, match=f"IMAGE: .*{reason}"):
        await ask(panel, service, make())


@pytest.mark.parametrize("service", SERVED)
@pytest.mark.parametrize("case", CONVERTED)
async def test_odd_images_are_judged_as_the_client_sees_them(panel: Panel, service: str, case: str) -> None:
    encoded = CONVERTED[case][0]
    answers = []
    for image in (encoded, load_image(decode(encoded)[0]).encoded_bytes):
        try:
            answers.append({k: bytes(v) for k, v in (await ask(panel, service, image)).items()})
        except Abstention as abstained:
            answers.append({"abstained": abstained.kind.encode()})
    assert answers[0] == answers[1]


async def test_a_bad_request_does_not_cost_its_neighbours_theirs(panel: Panel) -> None:
    images = [sign(f"NUMBER {n}") if n % 3 else b"not an image" for n in range(12)]
    answers = await asyncio.gather(*(ask(panel, "ocr.ppocr", image) for image in images), return_exceptions=True)
    for n, answer in enumerate(answers):
        if n % 3:
            assert not isinstance(answer, BaseException)
            assert answer["TEXT"].decode() == f"NUMBER {n}"
        else:
            assert isinstance(answer, Rejection)


async def test_requests_are_counted_by_outcome(panel: Panel, triton: TritonServer) -> None:
    def counts() -> dict[str, float]:
        with urllib.request.urlopen(triton.metrics_url) as reply:  # noqa: S310
            text = reply.read().decode()
        pattern = r'specialist_requests_total\{model="quality_piqe",outcome="(\w+)"\} (\S+)'
        return {outcome: float(value) for outcome, value in re.findall(pattern, text)}

    before = counts()
    await ask(panel, "quality.piqe", texture_image())
    with pytest.raises(Rejection):
        await ask(panel, "quality.piqe", b"nothing")
    after = counts()
    assert after["answered"] == before["answered"] + 1
    assert after["refused"] == before["refused"] + 1
    assert after["failed"] == before["failed"]
