import sys
import types

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from editjudge.base.errors import Abstention, ConfigError
from editjudge_services.perceptual import lpips_service
from editjudge_services.perceptual.lpips_service import LpipsAlex, LpipsVgg
from editjudge_services.perceptual.network import to_signed, to_stretched
from editjudge_services.perceptual.recipe import RECIPES
from editjudge_services.perceptual.torch_lpips import make_trunk
from editjudge_services.runtime.preprocess import black_out
from editjudge_services.runtime.specialist import BadRequest, Request
from editjudge_services.zoo.artefact import checkpoint_dir, load_artefact
from editjudge_services.zoo.checkpoint import hash_files

from .builders import blocks, load

KINDS = ENTRIES = {kind.entry: kind for kind in (LpipsVgg, LpipsAlex)}


@pytest.fixture(scope="module")
def package():
    """The authors' package, which imports torchvision for the two trunks only."""

    class Holder(nn.Module):
        def __init__(self, features):
            super().__init__()
            self.features = features

    torchvision, models = types.ModuleType("torchvision"), types.ModuleType("torchvision.models")
    torchvision.models = models
    models.vgg16 = lambda pretrained: Holder(make_trunk("vgg")[0])
    models.alexnet = lambda pretrained: Holder(make_trunk("alex")[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torchvision", torchvision)
        patch.setitem(sys.modules, "torchvision.models", models)
        import lpips

        yield lpips
        for name in [one for one in sys.modules if one.partition(".")[0] == "lpips"]:
            patch.delitem(sys.modules, name)


@pytest.fixture(params=list(KINDS))
def entry(request):
    return request.param


@pytest.fixture(scope="module")
def specialists(_zoo):
    return {entry: load(kind) for entry, kind in KINDS.items()}


@pytest.fixture
def specialist(entry, specialists):
    return specialists[entry]


def picture(height=96, width=128, seed=0):
    return blocks(height, width, seed)


def make_request(a, b, mask=None, region="weight"):
    return Request({"IMAGE_A": a, "IMAGE_B": b, "MASK": mask}, {"region": region})


def distance(specialist, *request):
    (value,) = distances(specialist, make_request(*request))
    return value


def distances(specialist, *requests):
    answers = [one["DISTANCE"] for one in specialist.infer(requests)]
    assert {(one.dtype, one.shape) for one in answers} == {(np.dtype("float32"), (1,))}
    return [float(one[0]) for one in answers]


def reference(entry, a, b):
    """Distance and map by torch."""
    tensors = [torch.from_numpy(to_signed(one))[None] for one in (a, b)]
    with torch.inference_mode():
        score, where = RECIPES[entry].load(checkpoint_dir(entry))(*tensors)
    return float(score[0]), where[0, 0].numpy()


def half(height=96, width=128):
    mask = np.zeros((height, width), dtype=bool)
    mask[:, : width // 2] = True
    return mask


A, B, C = (picture(seed=seed) for seed in range(3))


def equal_weights(model, theirs):
    for stage in range(1, 6):
        for index, layer in getattr(theirs.net, f"slice{stage}").named_children():
            if isinstance(layer, nn.Conv2d):
                layer.load_state_dict(model.features[int(index)].state_dict())


@pytest.mark.parametrize("size", [(96, 128), (67, 71)])
def test_torch_equals_the_package_bit_for_bit(entry, package, size):
    model = RECIPES[entry].load(checkpoint_dir(entry))
    net = entry.removeprefix("lpips-")
    a, b = (torch.rand(2, 3, *size) * 2 - 1 for _ in range(2))
    with torch.inference_mode():
        score, where = model(a, b)
        for spatial, ours in ((False, score.reshape(2, 1, 1, 1)), (True, where)):
            theirs = package.LPIPS(net=net, pnet_rand=True, spatial=spatial, verbose=False)
            equal_weights(model, theirs)
            assert torch.equal(ours, theirs(a, b))


def test_pixels_are_the_packages(package):
    assert np.array_equal(to_signed(A), package.im2tensor(A)[0].numpy())


@pytest.mark.parametrize("size", [(96, 128), (64, 64), (65, 131)])
def test_whole_images(specialist, entry, size):
    a, b = picture(*size), picture(*size, seed=1)
    assert distance(specialist, a, b) == pytest.approx(reference(entry, a, b)[0], abs=1e-5)
    assert distance(specialist, a, b) > 0.01
    assert distance(specialist, a, a) == 0


def test_the_map_is_averaged_over_the_region(specialist, entry):
    where = reference(entry, A, B)[1]
    for mask in (half(), ~half(), np.ones_like(half())):
        expected = where[mask].mean(dtype=float)
        assert distance(specialist, A, B, mask) == pytest.approx(expected, abs=1e-5)


def test_what_lies_far_outside_the_region_does_not_count(specialist):
    changed = A.copy()
    changed[-8:, -8:] ^= 255
    corner = np.zeros((96, 128), dtype=bool)
    corner[:1, :1] = True
    assert distance(specialist, A, changed, corner) < 0.05 * distance(specialist, A, changed, ~half())


def test_pixels_outside_are_black(specialist, entry):
    expected = reference(entry, black_out(A, half()), black_out(B, half()))[0]
    assert distance(specialist, A, B, half(), "zero") == pytest.approx(expected, abs=1e-5)
    full = np.ones_like(half())
    assert distance(specialist, A, B, full, "zero") == distance(specialist, A, B)


def test_large_even_images_keep_their_digits(specialist, entry):
    a, b = (np.full((384, 384, 3), level, dtype=np.uint8) for level in (0, 255))
    assert distance(specialist, a, b) == pytest.approx(reference(entry, a, b)[0], abs=1e-6)


@pytest.mark.parametrize("size", [(700, 330), (251, 905), (640, 517)])
def test_a_large_picture_is_compared_in_parts(specialist, entry, monkeypatch, size):
    a, b = picture(*size), picture(*size, seed=1)
    mask = np.zeros(size, dtype=bool)
    mask[40 : size[0] // 2, 30:300] = True
    whole, region = distances(specialist, make_request(a, b), make_request(a, b, mask))
    seen = []
    taps = specialist._network.taps
    monkeypatch.setattr(specialist._network, "taps", lambda x: seen.append(x.shape[2:]) or taps(x))
    monkeypatch.setattr(lpips_service, "_SIDE", 320)
    in_parts = distances(specialist, make_request(a, b), make_request(a, b, mask))
    assert in_parts == pytest.approx([whole, region], abs=1e-6)
    assert len(seen) > 4
    assert max(map(max, seen)) <= 336


@pytest.mark.parametrize("region", ["weight", "zero"])
def test_an_empty_mask_has_no_distance(specialist, region):
    empty, good = specialist.infer([make_request(A, B, np.zeros_like(half()), region), make_request(A, B)])
    assert isinstance(empty, Abstention)
    assert empty.kind == "degenerate"
    assert good["DISTANCE"][0] == distance(specialist, A, B)


def test_a_batch_is_its_members(specialist, monkeypatch):
    monkeypatch.setattr("editjudge_services.perceptual.lpips_service._PIXELS_AT_ONCE", 30_000)
    other = [picture(80, 72, seed) for seed in (2, 3)]
    whole = [make_request(A, B), make_request(*other), make_request(B, A)]
    parts = [make_request(A, B, half()), make_request(A, B, half(), "zero"), make_request(*other, half(80, 72))]
    requests = [each for pair in zip(whole, parts, strict=True) for each in pair]
    together = distances(specialist, *requests)
    alone = [distances(specialist, one)[0] for one in requests]
    assert together == pytest.approx(alone, abs=1e-6)


def test_what_cannot_be_compared_is_refused(specialist):
    small = picture(15, 128)
    for request, reason in [
        (make_request(A, picture(96, 120)), "IMAGE_A is 128x96, but IMAGE_B is 120x96"),
        (make_request(A, B, np.ones((10, 20), dtype=bool)), "MASK is 20x10, but IMAGE_A is 128x96"),
        (make_request(small, small), "IMAGE_A is 128x15; the sides must have"),
    ]:
        with pytest.raises(BadRequest, match=reason):
            specialist.infer([request])


def test_the_smallest_images(specialist):
    a, b = (picture(specialist.smallest, specialist.smallest, seed) for seed in (0, 1))
    assert distance(specialist, a, b) > 0


def test_the_export_is_as_close_as_stated(entry):
    artefact = load_artefact(entry, "fp32")
    assert artefact.parity.largest_difference <= artefact.parity.tolerance == 1e-5
    assert artefact.fingerprint == RECIPES[entry].fingerprint(artefact.folder, artefact.precision)
    assert len(artefact.fingerprint) == 1


def test_checkpoints_may_be_whole_and_of_either_format(tmp_path, entry):
    recipe = RECIPES[entry]
    weights = {f"features.{k}": v for k, v in make_trunk(recipe.net)[0].state_dict().items()}
    weights["classifier.6.bias"] = torch.zeros(1000)
    save_file(weights, tmp_path / "model.safetensors")
    loaded = recipe.load(tmp_path).features.state_dict()
    assert all(
        torch.equal(loaded[k.removeprefix("features.")], v) for k, v in weights.items() if k.startswith("features.")
    )


def test_other_checkpoints_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="not the layers of vgg"):
        RECIPES["lpips-vgg"].load(checkpoint_dir("lpips-alex"))
    with pytest.raises(ConfigError, match="0 files of weights"):
        RECIPES["lpips-vgg"].load(tmp_path)
    torch.save([1, 2], tmp_path / "odd.pth")
    with pytest.raises(ConfigError, match="no weights by name"):
        RECIPES["lpips-vgg"].load(tmp_path)


@pytest.mark.usefixtures("bf16_processor")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("entry", KINDS)
def test_half_precision_is_close_and_another_thing(entry, tmp_path, precision):
    folder = tmp_path / precision
    folder.mkdir()
    exported = RECIPES[entry].export(checkpoint_dir(entry), folder, precision, None)
    exact = load_artefact(entry, "fp32")
    assert 0 < exported.largest_difference <= exported.tolerance == 1e-2
    said = RECIPES[entry].fingerprint(folder, precision)
    assert said == pytest.approx(exact.fingerprint, abs=1e-2)
    assert (hash_files(folder) == exact.files) == (precision == "bf16")


class Counting(LpipsAlex):
    """Counts the images that its trunk sees."""

    ran = 0

    def load(self, identity):
        super().load(identity)
        taps = self._network.taps

        def count_images(images):
            self.ran += len(images)
            return taps(images)

        self._network.taps = count_images


def test_a_target_runs_once_for_all_that_is_compared_with_it():
    specialist = load(Counting)
    first = distances(specialist, make_request(A, B), make_request(A, B, half(), "zero"))
    assert specialist.ran == 4
    assert distances(specialist, make_request(A.copy(), C)) != first[:1]
    assert specialist.ran == 5
    again = distances(specialist, make_request(A, B), make_request(A, B, half(), "zero"))
    assert again == pytest.approx(first, abs=1e-7)
    assert specialist.ran == 7
    changed = A.copy()
    changed[0, 0, 0] ^= 1
    distance(specialist, changed, B)
    assert specialist.ran == 9


def test_regions_of_the_map_share_one_run():
    specialist = load(Counting)
    _, *parts = distances(specialist, make_request(A, B), make_request(A, B, half()), make_request(A, B, ~half()))
    assert specialist.ran == 2
    whole = distance(specialist, A, B, np.ones_like(half()))
    assert sum(parts) / 2 == pytest.approx(whole, abs=1e-6)


def test_nothing_is_kept_without_a_budget(monkeypatch):
    monkeypatch.setenv(lpips_service.CACHE_MIB, "0")
    specialist = load(Counting)
    for _ in range(2):
        distance(specialist, A, B)
    assert specialist.ran == 4


def test_the_released_codes_range():
    """As it is done there: to [-1, 1], times the mask, then normalised once more."""
    model = RECIPES["lpips-alex"].load(checkpoint_dir("lpips-alex"))
    pair = [2 * (torch.from_numpy(to_signed(x))[None] * torch.from_numpy(half())) - 1 for x in (A, B)]
    with torch.inference_mode():
        due = float(model(*pair)[0])
    specialist = load(LpipsAlex)
    got = distance(specialist, A, B, half(), "stretched")
    assert got == pytest.approx(due, abs=1e-5)
    assert abs(got - distance(specialist, A, B, half(), "zero")) > 1e-3
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
    inside = to_stretched(levels, np.ones((16, 16), bool))
    assert (inside.min(), inside.max()) == (-3, 1)
    assert np.unique(to_stretched(levels, np.zeros((16, 16), bool))).tolist() == [-1]
    assert (to_signed(levels).min(), to_signed(levels).max()) == (-1, 1)
