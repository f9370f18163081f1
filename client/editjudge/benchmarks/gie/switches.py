"""What the official code of GIE-Bench does otherwise than the paper."""

from ..switches import Switches, switch

_CLIP_SSIM = "masked_clip_ssim_evaluation.py"
_MSE_PSNR = "masked_mse_evaluation.py, masked_psnr_evaluation.py"
_VQA = "GPT-4o_VQA_evaluation.py"


class GieSwitches(Switches, use_attribute_docstrings=True):
    """All are on in the protocol `official`."""

    original_prompts: bool = switch(_VQA)
    """The official prompts, imported; labels and order of the images are theirs too"""
    exact_match: bool = switch(_VQA)
    """A reply is right where it equals the expected answer to the letter; any other is wrong,
    even one that is no option"""
    both_images: bool = switch(_VQA)
    """The judge sees the source beside the edited image for every question"""
    options_in_line: bool = switch(_VQA)
    """The options are told in one line, commas between them, though 79 records have options that
    hold commas"""
    any_alignment: bool = switch(_MSE_PSNR)
    """Whatever transform is found is taken for the alignment; only where there is none the edit
    drops out of MSE and PSNR; otherwise one without a plausible transform is measured unaligned"""
    align_as_is: bool = switch(_MSE_PSNR)
    """An edit of another aspect ratio is aligned as it is, though no similarity transform undoes
    a squeeze; otherwise it is resized to its source first"""
    unmasked_pixels: bool = switch(_MSE_PSNR)
    """MSE and PSNR are those of the whole image: masks of 0 and 1 are compared with 128"""
    ssim_blacked_out: bool = switch(_CLIP_SSIM)
    """SSIM of grey 224x224 squares, black inside the mask; what is black in both counts as 1"""
    clip_touched: bool = switch(_CLIP_SSIM)
    """Masked CLIP of 224x224 squares, the mean over every patch that the region touches"""
    empty_is_kept: bool = switch(_CLIP_SSIM)
    """Masked CLIP counts as 1 where the mask leaves nothing outside it"""
    uncalibrated: bool = switch("masked_mse_evaluation.py")
    """No inverted and normalised MSE: the official code has raw means only"""
