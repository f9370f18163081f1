import pytest
import torch
from PIL import Image as Pil

from editjudge.base.contracts import OCR
from editjudge.base.errors import ConfigError
from editjudge_services.ocr.got_reader import GotReader, cut_loop, find_loop
from editjudge_services.ocr.got_service import GotOcr
from editjudge_services.ocr.recipe import RECIPES
from editjudge_services.runtime.specialist import Request
from editjudge_services.zoo.artefact import checkpoint_dir, load_artefact
from editjudge_services.zoo.export import export
from editjudge_services.zoo.manifest import find_entry

from .builders import load, smooth
from .steering import SteeredNetwork

transformers = pytest.importorskip("transformers")
# So small networks lose more to waiting for other threads than they gain.
torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:builtin type .* has no __module__")

(ENTRY,) = ENTRIES = ("got-ocr2",)
SHORT = 10


PICTURES = [smooth(1), smooth(2, 200, 60), smooth(3, 256, 256)]


@pytest.fixture(scope="module")
def reader():
    return GotReader.from_folder(load_artefact(ENTRY, "fp32").folder, SHORT)


@pytest.fixture(scope="module")
def processor():
    checkpoint = checkpoint_dir(ENTRY)
    return transformers.GotOcr2Processor(
        transformers.GotOcr2ImageProcessorPil(size={"height": 256, "width": 256}),
        transformers.PreTrainedTokenizerFast.from_pretrained(checkpoint),
    )


def says(reader, *texts, end="<|im_end|>", limit=SHORT):
    """The same network, made to say these texts."""
    tokenizer = reader._tokenizer
    rows = [tokenizer(text + end, add_special_tokens=False)["input_ids"] for text in texts]
    return GotReader(SteeredNetwork(reader.network, *rows), tokenizer, limit)


def test_inputs_equal_the_processor(reader, processor):
    expected = processor(images=[Pil.fromarray(one) for one in PICTURES], return_tensors="pt", num_image_tokens=16)
    ours = reader._inputs(PICTURES)
    assert set(ours) == set(expected)
    for name, value in expected.items():
        assert torch.equal(ours[name], value), name


def test_reading_equals_transformers(reader, processor):
    given = processor(images=PICTURES, return_tensors="pt", num_image_tokens=16)
    out = reader.network.generate(
        **given, do_sample=False, tokenizer=processor.tokenizer, stop_strings="<|im_end|>", max_new_tokens=10
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


def test_exports_are_close_to_their_source(monkeypatch):
    assert load_artefact(ENTRY, "fp32").parity.largest_difference == 0
    half = export(find_entry(ENTRY), "bf16")
    assert half.parity.statement == "characters within 0.02 on 3 pictures (made) on cpu"
    assert GotReader.from_folder(half.folder).network.dtype == torch.bfloat16
    texts = {torch.float32: ["Exit 12", "bus", ""], torch.bfloat16: ["Exit l2", "bus", ""]}
    monkeypatch.setattr(GotReader, "read", lambda self, _: texts[self.network.dtype])
    with pytest.raises(ConfigError, match=r"bf16 is 0\.143 from its source \(characters\) on 3 pictures"):
        export(find_entry(ENTRY), "bf16")


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        RECIPES[ENTRY].export(tmp_path, tmp_path, "fp32", None)


def test_the_service_answers_as_its_contract_says():
    specialist = load(GotOcr)
    specialist._reader = says(specialist._reader, "SALE", "50 %")
    answers = specialist.infer([Request({"IMAGE": one}) for one in PICTURES[:2]])
    assert [answer["TEXT"] for answer in answers] == ["SALE", "50 %"]
    for answer in answers:
        assert set(answer) == {tensor.name for tensor in OCR.outputs}
        assert answer["BOXES"].shape == (0, 4, 2)
        assert answer["CONFIDENCE"].shape == (0,)
    with pytest.raises(ConfigError, match="sha256:other"):
        GotOcr().load({**load_artefact(ENTRY, "fp32").identity, "weights": "sha256:other"})
