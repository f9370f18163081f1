"""How the released code differs from the paper."""

from __future__ import annotations

from ..benchmark import Switch

_CODE = "Young-2000/OmniIIEBench, evaluate.py"

STRETCHED_LPIPS = Switch(
    "stretched_lpips",
    "LPIPS of a region is fed pixels in [-3, 1]: pixels in [-1, 1] are normalised once more",
    _CODE,
)
WHOLE_BACKGROUND_CLIP = Switch(
    "whole_background_clip",
    "CLIP of the background is that of the whole picture: the mask is lost in an alpha channel",
    _CODE,
)
AREA_WEIGHTED = Switch(
    "area_weighted",
    "means of LPIPS of foreground and background and of CLIP of the background are weighted by "
    "the region's share of the picture",
    _CODE,
)
EMPTY_COUNTS = Switch(
    "empty_counts",
    "an empty region has a number: 0, and 1 for CLIP of the foreground; such are marked as imputed"
    " and in no drop",
    _CODE,
)
NO_QA = Switch("no_qa", "no question is asked, so there is no QA and no Overall", _CODE)

SWITCHES = (STRETCHED_LPIPS, WHOLE_BACKGROUND_CLIP, AREA_WEIGHTED, EMPTY_COUNTS, NO_QA)
