"""What two signatures differ in, in words."""

from __future__ import annotations

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


def told(before: str, after: str) -> list[str]:
    return list(map(str, compare_signatures(before, after)))


def test_the_same_differs_in_nothing() -> None:
    assert told(JUDGED, JUDGED) == []


def test_each_kind_of_part_has_its_words() -> None:
    assert told(JUDGED, JUDGED.replace("19256def", "00000000")) == [
        "prompt kris/quality (own,sha256:19256def → own,sha256:00000000)"
    ]
    assert told(JUDGED, JUDGED.replace("qwen", "other")) == [
        "generalist.judge: model (qwen → other)"
    ]
    assert told(JUDGED, JUDGED.replace("temperature=0", "temperature=1")) == [
        "generalist.judge: temperature (0 → 1)"
    ]
    assert told(JUDGED, JUDGED.replace("repeat=0", "repeat=1")) == ["rubric: repeat (0 → 1)"]
    assert told(JUDGED, JUDGED.replace("kris.1", "kris.2")) == ["protocol (kris.1 → kris.2)"]
    assert told(PIXELS, PIXELS.replace("decode.2", "decode.3")) == [
        "implementation of decode (2 → 3)"
    ]
    assert told(PIXELS, PIXELS.replace("headless 4", "headless 5")) == [
        "implementation of align (1(opencv-python-headless 4) → 1(opencv-python-headless 5))"
    ]
    assert told(PIXELS, PIXELS.replace(".whole(", ".outside(")) == [
        "what is read of pixels (pixels.psnr.whole → pixels.psnr.outside)"
    ]
    assert told(PIXELS, PIXELS.replace("+decode.2", "")) == [
        "implementation of decode (2 → absent)"
    ]


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


def test_services_differ_in_their_facts() -> None:
    before = "ocr.got:ocr_got/1(numpy=2.1,opencv-python-headless=4.10,pillow=11)"
    assert told("ocr.got:ocr_got/1(weights=a)", "ocr.got:ocr_got/1(weights=b)") == [
        "ocr.got: weights (a → b)"
    ]
    assert told("", "ocr.got:ocr_got/1") == ["ocr.got: model (absent → ocr_got/1)"]
    assert told("ocr.got:ocr_got/1", "ocr.got:ocr_got/1(weights=none)") == [
        "ocr.got: weights (absent → none)"
    ]
    assert told(before, before.replace("4.10", "4.11")) == [
        "ocr.got: opencv-python-headless (4.10 → 4.11)"
    ]
