import numpy as np
import pytest
import torch
from PIL import Image as Pil

from editjudge.base.contracts import OCR
from editjudge.base.errors import ConfigError
from editjudge_services.ocr.got_reader import GotReader, cut_loop, find_loop
from editjudge_services.ocr.got_service import GotOcr
from editjudge_services.ocr.recipe import RECIPES
from editjudge_services.runtime.specialist import Request
from editjudge_services.zoo.artefact import RECORD, Artefact
from editjudge_services.zoo.export import hash_files

transformers = pytest.importorskip("transformers")
# So small networks lose more to waiting for other threads than they gain.
torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:builtin type .* has no __module__")

RECIPE = RECIPES["got-ocr2"]
SHORT = 10


def picture(seed, height=90, width=130):
    small = np.random.default_rng(seed).integers(0, 256, (9, 13, 3), dtype=np.uint8)
    return np.asarray(Pil.fromarray(small).resize((width, height), Pil.Resampling.BICUBIC))


PICTURES = [picture(1), picture(2, 200, 60), picture(3, 256, 256)]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A models folder with the tiny checkpoint and its exports."""
    folder = tmp_path_factory.mktemp("got") / "got-ocr2"
    RECIPE.make_untrained(folder / "checkpoint")
    exports = {}
    for precision in RECIPE.precisions:
        (folder / precision).mkdir()
        exports[precision] = RECIPE.export(folder / "checkpoint", folder / precision, precision)
    return folder, exports


@pytest.fixture(scope="session")
def reader(models):
    return GotReader.from_folder(models[0] / "fp32", SHORT)


@pytest.fixture(scope="session")
def processor(models):
    checkpoint = models[0] / "checkpoint"
    return transformers.GotOcr2Processor(
        transformers.GotOcr2ImageProcessorPil(size={"height": 256, "width": 256}),
        transformers.PreTrainedTokenizerFast.from_pretrained(checkpoint),
    )


class Says:
    """A LogitsProcessor under which row after row of a batch says what is written for it."""

    def __init__(self, length, *rows):
        self.length, self.rows = length, rows

    def __call__(self, ids, scores):
        at = ids.shape[1] - self.length
        forced = torch.full_like(scores, -1e9)
        for row, said in enumerate(self.rows):
            forced[row, said[min(at, len(said) - 1)]] = 0
        return forced


def says(reader, *texts, end="<|im_end|>", limit=SHORT):
    """The same network, made to say these texts."""
    tokenizer = reader._tokenizer
    rows = [tokenizer(text + end, add_special_tokens=False)["input_ids"] for text in texts]
    return GotReader(reader.network, tokenizer, limit, lambda length: Says(length, *rows))


def test_inputs_equal_the_processor(reader, processor):
    expected = processor(
        images=[Pil.fromarray(one) for one in PICTURES], return_tensors="pt", num_image_tokens=16
    )
    ours = reader._inputs(PICTURES)
    assert set(ours) == set(expected)
    for name, value in expected.items():
        assert torch.equal(ours[name], value), name


def test_reading_equals_transformers(reader, processor):
    given = processor(images=PICTURES, return_tensors="pt", num_image_tokens=16)
    out = reader.network.generate(
        **given,
        do_sample=False,
        tokenizer=processor.tokenizer,
        stop_strings="<|im_end|>",
        max_new_tokens=10,
    )
    answers = out[:, given["input_ids"].shape[1] :]
    expected = [one.strip() for one in processor.batch_decode(answers, skip_special_tokens=True)]
    readings = reader.read(PICTURES)
    assert readings == expected
    assert len(set(expected)) > 1


def test_a_batch_equals_one_by_one(reader):
    """Rounding may decide between two tokens of the same probability: here none are."""
    alone = [reader.read([one])[0] for one in PICTURES]
    assert reader.read(PICTURES) == alone
    together = reader.first_words(PICTURES)
    each = torch.cat([reader.first_words([one]) for one in PICTURES])
    torch.testing.assert_close(together, each, atol=1e-6, rtol=0)


def test_each_row_ends_by_itself(reader):
    readings = says(reader, " SALE ", "50 %", "").read(PICTURES)
    assert readings == ["SALE", "50 %", ""]


def test_the_limit_cuts_off(reader):
    [reading] = says(reader, "0123456789ABC").read(PICTURES[:1])
    assert reading == "0123456789"


def test_a_loop_is_kept_once(reader):
    steered = says(reader, "x: " + "ab" * 200, "fine", limit=300)
    assert steered.read(PICTURES[:2]) == ["x: ab", "fine"]


@pytest.mark.parametrize(
    ("text", "unit", "kept"),
    [
        ("", 0, ""),
        ("hello", 0, "hello"),
        ("." * 47, 0, "." * 47),
        ("." * 48, 1, "."),
        ("Total " + "." * 48, 1, "Total ."),
        ("ab" * 23 + "a", 0, "ab" * 23 + "a"),
        ("_ab" + "ab" * 24, 2, "_ab"),
        ("abcdefgh" * 7, 0, "abcdefgh" * 7),
        ("abcdefgh" * 8, 8, "abcdefgh"),
        ("x" + "abcdefgh" * 9, 8, "xabcdefgh"),
        ("." * 60 + "end", 0, "." * 60 + "end"),
    ],
)
def test_loops(text, unit, kept):
    tokens = list(text.encode())
    assert find_loop(tokens) == unit
    assert bytes(cut_loop(tokens)).decode() == kept


def test_exports_are_close_to_their_source(models):
    folder, exports = models
    assert exports["fp32"].largest_difference == 0
    assert 0 < exports["bf16"].largest_difference < exports["bf16"].tolerance
    assert GotReader.from_folder(folder / "bf16").network.dtype == torch.bfloat16


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        RECIPE.export(tmp_path, tmp_path, "fp32")


def test_the_service_answers_as_its_contract_says(models, monkeypatch):
    folder, exports = models
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(folder.parent))
    artefact = Artefact(
        entry="got-ocr2",
        precision="fp32",
        source="untrained",
        untrained=True,
        files={k: v for k, v in hash_files(folder / "fp32").items() if k != "artefact.json"},
        parity=exports["fp32"],
    )
    (artefact.folder / RECORD).write_text(artefact.model_dump_json())
    specialist = GotOcr()
    specialist.load(artefact.identity)
    specialist._reader = says(specialist._reader, "SALE", "50 %")
    answers = specialist.infer([Request({"IMAGE": one}) for one in PICTURES[:2]])
    assert [answer["TEXT"] for answer in answers] == ["SALE", "50 %"]
    for answer in answers:
        assert set(answer) == {tensor.name for tensor in OCR.outputs}
        assert answer["BOXES"].shape == (0, 4, 2)
        assert answer["CONFIDENCE"].shape == (0,)
    with pytest.raises(RuntimeError, match="sha256:other"):
        GotOcr().load({**artefact.identity, "weights": "sha256:other"})
