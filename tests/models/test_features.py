import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from transformers import BitImageProcessorPil, CLIPImageProcessorPil

from editjudge.base.errors import Abstention, ConfigError
from editjudge_services.features import vision_service
from editjudge_services.features.recipe import RECIPES
from editjudge_services.features.vision_service import ClipVitB32, DinoV2, DinoV3
from editjudge_services.runtime.cache import BoundedCache
from editjudge_services.runtime.onnx import open_network
from editjudge_services.runtime.preprocess import black_out
from editjudge_services.runtime.specialist import BadRequest, Request
from editjudge_services.zoo.artefact import checkpoint_dir, load_artefact
from editjudge_services.zoo.checkpoint import hash_files
from editjudge_services.zoo.export import export
from editjudge_services.zoo.manifest import find_entry

from .builders import blocks, load

KINDS = ENTRIES = {kind.entry: kind for kind in (DinoV2, DinoV3, ClipVitB32)}
GRIDS = {"dinov2-small": 16, "dinov3-vitb16": 14, "clip-vit-base-patch32": 7}


def load_features(entry, precision="fp32"):
    return load(KINDS[entry], precision)


@pytest.fixture(params=list(KINDS))
def entry(request):
    return request.param


@pytest.fixture
def specialist(entry):
    return load_features(entry)


def picture(height=448, width=448, seed=0):
    return blocks(height, width, seed)


def make_request(image, mask=None, region="pool"):
    return Request({"IMAGE": image, "MASK": mask}, {"region": region})


def embedding(specialist, *request):
    (answer,) = specialist.infer([make_request(*request)])
    assert answer["EMBEDDING"].dtype == np.float32
    return answer["EMBEDDING"]


def reference(entry, image, weights=None):
    """The embedding by torch, from transformers' own processors where there are any."""
    model = RECIPES[entry].load(checkpoint_dir(entry))
    rule = KINDS[entry].whole if weights is None else KINDS[entry].squash
    pixels = torch.from_numpy(rule(image))[None]
    if weights is None and entry == "clip-vit-base-patch32":
        pixels = CLIPImageProcessorPil()(image, return_tensors="pt")["pixel_values"]
    if weights is None and entry == "dinov2-small":
        mean, deviation = rule.statistics
        sizes = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}
        processor = BitImageProcessorPil(**sizes, image_mean=mean, image_std=deviation)
        pixels = processor(image, return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        output = model(pixel_values=pixels)
        tokens = output.last_hidden_state[0]
        first = 5 if entry == "dinov3-vitb16" else 1
        if weights is None:
            clip = entry == "clip-vit-base-patch32"
            pooled = output.image_embeds[0] if clip else tokens[0]
        else:
            pooled = pool(tokens[first:], weights)
            if entry == "clip-vit-base-patch32":
                pooled = model.visual_projection(model.vision_model.post_layernorm(pooled))
    return normalize(pooled, dim=-1).numpy()


def pool(tokens, weights):
    column = torch.from_numpy(weights.astype(np.float32)).reshape(-1, 1)
    return (tokens * column).sum(0) / column.sum()


def cover_patches(mask, entry):
    """Fractions of the patches of a square mask whose side is a multiple of the grid."""
    grid = GRIDS[entry]
    step = mask.shape[0] // grid
    return mask.reshape(grid, step, grid, step).mean((1, 3))


def disc(side=448):
    y, x = np.mgrid[:side, :side]
    return (x - side / 3) ** 2 + (y - side / 2) ** 2 < (side / 5) ** 2


@pytest.mark.parametrize("shape", [(448, 448), (300, 200), (190, 330)])
def test_the_whole_image(specialist, entry, shape):
    image = picture(*shape)
    got = embedding(specialist, image)
    assert np.abs(got - reference(entry, image)).max() < 1e-5
    assert np.linalg.norm(got) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("region", ["pool", "pool_any"])
def test_a_region(specialist, entry, region):
    image, mask = picture(), disc()
    weights = cover_patches(mask, entry)
    if region == "pool_any":
        weights = weights > 0
    expected = reference(entry, image, weights)
    got = embedding(specialist, image, mask, region)
    assert np.abs(got - expected).max() < 1e-5
    assert np.abs(got - embedding(specialist, image, ~mask, region)).max() > 1e-3


def test_zeroed_pixels(specialist, entry):
    image, mask = picture(), disc()
    expected = reference(entry, black_out(image, mask))
    assert np.abs(embedding(specialist, image, mask, "zero") - expected).max() < 1e-5


def test_a_full_mask_is_the_mean_of_all_patches_or_the_whole_image(specialist, entry):
    image, full = picture(), np.ones((448, 448), dtype=bool)
    expected = reference(entry, image, cover_patches(full, entry))
    for region in ("pool", "pool_any"):
        assert np.abs(embedding(specialist, image, full, region) - expected).max() < 1e-5
    assert np.array_equal(embedding(specialist, image, full, "zero"), embedding(specialist, image))


@pytest.mark.parametrize("region", ["pool", "pool_any", "zero"])
def test_an_empty_mask_has_no_embedding(specialist, region):
    image = picture()
    nowhere = np.zeros((448, 448), dtype=bool)
    empty, good = specialist.infer([make_request(image, nowhere, region), make_request(image)])
    assert isinstance(empty, Abstention)
    assert empty.kind == "degenerate"
    assert np.array_equal(good["EMBEDDING"], embedding(specialist, image))


def test_a_region_that_the_crop_cuts_off_is_no_black_image():
    image, edge = picture(100, 300), np.zeros((100, 300), dtype=bool)
    edge[:, :50] = True
    (answer,) = load_features("clip-vit-base-patch32").infer([make_request(image, edge, "zero")])
    assert isinstance(answer, Abstention)


def test_a_mask_of_another_size_is_refused(specialist):
    with pytest.raises(BadRequest, match="MASK: 20x10, but IMAGE is 448x448"):
        specialist.infer([make_request(picture(), np.ones((10, 20), dtype=bool))])


def test_a_batch_is_its_members(specialist):
    masks = [None, disc(), ~disc()]
    requests = [make_request(picture(seed=i), masks[i % 3]) for i in range(6)]
    together = [one["EMBEDDING"] for one in specialist.infer(requests)]
    alone = [load_features(specialist.entry).infer([one])[0]["EMBEDDING"] for one in requests]
    assert np.abs(np.stack(together) - np.stack(alone)).max() < 1e-6


def test_a_second_mask_costs_no_run(specialist, monkeypatch):
    image = picture()
    first = embedding(specialist, image, disc())
    runs = []
    forward = specialist._forward
    monkeypatch.setattr(specialist, "_forward", lambda inputs: runs.append(1) or forward(inputs))
    assert (specialist.cache.hits, specialist.cache.misses) == (0, 1)
    embedding(specialist, image.copy(), ~disc())
    assert np.array_equal(embedding(specialist, image, disc()), first)
    assert (specialist.cache.hits, specialist.cache.misses, len(runs)) == (2, 1, 0)
    changed = image.copy()
    changed[0, 0, 0] ^= 1
    embedding(specialist, changed, disc())
    assert (specialist.cache.misses, len(runs)) == (2, 1)


def test_one_image_in_a_batch_runs_once(specialist):
    image = picture()
    specialist.infer([make_request(image, disc()), make_request(image, ~disc()), make_request(image, disc())])
    assert (specialist.cache.hits, specialist.cache.misses) == (2, 1)


def test_the_whole_and_a_region_share_a_run_only_where_both_squash(specialist, entry):
    embedding(specialist, picture())
    embedding(specialist, picture(), disc())
    assert specialist.cache.misses == (1 if entry == "dinov3-vitb16" else 2)


def test_the_cache_can_be_turned_off(monkeypatch):
    monkeypatch.setenv(vision_service.CACHE_MIB, "0")
    specialist = load_features("dinov2-small")
    first = embedding(specialist, picture(), disc())
    assert np.array_equal(embedding(specialist, picture(), disc()), first)
    assert (specialist.cache.hits, specialist.cache.misses) == (0, 2)


def test_the_least_recently_used_features_go_first():
    cache = BoundedCache(2 * 40)
    features = {key: (np.full(10, i, np.float32),) for i, key in enumerate("abc")}
    for key in "ab":
        cache.put(key, features[key], 40)
    cache.get("a")
    for key in "cc":
        cache.put(key, features[key], 40)
    assert [cache.get(key) for key in "abc"] == [features["a"], None, features["c"]]


def test_the_export_is_as_close_as_stated(entry):
    artefact = load_artefact(entry, "fp32")
    assert artefact.parity.largest_difference <= artefact.parity.tolerance == 1e-5
    assert artefact.fingerprint == RECIPES[entry].fingerprint(artefact.folder, artefact.precision)
    assert len(artefact.fingerprint) == 8


def test_the_same_checkpoint_gives_the_same_files(entry, tmp_path):
    RECIPES[entry].export(checkpoint_dir(entry), tmp_path, "fp32", None)
    assert hash_files(tmp_path) == load_artefact(entry, "fp32").files


@pytest.mark.usefixtures("bf16_processor")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_is_close_and_another_thing(entry, precision):
    export(find_entry(entry), precision)
    artefact = load_artefact(entry, precision)
    assert artefact.parity.largest_difference <= artefact.parity.tolerance == 1e-3
    assert artefact.fingerprint == pytest.approx(
        RECIPES[entry].fingerprint(artefact.folder, artefact.precision), abs=1e-3
    )
    image, mask = picture(), disc()
    exact, close = load_features(entry), load_features(entry, precision)
    for request in ([image], [image, mask]):
        a, b = embedding(exact, *request), embedding(close, *request)
        assert 0 < 1 - float(a.astype(float) @ b) < 1e-3
    assert artefact.identity["precision"] == precision
    assert artefact.identity["parity"] == "1 - cosine within 0.001 on 4 pictures (made) on cpu"


def test_products_alone_are_halved():
    onnx = pytest.importorskip("onnx")
    export(find_entry("clip-vit-base-patch32"), "fp16")
    graph = onnx.load(load_artefact("clip-vit-base-patch32", "fp16").folder / "model.onnx").graph
    halves = {one.name for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT16}
    products = [node for node in graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    assert len(halves) > 10
    assert all(name.endswith("_fp16") for node in products for name in node.input)
    assert halves <= {name for node in products for name in node.input}


def test_tf32_is_refused_where_there_is_no_gpu():
    with pytest.raises(ConfigError, match="tf32 is an arithmetic of GPUs.*serve fp32"):
        export(find_entry("dinov2-small"), "tf32")


def test_a_processor_without_bf16_is_no_quiet_fp32(monkeypatch):
    openvino = pytest.importorskip("openvino")
    monkeypatch.setattr(openvino.Core, "get_property", lambda *_: ["FP32"])
    path = load_artefact("dinov2-small", "fp32").folder / "model.onnx"
    with pytest.raises(ConfigError, match="no bf16 arithmetic"):
        open_network(path, "bf16")


@pytest.mark.parametrize(
    ("variable", "value"), [("THREADS", "-1"), ("THREADS", "x"), ("DEVICE", "tpu"), ("DEVICE", "cuda")]
)
def test_settings_that_cannot_be_used_are_refused(monkeypatch, variable, value):
    monkeypatch.setenv(f"EDITJUDGE_ONNX_{variable}", value)
    path = load_artefact("dinov2-small", "fp32").folder / "model.onnx"
    with pytest.raises(ConfigError, match=f"EDITJUDGE_ONNX_{variable}"):
        open_network(path, "fp32")


def test_dinov3_has_no_branches():
    onnx = pytest.importorskip("onnx")
    model = onnx.load(load_artefact("dinov3-vitb16", "fp32").folder / "model.onnx")
    assert "If" not in {node.op_type for node in model.graph.node}


def test_other_weights_than_declared_are_refused(entry):
    identity = load_artefact(entry, "fp32").identity
    for declared, reason in [
        ({**identity, "weights": "sha256:0"}, "declares sha256:0"),
        ({"precision": "fp32"}, "none declared"),
        ({**identity, "precision": "int3"}, "no such precision"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            KINDS[entry]().load(declared)


def test_a_damaged_file_is_refused():
    artefact = load_artefact("clip-vit-base-patch32", "fp32")
    path = artefact.folder / "head.onnx"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    try:
        with pytest.raises(ConfigError, match=r"head\.onnx was changed"):
            ClipVitB32().load(artefact.identity)
    finally:
        path.write_bytes(content)


def test_another_architecture_is_refused(entry, tmp_path):
    other = next(one for one in KINDS if one != entry)
    with pytest.raises(ConfigError):
        RECIPES[entry].export(checkpoint_dir(other), tmp_path, "fp32", None)


def test_services_need_no_torch():
    code = """
import sys
from editjudge_services.features.vision_service import ClipVitB32, DinoV2, DinoV3
from editjudge_services.perceptual import lpips_service
for kind in (ClipVitB32, DinoV2, DinoV3):
    kind().load(dict(weights=sys.argv.pop(1)))
found = {"torch", "transformers", "onnx", "torchvision"} & set(sys.modules)
assert not found, found
"""
    kinds = (ClipVitB32, DinoV2, DinoV3)
    digests = [load_artefact(kind.entry, "fp32").identity["weights"] for kind in kinds]
    subprocess.run([sys.executable, "-c", code, *digests], check=True)
