import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from skimage import metrics as peer

from editjudge.pixels.metrics import PSNR_CAP, mse, psnr, psnr_from_mse
from editjudge.pixels.regions import Degenerate
from editjudge.pixels.ssim import ssim

BLACK = np.zeros((16, 16, 3), np.uint8)
WHITE = np.full((16, 16, 3), 255, np.uint8)
RNG = np.random.default_rng(7)


def noisy(image, spread):
    noise = RNG.integers(-spread, spread + 1, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def blob(height, width):
    """Draw a region with a hole, touching the border."""
    y, x = np.mgrid[:height, :width]
    distance = np.hypot(y - height / 3, x)
    return (distance > height / 8) & (distance < width * 0.8)


@st.composite
def pairs(draw, smallest=1):
    shape = (draw(st.integers(smallest, 24)), draw(st.integers(smallest, 24)), 3)
    images = arrays(np.uint8, shape)
    return draw(images), draw(images)


def peer_ssim(a, b, region=None):
    mean, full = peer.structural_similarity(a, b, channel_axis=2, data_range=255, full=True)
    return mean if region is None else full[3:-3, 3:-3][windows_within(region)].mean()


def windows_within(region):
    """Which windows lie wholly in a region, one by one: (H, W) to (H - 6, W - 6)."""
    return np.lib.stride_tricks.sliding_window_view(region, (7, 7)).all(axis=(2, 3))


@pytest.mark.parametrize("size", [(7, 7), (8, 7), (33, 21), (160, 301), (512, 512)])
@pytest.mark.parametrize("spread", [1, 40, 255])
@pytest.mark.parametrize("masked", [False, True])
def test_values_equal_scikit_image(photo, size, spread, masked):
    a = photo("astronaut")[: size[0], : size[1]]
    b = noisy(a, spread)
    region = blob(*size) if masked else None
    x, y = (a[region], b[region]) if masked else (a, b)
    assert mse(a, b, region) == pytest.approx(peer.mean_squared_error(x, y), abs=1e-6)
    ours = psnr(a, b, region)
    assert ours.value == pytest.approx(peer.peak_signal_noise_ratio(x, y, data_range=255), abs=1e-6)
    assert not ours.is_capped
    if masked and not windows_within(region).any():
        with pytest.raises(Degenerate, match="too thin"):
            ssim(a, b, region)
    else:
        assert ssim(a, b, region) == pytest.approx(peer_ssim(a, b, region), abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(BLACK, WHITE), (WHITE, BLACK), (WHITE, WHITE - 1)])
def test_flat_images_equal_scikit_image(a, b):
    assert mse(a, b) == peer.mean_squared_error(a, b)
    assert ssim(a, b) == pytest.approx(peer_ssim(a, b), abs=1e-6)


def test_the_ends_are_black_against_white_and_an_image_against_itself(photo):
    assert (mse(BLACK, WHITE), psnr(BLACK, WHITE)) == (255**2, (0.0, False))
    assert ssim(BLACK, WHITE) == pytest.approx(1e-4, abs=1e-6)
    image = photo("chelsea")
    both = image, image
    assert (mse(*both), psnr(*both), ssim(*both)) == (0.0, (PSNR_CAP, True), 1.0)


def test_psnr_is_capped_only_above_the_cap():
    at_cap = 255**2 / 10 ** (PSNR_CAP / 10)
    assert psnr_from_mse(at_cap * 0.99) == (PSNR_CAP, True)
    value, capped = psnr_from_mse(at_cap * 1.01)
    assert not capped
    assert 99.9 < value < PSNR_CAP


@pytest.mark.parametrize("error", [-1e-9, 65025.1, math.nan, math.inf])
def test_psnr_from_an_impossible_mse_is_refused(error):
    with pytest.raises(ValueError, match="within 0"):
        psnr_from_mse(error)


def test_the_sum_of_squares_does_not_overflow():
    side = 8192  # 64 megapixels, the largest image the client reads
    black, white = np.zeros((side, side, 3), np.uint8), np.full((side, side, 3), 255, np.uint8)
    region = np.ones((side, side), bool)
    region[0, 0] = False
    assert mse(black, white) == mse(black, white, region) == 255**2


def test_only_the_region_counts():
    edited = BLACK.copy()
    edited[:8] = 200
    region = np.zeros((16, 16), bool)
    region[8:] = True
    assert mse(BLACK, edited, region) == 0.0
    assert psnr(BLACK, edited, region).is_capped
    assert mse(BLACK, edited, ~region) == 200**2
    assert ssim(BLACK, edited, region) == 1.0
    assert ssim(BLACK, edited, ~region) == ssim(BLACK[:8], edited[:8])


@pytest.mark.parametrize("metric", [mse, ssim])
@pytest.mark.parametrize(
    ("reference", "edited", "region", "says"),
    [
        (BLACK, BLACK[:8], None, "reference 16x16, edited 16x8"),
        (BLACK.astype(np.float32), BLACK, None, "reference must be uint8"),
        (BLACK, BLACK[..., 0], None, "edited must be uint8"),
        (BLACK, BLACK[..., :2], None, "edited must be uint8"),
        (BLACK[:0], BLACK[:0], None, "reference must be uint8"),
        (BLACK, BLACK, np.ones((16, 8), bool), "region must be bool of shape"),
        (BLACK, BLACK, np.ones((16, 16), np.uint8), "region must be bool of shape"),
    ],
)
def test_malformed_input_is_refused(metric, reference, edited, region, says):
    with pytest.raises(ValueError, match=says) as caught:
        metric(reference, edited, region)
    assert not isinstance(caught.value, Degenerate)


@pytest.mark.parametrize("metric", [mse, psnr, ssim])
def test_an_empty_region_is_degenerate(metric):
    with pytest.raises(Degenerate, match="^the region is empty"):
        metric(BLACK, WHITE, np.zeros((16, 16), bool))


def test_ssim_without_a_window_is_degenerate():
    with pytest.raises(Degenerate, match="16x6, SSIM's window needs at least 7x7"):
        ssim(BLACK[:6], BLACK[:6])
    rim = np.ones((20, 20), bool)
    rim[6:-6, 6:-6] = False
    twenty = np.zeros((20, 20, 3), np.uint8)
    with pytest.raises(Degenerate, match="too thin for SSIM: no window of 7x7"):
        ssim(twenty, twenty, rim)
    rim[6, 6:-6] = True
    assert ssim(twenty, twenty, rim) == 1.0


@pytest.mark.parametrize("metric", [mse, ssim])
def test_views_count_as_their_values(photo, metric):
    a = photo("coffee")
    b = noisy(a, 30)
    region = blob(*a.shape[:2])
    views = a[::-2, ::-1, ::-1], b[::-2, ::-1, ::-1], region[::-2, ::-1]
    assert metric(*views) == metric(*(np.ascontiguousarray(view) for view in views))


@settings(max_examples=60)
@given(pairs(), st.data())
def test_mse_and_psnr_properties(pair, data):
    a, b = pair
    region = data.draw(arrays(np.bool_, a.shape[:2]).filter(np.any))
    error = mse(a, b, region)
    assert error == mse(b, a, region)
    assert 0.0 <= error <= 255**2
    value, capped = psnr(a, b, region)
    assert 0.0 <= value <= PSNR_CAP
    assert capped == (error == 0.0)
    assert mse(a, b, np.ones_like(region)) == mse(a, b)
    # Inversion and a permutation of pixels or channels leave every difference as it was.
    assert mse(255 - a, 255 - b, region) == error
    assert mse(a[::-1, :, ::-1], b[::-1, :, ::-1], region[::-1]) == error
    # The whole is the weighted mean of a region and the rest.
    inside, outside = region.sum(), (~region).sum()
    rest = mse(a, b, ~region) if outside else 0.0
    assert mse(a, b) == pytest.approx((inside * error + outside * rest) / region.size)


@st.composite
def regions(draw, height, width):
    """A region with a window in it, and whatever else."""
    region = draw(arrays(np.bool_, (height, width)))
    top, left = draw(st.integers(0, height - 7)), draw(st.integers(0, width - 7))
    region[top : top + draw(st.integers(7, height)), left : left + draw(st.integers(7, width))] = 1
    return region


@settings(max_examples=60)
@given(pairs(smallest=7), st.data())
def test_ssim_properties(pair, data):
    a, b = pair
    region = data.draw(regions(*a.shape[:2]))
    value = ssim(a, b, region)
    assert value == ssim(b, a, region)
    assert -1.0 <= value <= 1.0
    assert value == pytest.approx(peer_ssim(a, b, region), abs=1e-6)
    assert ssim(a, a, region) == 1.0
    assert ssim(a, b, np.ones_like(region)) == ssim(a, b)
    assert ssim(a[::-1, :, ::-1], b[::-1, :, ::-1], region[::-1]) == pytest.approx(value, abs=1e-9)


@settings(max_examples=60)
@given(pairs(smallest=7), st.data())
def test_ssim_of_a_region_sees_nothing_else(pair, data):
    """Where every pixel of the region is equal it is 1, whatever was done to the others."""
    a, b = pair
    region = data.draw(regions(*a.shape[:2]))
    kept = np.where(region[..., None], a, b)
    assert ssim(a, kept, region) == 1.0
    # Nor does what is done elsewhere move what is not equal.
    other = np.where(region[..., None], b, 255 - b)
    assert ssim(a, b, region) == ssim(np.where(region[..., None], a, 0), other, region)
