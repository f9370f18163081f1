import importlib.util
import io
import math
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import skimage.data
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from editjudge.base.errors import ConfigError
from editjudge_services.demo import edit_jpeg
from editjudge_services.ocr import ppocr
from editjudge_services.ocr.ppocr import PpOcrReader, verify_weights

from .builders import NO_PICTURES

LATIN = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
# Found without importing the package, which would change matplotlib's settings.
CJK = Path(importlib.util.find_spec("matplotlib_fontja").origin).parent / "fonts/ipaexg.ttf"

PARAGRAPH = ("The first line of it", "goes on to a second", "and then a third one", "to its end")
JAPANESE = ("今日は良い天気です", "東京都千代田区", "漢字とカタカナ")
# In one thread: onnxruntime's others wait by spinning, which costs what runs beside the test.
ENGINE = {"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
ALONE = {**ENGINE, "Cls.cls_batch_num": 1, "Rec.rec_batch_num": 1}


def page(*texts, size=(512, 512), font=LATIN):
    """Print texts, each ((x, y), height, text), in black on white."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for place, height, text in texts:
        draw.text(place, text, fill="black", font=ImageFont.truetype(font, height))
    return np.asarray(image)


def column(lines, height=32, **settings):
    texts = (((40, 60 + i * height * 1.6), height, line) for i, line in enumerate(lines))
    return page(*texts, **settings)


def turn(image, degrees):
    """Turn anticlockwise, losing nothing."""
    picture = Image.fromarray(image)
    return np.asarray(picture.rotate(degrees, Image.Resampling.BICUBIC, True, fillcolor="white"))


STRIP = page(((10, 4), 26, "Grand Opening"), size=(480, 40))
PAGES = {
    "paragraph": column(PARAGRAPH),
    "japanese": column(JAPANESE, font=CJK),
    "tilted": turn(column(PARAGRAPH), 15),
    "upside down": turn(column(PARAGRAPH), 180),
    "large": column(PARAGRAPH, size=(2100, 400), height=50),
    "strip": STRIP,
    "scan": np.repeat(skimage.data.page()[..., None], 3, axis=2),
    "photograph": np.minimum(skimage.data.astronaut(), column(PARAGRAPH)),
}


@pytest.fixture(scope="session")
def reader():
    return PpOcrReader()


@pytest.fixture(scope="session")
def rapidocr():
    """Make RapidOCR engines, each kind once."""
    from rapidocr import RapidOCR

    return {"alone": RapidOCR(params=ALONE), "default": RapidOCR(params=ENGINE)}


def same(a, b):
    arrays = ((a.boxes, b.boxes), (a.confidences, b.confidences))
    return (a.lines, a.pieces) == (b.lines, b.pieces) and all(np.array_equal(*pair) for pair in arrays)


def by_place(boxes, *others):
    """Sort by the boxes: the reading order is ours, not RapidOCR's."""
    order = np.lexsort(boxes.reshape(len(boxes), -1).T)
    return boxes[order], *([column[i] for i in order] for column in others)


def read_both(reader, engine, image):
    """Our boxes, confidences and pieces, then theirs."""
    [ours] = reader.read([image])
    theirs = engine(np.ascontiguousarray(image[..., ::-1]))
    return by_place(ours.boxes, ours.confidences, ours.pieces), by_place(
        theirs.boxes.astype(np.float32), np.float32(theirs.scores), theirs.txts
    )


@pytest.mark.parametrize("name", PAGES)
def test_results_equal_rapidocr(reader, rapidocr, name):
    ours, theirs = read_both(reader, rapidocr["alone"], PAGES[name])
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, expected)


# Print only: in a photograph a piece of nothing may be read on either side of the threshold.
@pytest.mark.parametrize("name", ["paragraph", "japanese", "strip"])
def test_results_agree_with_rapidocrs_default_batches(reader, rapidocr, name):
    ours, theirs = read_both(reader, rapidocr["default"], PAGES[name])
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=0.06)
    assert ours[2] == theirs[2]


def test_an_image_is_read_the_same_in_any_company(reader):
    names = ["paragraph", "japanese", "strip", "paragraph"]
    together = reader.read([PAGES[name] for name in names])
    for name, reading in zip(names, together, strict=True):
        assert same(reading, reader.read([PAGES[name]])[0])
    assert reader.read([]) == []


@pytest.mark.parametrize("degrees", [0, 15, -15, 90, 180, 270])
@pytest.mark.parametrize(
    ("lines", "settings"), [(PARAGRAPH, {}), (JAPANESE, {"font": CJK}), (("SUMMER", "SALE"), {"height": 64})]
)
def test_turned_lines_keep_their_order(reader, lines, settings, degrees):
    [reading] = reader.read([turn(column(lines, **settings), degrees)])
    assert reading.lines == lines
    assert reading.text == "\n".join(lines)


@pytest.mark.parametrize("degrees", [0, 15, 90, 180, 270])
def test_words_on_one_line_go_from_left_to_right(reader, degrees):
    line = ((300, 194), 30, "right"), ((30, 200), 30, "left")
    image = page(*line, ((30, 60), 60, "Headline"), ((30, 280), 30, "below the others"))
    [reading] = reader.read([turn(image, degrees)])
    assert reading.lines == ("Headline", "left right", "below the others")
    assert reading.pieces == ("Headline", "left", "right", "below the others")


def test_vertical_text_goes_by_columns_from_the_right(reader):
    columns = ("今日は良い天気", "東京都千代田区")
    letters = (
        ((300 - 100 * column, 30 + 52 * row), 48, character)
        for column, text in enumerate(columns)
        for row, character in enumerate(text)
    )
    [reading] = reader.read([page(*letters, font=CJK)])
    assert reading.lines == columns


def test_boxes_lie_on_the_text(reader):
    [reading] = reader.read([page(((100, 200), 40, "Placed"))])
    text = np.array(ImageFont.truetype(LATIN, 40).getbbox("Placed")) + np.tile((100, 200), 2)
    around = np.concatenate([reading.boxes[0].min(axis=0), reading.boxes[0].max(axis=0)])
    # A box has some air around its text.
    np.testing.assert_array_less(np.array([-16, -16, 0, 0]), around - text)
    np.testing.assert_array_less(around - text, np.array([0, 0, 16, 16]))
    assert reading.boxes.dtype == reading.confidences.dtype == np.float32


@pytest.mark.parametrize("quarter", range(4))
def test_slivers_with_text_are_read(reader, quarter):
    image = np.rot90(STRIP, quarter)
    [reading] = reader.read([image])
    assert reading.text == "Grand Opening"
    assert reading.boxes.min() >= 0
    assert (reading.boxes <= image.shape[1::-1]).all()
    np.testing.assert_allclose(np.ptp(reading.boxes[0], axis=0).max(), 195, atol=20)


EMPTY = [(1, 1, 0), (2, 2, 255), (200, 3, 128), (1, 3000, 255), (3000, 1, 255), (64, 64, 0)]


@pytest.mark.parametrize(("height", "width", "level"), [*EMPTY, (512, 512, 255)])
def test_images_without_text_give_an_empty_reading(reader, height, width, level):
    [reading] = reader.read([np.full((height, width, 3), level, np.uint8)])
    assert (reading.text, reading.lines, reading.pieces) == ("", (), ())
    assert reading.boxes.shape == (0, 4, 2)
    assert reading.confidences.shape == (0,)
    assert reading.boxes.dtype == reading.confidences.dtype == np.float32


@pytest.mark.parametrize("size", [(3, 200), (200, 3), (7, 9), (20, 160), (161, 20)])
def test_tiny_images_with_anything_on_them_do_not_fail(reader, size):
    noise = np.random.default_rng(5).integers(0, 256, (*size, 3), dtype=np.uint8)
    [reading] = reader.read([noise])
    assert reading.boxes.shape == (len(reading.pieces), 4, 2)
    assert reading.confidences.shape == (len(reading.pieces),)


def test_the_image_is_left_alone(reader):
    image = PAGES["paragraph"].copy()
    image.flags.writeable = False
    reader.read([image])
    np.testing.assert_array_equal(image, PAGES["paragraph"])


@pytest.mark.parametrize("image", NO_PICTURES)
def test_other_arrays_are_refused_by_their_index(reader, image):
    with pytest.raises(ValueError, match="image 1 must be uint8"):
        reader.read([PAGES["strip"], image])


OFFLINE = """
import socket, sys
import numpy as np

def refuse(*args, **kwargs):
    raise SystemExit("the network was asked")

socket.socket.connect = socket.getaddrinfo = refuse
from editjudge_services.ocr.ppocr import PpOcrReader
image = np.load(sys.argv[1])
assert PpOcrReader().read([image])[0].text == "Grand Opening"
"""


def test_nothing_is_downloaded_or_logged(tmp_path):
    np.save(tmp_path / "strip.npy", STRIP)
    command = [sys.executable, "-c", OFFLINE, str(tmp_path / "strip.npy")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_wheels_networks_are_the_pinned_ones():
    verify_weights()


@pytest.mark.parametrize(("content", "message"), [(None, "is missing"), (b"other weights", "was changed")])
def test_absent_and_other_networks_are_refused(monkeypatch, tmp_path, content, message):
    (tmp_path / "models").mkdir()
    for name in ppocr.WEIGHTS if content else ():
        (tmp_path / "models" / name).write_bytes(content)
    monkeypatch.setattr(ppocr, "files", lambda package: tmp_path)
    with pytest.raises(ConfigError, match=message):
        PpOcrReader()


@st.composite
def layouts(draw):
    """Lay out boxes (n, 4, 2) in reading order, with their line and what is upside down.

    Heights, gaps and baselines are ragged. The classifier may take one box in five for upside
    down, and these short ones only: a long line would rightly decide the direction.
    """
    boxes, line_of = [], []
    top = 0
    for line, words in enumerate(draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))):
        left = draw(st.integers(0, 100))
        for _ in range(words):
            width, height = draw(st.integers(60, 200)), draw(st.integers(24, 30))
            y = top + draw(st.integers(-3, 3))
            right, bottom = left + width, y + height
            boxes.append([[left, y], [right, y], [right, bottom], [left, bottom]])
            line_of.append(line)
            left = right + draw(st.integers(10, 90))
        top += draw(st.integers(40, 90))
    flipped = draw(st.lists(st.integers(0, len(boxes) - 1), max_size=len(boxes) // 5))
    return np.array(boxes, np.float64), line_of, sorted(set(flipped))


@given(layouts(), st.floats(-180, 180), st.randoms(use_true_random=False))
def test_order_survives_any_turn(layout, degrees, random):
    boxes, line_of, flipped = layout
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    along = (boxes[:, 1] - boxes[:, 0]) @ turn
    along[flipped] *= -0.1
    shuffled = list(range(len(boxes)))
    random.shuffle(shuffled)
    lines = ppocr._lines((boxes @ turn)[shuffled], along[shuffled])
    order = [[shuffled[index] for index in line] for line in lines]
    assert order == [
        [index for index, line in enumerate(line_of) if line == wanted] for wanted in range(line_of[-1] + 1)
    ]


@pytest.mark.parametrize("name", ["coffee-card", "grass-keep-off", "bricks-sale-sign"])
def test_letters_of_the_demo_are_read_only_where_they_were_put_up(reader, edits, name):
    edit = edits[name]
    exact, damaged, no_edit = (
        reader.read([np.asarray(Image.open(io.BytesIO(edit_jpeg(editor, edit))))])[0].text
        for editor in ("exact", "damaged", "no_edit")
    )
    assert exact == damaged == edit.target_text
    assert edit.target_text not in no_edit


def test_a_reader_starts_with_small_pictures_in_every_network(monkeypatch: pytest.MonkeyPatch) -> None:
    from rapidocr.inference_engine.onnxruntime import OrtInferSession

    sizes, run = [], OrtInferSession.__call__

    def record(self, pixels):
        sizes.append(pixels.size)
        return run(self, pixels)

    monkeypatch.setattr(OrtInferSession, "__call__", record)
    PpOcrReader()
    assert len(sizes) == 3
    # RapidOCR enlarges the shorter side to 736 pixels.
    assert max(sizes) == 3 * 736 * 736
