"""What two signatures differ in, in words."""

from __future__ import annotations

import pytest

from editjudge.base.differences import compare_signatures
from editjudge.base.signature import Signature
from editjudge.gateway.session import _find_difference

JUDGED = (
    "dimension:kris.visual_quality|protocol:kris.1|variant:rubric.1to5|"
    "reads:rubric.quality_score(prompt=kris/quality(own,sha256:19256def),repeat=0,"
    "service=generalist.judge)|by:rubric.1|"
    "generalist.judge:qwen(max_tokens=1024,seed=0,server=vllm,temperature=0)"
)
PIXELS = (
    "dimension:core.psnr.source.whole|protocol:core.1|"
    "reads:pixels.psnr.whole(aligned=True,reference=source)|"
    "by:align.1(opencv-python-headless 4)+decode.2+psnr_from_mse.1"
)


def list_differences(before: str, after: str) -> list[str]:
    return list(map(str, compare_signatures(before, after)))


def test_the_same_differs_in_nothing() -> None:
    assert list_differences(JUDGED, JUDGED) == []


SERVICE = "ocr.got:ocr_got/1(numpy=2.1,opencv-python-headless=4.10,pillow=11)"
READ = "pixels.psnr.whole → pixels.psnr.outside"
ASKED = "kris/quality (own,sha256:19256def → own,sha256:00000000)"
ALIGN = "align (1(opencv-python-headless 4) → 1(opencv-python-headless 5))"


@pytest.mark.parametrize(
    ("signature", "before", "after", "words"),
    [
        (JUDGED, "19256def", "00000000", f"prompt {ASKED}"),
        (JUDGED, "qwen", "other", "generalist.judge: model (qwen → other)"),
        (JUDGED, "temperature=0", "temperature=1", "generalist.judge: temperature (0 → 1)"),
        (JUDGED, "repeat=0", "repeat=1", "rubric: repeat (0 → 1)"),
        (JUDGED, "kris.1", "kris.2", "protocol (kris.1 → kris.2)"),
        (PIXELS, "decode.2", "decode.3", "implementation of decode (2 → 3)"),
        (PIXELS, "headless 4", "headless 5", f"implementation of {ALIGN}"),
        (PIXELS, ".whole(", ".outside(", f"what is read of pixels ({READ})"),
        (PIXELS, "+decode.2", "", "implementation of decode (2 → absent)"),
        ("ocr.got:ocr_got/1(weights=a)", "=a", "=b", "ocr.got: weights (a → b)"),
        ("ocr.got:ocr_got/1", "/1", "/1(weights=none)", "ocr.got: weights (absent → none)"),
        (SERVICE, "4.10", "4.11", "ocr.got: opencv-python-headless (4.10 → 4.11)"),
    ],
)
def test_each_kind_of_part_has_its_words(signature: str, before: str, after: str, words: str) -> None:
    assert list_differences(signature, signature.replace(before, after)) == [words]


def test_a_service_that_was_not_there_is_absent() -> None:
    assert list_differences("", "ocr.got:ocr_got/1") == ["ocr.got: model (absent → ocr_got/1)"]


def test_what_is_derived_differs_in_what_its_parts_do() -> None:
    later = JUDGED.replace("temperature=0", "temperature=1")
    first, second = (Signature.parse(text).digest for text in (JUDGED, later))
    mean = "dimension:kris.average|protocol:kris.1|formula:mean.1|parts:kris.visual_quality="
    here, there = {"kris.average": mean + first}, {"kris.average": mean + second}
    name, why = _find_difference(here, there) or ("", "")
    assert name == "kris.average"
    assert why.startswith("kris.visual_quality, of which it is made (")
    part = "kris.visual_quality"
    otherwise = _find_difference({**here, part: JUDGED}, {**there, part: later})
    assert otherwise == (part, "generalist.judge: temperature (0 → 1)")
    assert _find_difference(here, here) is None
    assert _find_difference(here, {}) == ("kris.average", "it is not signed there")
