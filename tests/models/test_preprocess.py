import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import BitImageProcessorPil, CLIPImageProcessorPil

from editjudge_services.runtime import preprocess

IMAGENET = {"image_mean": preprocess.IMAGENET[0], "image_std": preprocess.IMAGENET[1]}
SHAPES = [(224, 224), (300, 500), (500, 300), (97, 131), (40, 900), (768, 768), (257, 256), (9, 7)]


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def by_transformers(processor, image):
    return processor(images=Image.fromarray(image), return_tensors="np")["pixel_values"][0]


@pytest.mark.parametrize("shape", SHAPES)
def test_clip_equals_its_processor(shape):
    image = picture(*shape)
    expected = by_transformers(CLIPImageProcessorPil(), image)
    got = preprocess.CLIP_CROP(image)
    assert got.dtype == np.float32
    assert np.array_equal(got, expected)


def by_openai(image):
    """What `clip.load` prepares with: torchvision's `Resize`, `CenterCrop`, `Normalize`."""
    picture = Image.fromarray(image)
    width, height = picture.size
    longer = int(224 * max(width, height) / min(width, height))
    size = (224, longer) if width <= height else (longer, 224)
    resized = np.asarray(picture.resize(size, Image.Resampling.BICUBIC))
    top, left = (int(round((edge - 224) / 2.0)) for edge in resized.shape[:2])  # noqa: RUF046
    unit = np.float32(resized[top : top + 224, left : left + 224]) / np.float32(255)
    mean, deviation = np.float32(preprocess.CLIP[0]), np.float32(preprocess.CLIP[1])
    return ((unit - mean) / deviation).transpose(2, 0, 1)


CUT = [(224, 224 + more) for more in range(9)] + [(500, 375), (333, 500), (1024, 683), *SHAPES]


@pytest.mark.parametrize("shape", CUT)
def test_clip_equals_openais_own(shape):
    for image in (picture(*shape), picture(*shape[::-1])):
        assert np.array_equal(preprocess.CLIP_CROP(image), by_openai(image))


@pytest.mark.parametrize("more", range(1, 9))
def test_where_the_middle_of_transformers_is_another(more):
    """Where 3, 7, … pixels are cut off; DINOv2, whose processor is theirs, keeps to it."""
    image = picture(224, 224 + more)
    theirs = by_transformers(CLIPImageProcessorPil(), image)
    assert np.array_equal(preprocess.CLIP_CROP(image), theirs) == (more % 4 != 3)


@pytest.mark.parametrize("shape", SHAPES)
def test_dinov2_equals_its_processor(shape):
    processor = BitImageProcessorPil(**IMAGENET, size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224})
    image = picture(*shape)
    assert np.array_equal(preprocess.DINOV2_CROP(image), by_transformers(processor, image))


@pytest.mark.parametrize(
    ("rule", "resample"), [(preprocess.CLIP_SQUASH, "LANCZOS"), (preprocess.DINOV2_SQUASH, "BICUBIC")]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_squash_equals_the_processor_on_the_resized_image(rule, resample, shape):
    image = picture(*shape)
    squashed = Image.fromarray(image).resize((224, 224), Image.Resampling[resample])
    mean, deviation = rule.statistics
    processor = CLIPImageProcessorPil(image_mean=mean, image_std=deviation)
    assert np.array_equal(rule(image), by_transformers(processor, np.asarray(squashed)))


@pytest.mark.parametrize("shape", SHAPES)
def test_dinov3_equals_torch(shape):
    image = picture(*shape)
    unit = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
    resized = torch.nn.functional.interpolate(
        unit, size=(224, 224), mode="bilinear", antialias=True, align_corners=False
    )
    expected = resized[0].permute(1, 2, 0).numpy()
    assert np.abs(preprocess.resize_bilinear(image.astype(np.float32) / 255, 224) - expected).max() < 1e-6
    mean, deviation = np.float32(preprocess.IMAGENET[0]), np.float32(preprocess.IMAGENET[1])
    normalised = ((expected - mean) / deviation).transpose(2, 0, 1)
    # Normalising divides by 0.22 and more.
    assert np.abs(preprocess.DINOV3_SQUASH(image) - normalised).max() < 3e-6


@pytest.mark.parametrize(
    "rule", [preprocess.CLIP_CROP, preprocess.CLIP_SQUASH, preprocess.DINOV2_CROP, preprocess.DINOV3_SQUASH]
)
@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1)])
def test_the_smallest_images_pass(rule, shape):
    got = rule(picture(*shape))
    assert got.shape == (3, 224, 224)
    assert np.isfinite(got).all()


def test_patches_go_row_by_row():
    mask = np.zeros((224, 224), dtype=bool)
    mask[32:64, 96:128] = True
    expected = np.zeros(49, np.float32)
    expected[1 * 7 + 3] = 1
    assert np.array_equal(preprocess.patch_weights(mask, 7), expected)


def test_weights_are_the_covered_fractions():
    mask = np.random.default_rng(1).random((448, 224)) < 0.3
    expected = mask.reshape(14, 32, 14, 16).mean((1, 3)).reshape(-1)
    assert np.allclose(preprocess.patch_weights(mask, 14), expected, atol=1e-6)


SIDES = st.integers(1, 300)


@given(SIDES, SIDES, st.sampled_from([7, 14, 16]), st.integers(0, 2**32))
@settings(max_examples=40)
def test_no_pixel_is_lost_whatever_the_size(height, width, grid, seed):
    mask = np.random.default_rng(seed).random((height, width)) < 0.2
    weights = preprocess.patch_weights(mask, grid)
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert weights.mean() == pytest.approx(mask.mean(), abs=1e-5)
    assert np.allclose(preprocess.patch_weights(np.ones_like(mask), grid), 1, atol=1e-6)


@pytest.mark.parametrize("place", [(0, 0), (500, 300), (999, 699), (142, 101)])
def test_a_single_pixel_touches_its_patch(place):
    mask = np.zeros((1000, 700), dtype=bool)
    mask[place] = True
    weights = preprocess.patch_weights(mask, 14).reshape(14, 14)
    # A pixel that a patch's edge cuts belongs to both.
    assert weights[int(place[0] * 14 / 1000), int(place[1] * 14 / 700)] > 0
    assert 1 <= (weights > 0).sum() <= 4


def test_the_crop_sees_the_middle_square():
    mask = np.zeros((100, 300), dtype=bool)
    mask[:, :90] = True
    assert not preprocess.CLIP_CROP.crop_mask(mask).any()
    assert preprocess.CLIP_SQUASH.crop_mask(mask).any()
    mask[:, 100:110] = True
    assert preprocess.CLIP_CROP.crop_mask(mask).any()
    # DINOv2 cuts an eighth off the shorter side too.
    assert not preprocess.DINOV2_CROP.crop_mask(mask & (np.arange(300) < 106)).any()


def test_black_outside():
    image, mask = picture(5, 6), np.zeros((5, 6), dtype=bool)
    mask[2:4, 1] = True
    got = preprocess.black_out(image, mask)
    assert got.dtype == np.uint8
    assert np.array_equal(got[mask], image[mask])
    assert not got[~mask].any()
