"""The letters in the demo set are there to be read by an OCR: let one read them."""

import warnings

import pytest

from editjudge.demo import EDITORS


@pytest.fixture(scope="module")
def read():
    rapidocr = pytest.importorskip("rapidocr", reason="needs the extra `serve`")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = rapidocr.RapidOCR()

    def read(image):
        return list(engine(image[..., ::-1].copy()).txts or ())

    return read


@pytest.mark.parametrize("name", ["coffee-card", "cameraman-keep-out", "bricks-sale-sign"])
def test_letters_are_read_only_where_they_were_put_up(read, edits, name):
    edit = edits[name]
    assert read(EDITORS["exact"](edit)) == [edit.target_text]
    assert read(EDITORS["damaged"](edit)) == [edit.target_text]
    assert edit.target_text not in read(EDITORS["no_edit"](edit))
