"""The adaptor between specialists and Triton, without Triton: what one bad request costs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from editjudge.base.images import load_image
from editjudge.base.probes import probe_inputs
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime import adaptor as adaptors
from editjudge_services.runtime.adaptor import serve
from editjudge_services.runtime.serving import load_declared_artefact
from editjudge_services.runtime.specialist import Outputs, Request
from editjudge_services.zoo.artefact import RECORD, Artefact

GOOD = probe_inputs("quality")["IMAGE"]


class Counts(Piqe):
    """Says of each picture how many rows it has; of one with 13, something that is no number."""

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs]:
        rows = [one.tensors["IMAGE"].shape[0] for one in batch]
        if 17 in rows and len(rows) > 1:
            return []
        return [{} if n == 13 else {"SCORE": np.array([n], np.float32)} for n in rows]


class TritonRequest:
    """A request as Triton hands it over."""

    def __init__(self, image: bytes | None, parameters: str = "") -> None:
        self._image, self._parameters = image, parameters

    def parameters(self) -> str:
        return self._parameters

    def tensor(self) -> Any:
        if self._image is None:
            return None
        values = np.array([[self._image]], dtype=np.object_)
        return SimpleNamespace(as_numpy=lambda: values)


class Backend:
    """Triton's module, as far as answering goes."""

    class TritonError(Exception):
        INVALID_ARG, UNAVAILABLE, INTERNAL = 3, 14, 13

        def __init__(self, text: str, code: int) -> None:
            super().__init__(text)
            self.code = code

    Tensor = staticmethod(lambda name, array: (name, array))

    @staticmethod
    def InferenceResponse(tensors: Any = None, error: Any = None) -> Any:  # noqa: N802
        return error if error is not None else tensors

    @staticmethod
    def get_input_tensor_by_name(request: TritonRequest, name: str) -> Any:
        return request.tensor()


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def increment(self, by: int) -> None:
        self.count += by


@pytest.fixture
def adaptor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setitem(__import__("sys").modules, "triton_python_backend_utils", Backend)
    monkeypatch.setattr(adaptors, "_end_with_server", lambda: None)
    monkeypatch.setattr(adaptors, "stay_on_device", lambda *_: None)
    outcomes = ("answered", "abstained", "refused", "failed")
    monkeypatch.setattr(adaptors, "_counters", lambda *_: {name: Counter() for name in outcomes})
    model = serve(Counts)()
    model.initialize({"model_config": json.dumps({"parameters": {}})})
    yield model
    model.finalize()


@pytest.mark.parametrize("weights", ["new", "same"])
def test_a_model_whose_export_was_replaced_while_it_was_loaded_is_not_served(
    adaptor: Any, weights: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path))

    def write(content: str) -> dict[str, str]:
        files = {"model.onnx": hashlib.sha256(content.encode()).hexdigest()}
        artefact = Artefact(entry="lpips-alex", precision="fp32", source="x", untrained=True, files=files)
        artefact.folder.mkdir(parents=True, exist_ok=True)
        (artefact.folder / "model.onnx").write_text(content)
        (artefact.folder / RECORD).write_text(artefact.model_dump_json())
        return artefact.identity

    class ReplacedWeights(Counts):
        entry = "lpips-alex"

        def load(self, parameters: Mapping[str, str]) -> None:
            load_declared_artefact(self.entry, parameters)
            write(weights)

    declared = {name: {"string_value": value} for name, value in write("same").items()}
    arguments = {"model_config": json.dumps({"parameters": declared})}
    if weights == "same":
        serve(ReplacedWeights)().initialize(arguments)
        return
    with pytest.raises(RuntimeError, match="quality_piqe: .* but its configuration declares .*; stop the stack"):
        serve(ReplacedWeights)().initialize(arguments)


def picture(rows: int) -> bytes:
    return load_image(np.zeros((rows, 5, 3), np.uint8)).encoded_bytes


@pytest.mark.parametrize("error", [AssertionError, KeyError, OverflowError])
def test_whatever_reading_a_request_raises_refuses_that_request(
    adaptor: Any, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def trip(payload: bytes) -> Any:
        if payload == b"bad":
            raise error("tripped")
        return load_image(payload).rgb, ()

    monkeypatch.setattr(adaptors, "decode", trip)
    asked = [
        TritonRequest(GOOD),
        TritonRequest(b"bad"),
        TritonRequest(GOOD),
        TritonRequest(GOOD, "no JSON"),
        TritonRequest(GOOD, "[1]"),
    ]
    first, bad, third, *parameters = adaptor.execute(asked)
    assert first[0][1].item() == third[0][1].item() == 128
    for refused in (bad, *parameters):
        assert refused.code == Backend.TritonError.INVALID_ARG
    assert f"IMAGE: cannot be read: {error.__name__}" in str(bad)


def test_memory_that_runs_out_costs_the_request_that_needs_it(adaptor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def infer(batch: Sequence[Request]) -> Sequence[Outputs]:
        rows = [one.tensors["IMAGE"].shape[0] for one in batch]
        tried.append(rows)
        if sum(rows) > 100:
            raise RuntimeError("BFCArena: Failed to allocate memory for requested buffer of size 9")
        return [{"SCORE": np.array([n], np.float32)} for n in rows]

    monkeypatch.setattr(adaptor._specialist, "infer", infer)
    answers = adaptor.execute([TritonRequest(picture(n)) for n in (40, 41, 42, 200)])
    assert [one[0][1].item() for one in answers[:3]] == [40, 41, 42]
    assert tried == [[40, 41, 42, 200], [40, 41], [42, 200], [42], [200]]
    assert str(answers[3]).startswith("out of memory on one request; send smaller pictures")


def test_an_answer_that_cannot_be_sent_fails_alone(adaptor: Any) -> None:
    good, bad, other = adaptor.execute([TritonRequest(picture(n)) for n in (7, 13, 9)])
    assert (good[0][1].item(), other[0][1].item()) == (7, 9)
    assert bad.code == Backend.TritonError.INTERNAL


def test_too_few_answers_are_nobodys(adaptor: Any) -> None:
    answers = adaptor.execute([TritonRequest(picture(n)) for n in (7, 17, 9)])
    assert [answer[0][1].item() for answer in answers] == [7, 17, 9]
