"""How the official code of Omni IIE Bench differs from the paper."""

from ..switches import Switches, switch

_CODE = "Young-2000/OmniIIEBench, evaluate.py"


class OmniSwitches(Switches, use_attribute_docstrings=True):
    """All are on in the protocol `official`."""

    stretched_lpips: bool = switch(_CODE)
    """LPIPS of a region is fed pixels in [-3, 1]: pixels in [-1, 1] are normalised once more"""
    whole_background_clip: bool = switch(_CODE)
    """CLIP of the background is that of the whole picture: the mask is lost in an alpha channel"""
    area_weighted: bool = switch(_CODE)
    """means of LPIPS of foreground and background and of CLIP of the background are weighted by
    the region's share of the picture"""
    empty_counts: bool = switch(_CODE)
    """an empty region has a number: 0, and 1 for CLIP of the foreground; such are marked as
    imputed and in no drop"""
    alpha_dropped: bool = switch(_CODE)
    """transparency of targets and results is dropped instead of laid over white, so that the
    colours under it count"""
    no_qa: bool = switch(_CODE)
    """no question is asked, so there is no QA and no Overall"""
