import io
import shutil

import numpy as np
import pytest
import torch
from PIL import Image as Pil
from safetensors.torch import load_file, save_file

from editjudge.base.contracts import SEGMENTER
from editjudge.base.errors import ConfigError
from editjudge.base.images import load_mask
from editjudge_services.runtime.specialist import BadRequest, Request
from editjudge_services.segmentation import masks
from editjudge_services.segmentation.grounded_sam import GroundedSam
from editjudge_services.segmentation.grounding_dino import select_detections
from editjudge_services.segmentation.pixels import fit_shorter_edge
from editjudge_services.segmentation.recipe import RECIPES
from editjudge_services.segmentation.sam import BoxSegmenter
from editjudge_services.segmentation.segmenter_service import GroundedSamSegmenter
from editjudge_services.zoo.artefact import checkpoint_dir, load_artefact

from .builders import load, smooth

transformers = pytest.importorskip("transformers")
# transformers imports its optional SWIG-built dependencies on first use.
# So small networks lose more to waiting for other threads than they gain.
torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:builtin type .* has no __module__")

(ENTRY,) = ENTRIES = ("grounded-sam",)
PROMPT = "the green bus. a dog"


@pytest.fixture(scope="module")
def network():
    return GroundedSam.from_folder(load_artefact(ENTRY, "fp32").folder)


@pytest.fixture
def fresh(network):
    """The same weights, with no image seen yet."""
    parts = network.detector.network, network.detector.tokenizer, network.cutter.network
    return GroundedSam(*parts, network.sizes)


def reference(image, prompt):
    """Detections and masks by transformers' own processors."""
    checkpoint = checkpoint_dir(ENTRY)
    detector = transformers.GroundingDinoForObjectDetection.from_pretrained(
        checkpoint / "detector", attn_implementation="eager"
    )
    processor = transformers.GroundingDinoProcessor(
        transformers.GroundingDinoImageProcessorPil.from_pretrained(checkpoint / "detector"),
        transformers.BertTokenizerFast.from_pretrained(checkpoint / "detector"),
    )
    sam = transformers.SamModel.from_pretrained(checkpoint / "sam")
    sizes = {"height": 256, "width": 256}
    sam_processor = transformers.SamProcessor(
        transformers.SamImageProcessorPil(size={"longest_edge": 256}, pad_size=sizes)
    )
    given = processor(images=Pil.fromarray(image), text=[prompt], return_tensors="pt")
    with torch.inference_mode():
        output = detector(**given)
        found = processor.post_process_grounded_object_detection(
            output, given["input_ids"], 0.3, 0.25, target_sizes=[image.shape[:2]]
        )[0]
        boxes = found["boxes"].tolist()
        cut = sam_processor(images=image, input_boxes=[boxes], return_tensors="pt")
        decoded = sam(pixel_values=cut["pixel_values"], input_boxes=cut["input_boxes"].float(), multimask_output=True)
    cut_out = sam_processor.post_process_masks(decoded.pred_masks, cut["original_sizes"], cut["reshaped_input_sizes"])[
        0
    ]
    best = decoded.iou_scores[0].argmax(-1)
    return found, cut_out[torch.arange(len(best)), best].numpy(), given, cut


@pytest.fixture(scope="module", params=[(90, 130), (150, 61)])
def chain(request):
    image = smooth(1, *request.param)
    return image, *reference(image, PROMPT + ".")


def test_the_chain_equals_transformers(network, chain):
    image, found, masks, _, _ = chain
    [(boxes, scores)] = network.detector.detect([(image, PROMPT.upper())])
    assert 1 < len(scores) == len(found["scores"])
    np.testing.assert_allclose(scores, found["scores"], atol=1e-5)
    np.testing.assert_allclose(boxes, found["boxes"], atol=1e-3)

    everything = network.segment(image, PROMPT, "all")
    np.testing.assert_array_equal(everything.mask, masks.any(0))
    best = int(found["scores"].argmax())
    one = network.segment(image, PROMPT, "best")
    np.testing.assert_array_equal(one.mask, masks[best])
    assert one.score == everything.score == pytest.approx(float(found["scores"][best]), abs=1e-5)
    assert one.boxes.shape == (1, 4)
    assert everything.boxes.shape == (len(masks), 4)


def test_pixels_equal_the_pillow_processors(network, chain):
    image, _, _, detector, sam = chain
    np.testing.assert_array_equal(network.detector.pixels(image), detector["pixel_values"][0])
    np.testing.assert_array_equal(network.cutter.pixels(image), sam["pixel_values"][0])


@pytest.mark.parametrize("size", [(1, 1), (7, 500), (500, 7), (160, 200), (200, 160), (333, 333)])
def test_detector_size_equals_transformers(size):
    from transformers.image_transforms import get_size_with_aspect_ratio

    assert fit_shorter_edge(*size, 160, 256) == get_size_with_aspect_ratio(size, 160, 256)


def test_a_batch_equals_one_by_one(network, monkeypatch):
    assert network.detector.batch_size == 1  # on a CPU
    monkeypatch.setattr(network.detector, "batch_size", 2)
    asked = [
        (smooth(1), PROMPT, "all"),
        (smooth(2), PROMPT, "best"),
        (smooth(1), "a", "all"),
        (smooth(3, 60, 60), PROMPT, "all"),
        (smooth(4), PROMPT, "all"),
    ]
    together = network.segment_all(asked)
    for answer, one in zip(together, asked, strict=True):
        alone = network.segment(*one)
        assert answer.score == pytest.approx(alone.score, abs=1e-5)
        np.testing.assert_allclose(answer.boxes, alone.boxes, atol=1e-2)
        assert (answer.mask != alone.mask).mean() < 1e-3


@pytest.mark.parametrize(
    ("scores", "select", "expected"),
    [
        ([0.4, 0.9, 0.6], "best", [1]),
        ([0.4, 0.9, 0.6], "all", [0, 1, 2]),
        ([0.7, 0.7], "best", [0]),
        ([0.5], "best", [0]),
        ([], "best", []),
        ([], "all", []),
    ],
)
def test_boxes_are_chosen(scores, select, expected):
    boxes = np.arange(4 * len(scores), dtype=np.float32).reshape(-1, 4)
    kept, _ = select_detections((boxes, np.array(scores, np.float32)), select)
    np.testing.assert_array_equal(kept, boxes[expected])


LEFT, RIGHT, NONE = (np.array([row], dtype=bool) for row in ([1, 0, 0], [0, 0, 1], [0, 0, 0]))


@pytest.mark.parametrize(
    ("each", "expected"),
    [([LEFT], LEFT), ([LEFT, RIGHT], LEFT | RIGHT), ([LEFT, NONE], LEFT), ([NONE, NONE], None), ([], None)],
)
def test_masks_are_joined(each, expected):
    np.testing.assert_array_equal(masks.unite_masks(each), expected)


class ScriptedDetector:
    """A detector that finds what it is told."""

    def __init__(self, *scores):
        boxes = np.array([[0, 0, 40, 80], [60, 10, 120, 60]], np.float32)[: len(scores)]
        self.found = boxes.reshape(-1, 4), np.array(scores, np.float32)

    def detect(self, asked):
        return [self.found] * len(asked)


@pytest.mark.parametrize(("select", "used"), [("best", [1]), ("all", [0, 1])])
def test_select_with_scripted_boxes(fresh, select, used):
    fresh.detector = ScriptedDetector(0.5, 0.8)
    image = smooth(1)
    answer = fresh.segment(image, "bus", select)
    each = fresh.cutter.masks(image, fresh.detector.found[0])
    np.testing.assert_array_equal(answer.mask, each[used].any(0))
    assert answer.score == pytest.approx(0.8)


def test_nothing_found_is_no_mask(fresh):
    fresh.detector = ScriptedDetector()
    answer = fresh.segment(smooth(1), "bus")
    assert answer.mask is None
    assert answer.outputs["MASK"] == b""
    assert answer.outputs["SCORE"].tolist() == [0.0]
    assert fresh.cutter.cache.hits == 0


def test_many_boxes_equal_each_alone(fresh):
    image = smooth(1)
    corners = np.random.default_rng(0).uniform(0, 60, (20, 2))
    boxes = np.concatenate([corners, corners + 25], 1).astype(np.float32)
    each = np.concatenate([fresh.cutter.masks(image, box[None]) for box in boxes])
    assert (fresh.cutter.masks(image, boxes) != each).mean() < 1e-3


def test_an_image_is_encoded_once(fresh):
    box = np.array([[0, 0, 40, 80]], np.float32)
    first = fresh.cutter.masks(smooth(1), box)
    assert fresh.cutter.cache.hits == 0
    again = fresh.cutter.masks(smooth(1).copy(), box)
    np.testing.assert_array_equal(first, again)
    assert fresh.cutter.cache.hits == 1
    # The same bytes in another shape are another image.
    fresh.cutter.masks(smooth(1).reshape(130, 90, 3), box)
    assert fresh.cutter.cache.hits == 1


def test_the_oldest_embedding_is_forgotten(network):
    small = BoxSegmenter(network.cutter.network, cache_size=0)
    box = np.array([[0, 0, 40, 80]], np.float32)
    for seed in (1, 2, 1):
        small.masks(smooth(seed), box)
    assert small.cache.hits == 0


@pytest.mark.parametrize("prompt", ["", "  ", " . ", "..."])
def test_an_empty_prompt_is_refused(network, prompt):
    with pytest.raises(BadRequest, match="PROMPT is empty"):
        network.segment(smooth(1), prompt)


def test_a_long_prompt_is_refused(network):
    with pytest.raises(BadRequest, match="the detector reads 256"):
        network.segment(smooth(1), "dog " * 300)


def test_a_phrase_is_one_line():
    assert masks.clean_phrase(" The  green\nbus. ") == "The green bus"


def test_special_tokens_in_a_prompt_are_words(network):
    ids = network.detector._tokens("a [SEP] bus")
    assert ids.count(102) == 1


def test_a_mask_survives_its_png():
    mask = np.random.default_rng(0).random((5, 9)) > 0.5
    assert Pil.open(io.BytesIO(masks.encode_png(mask))).mode == "L"
    np.testing.assert_array_equal(load_mask(masks.encode_png(mask), "mask").region, mask)


def test_the_export_equals_its_source():
    assert load_artefact(ENTRY, "fp32").parity.largest_difference == 0


def test_masks_that_overlap_less_fail_the_comparison(tmp_path, monkeypatch):
    cut, made = BoxSegmenter.masks, []

    def wider(self, image, boxes):
        made.append(cut(self, image, boxes))
        return made[-1] if len(made) % 2 else made[-1] | (np.indices(image.shape[:2])[1] < 9)

    monkeypatch.setattr(BoxSegmenter, "masks", wider)
    parity = RECIPES[ENTRY].export(checkpoint_dir(ENTRY), tmp_path, "fp32", None)
    assert parity.measure == "score, 1 - IoU"
    assert 0.01 < parity.largest_difference < 1


@pytest.mark.parametrize(
    ("one", "other", "overlap"), [([1, 1, 0], [0, 1, 1], 1 / 3), ([0, 0, 0], [0, 0, 0], 1), ([1, 0, 0], [0, 0, 0], 0)]
)
def test_overlap(one, other, overlap):
    assert masks.measure_overlap(np.array([one], bool), np.array([other], bool)) == overlap


def test_untrained_outputs_depend_on_the_image(network):
    one, other = (network.detector.scores(smooth(seed), PROMPT) for seed in (1, 2))
    assert np.abs(one - other).max() > 0.01


def test_the_service_answers_as_its_contract_says():
    specialist = load(GroundedSamSegmenter)
    tensors = {"IMAGE": smooth(1), "PROMPT": "bus"}
    batch = [Request(tensors, {"select": select}) for select in ("all", "best")]
    answers = specialist.infer(batch)
    assert [set(answer) for answer in answers] == [{t.name for t in SEGMENTER.outputs}] * 2
    for answer in answers:
        assert load_mask(answer["MASK"], "mask").region.shape == (90, 130)
        assert answer["SCORE"].dtype == np.float32
        assert 0.3 < answer["SCORE"][0] <= 1


def test_other_weights_are_refused():
    declared = load_artefact(ENTRY, "fp32").identity | {"weights": "sha256:other"}
    with pytest.raises(ConfigError, match="sha256:other"):
        GroundedSamSegmenter().load(declared)


@pytest.mark.parametrize("part", ["detector", "sam"])
@pytest.mark.parametrize("keep", [lambda weight: None, lambda weight: weight.repeat(2, *[1] * (weight.ndim - 1))])
def test_weights_that_are_missing_or_of_another_shape_are_not_made_up(tmp_path, part, keep):
    folder = tmp_path / "copy"
    shutil.copytree(checkpoint_dir(ENTRY), folder)
    weights = load_file(file := folder / part / "model.safetensors")
    name = next(name for name in sorted(weights) if "norm" in name and name.endswith("weight"))
    kept = keep(weights.pop(name))
    save_file(weights | ({} if kept is None else {name: kept}), file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=rf"{part}: 1 weights are missing or have another shape: [a-z_.0-9]*norm"):
        RECIPES[ENTRY].export(folder, tmp_path / "export", "fp32", None)


def test_an_empty_segmentation_is_the_default():
    assert masks.Segmentation().boxes.shape == (0, 4)
