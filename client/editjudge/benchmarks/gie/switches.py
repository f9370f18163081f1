"""What the official code of GIE-Bench does otherwise than the paper."""

from __future__ import annotations

from dataclasses import dataclass

from ..switches import Switches, switch
from .official_file import SIDE

_CLIP_SSIM = "masked_clip_ssim_evaluation.py"
_MSE_PSNR = "masked_mse_evaluation.py, masked_psnr_evaluation.py"
_VQA = "GPT-4o_VQA_evaluation.py"


@dataclass(frozen=True, slots=True)
class GieSwitches(Switches):
    """All are on in the protocol `official`."""

    original_prompts: bool = switch(
        "The official prompts, imported; labels and order of the images are theirs too",
        _VQA,
    )
    exact_match: bool = switch(
        "A reply is right where it equals the expected answer to the letter; any other is wrong,"
        " even one that is no option",
        _VQA,
    )
    both_images: bool = switch(
        "The judge sees the source beside the edited image for every question", _VQA
    )
    options_in_line: bool = switch(
        "The options are told in one line, commas between them, though 79 records have options that"
        " hold commas",
        _VQA,
    )
    any_alignment: bool = switch(
        "Whatever transform is found is taken for the alignment; only where there is none the edit"
        " drops out of MSE and PSNR; otherwise one without a plausible transform is measured"
        " unaligned",
        _MSE_PSNR,
    )
    align_as_is: bool = switch(
        "An edit of another aspect ratio is aligned as it is, though no similarity transform undoes"
        " a squeeze; otherwise it is resized to its source first",
        _MSE_PSNR,
    )
    unmasked_pixels: bool = switch(
        "MSE and PSNR are those of the whole image: masks of 0 and 1 are compared with 128",
        _MSE_PSNR,
    )
    ssim_blacked_out: bool = switch(
        f"SSIM of grey {SIDE}x{SIDE} squares, black inside the mask; what is black in both counts"
        " as 1",
        _CLIP_SSIM,
    )
    clip_touched: bool = switch(
        f"Masked CLIP of {SIDE}x{SIDE} squares, the mean over every patch that the region touches",
        _CLIP_SSIM,
    )
    empty_is_kept: bool = switch(
        "Masked CLIP counts as 1 where the mask leaves nothing outside it", _CLIP_SSIM
    )
    uncalibrated: bool = switch(
        "No inverted and normalised MSE: the official code has raw means only",
        "masked_mse_evaluation.py",
    )
