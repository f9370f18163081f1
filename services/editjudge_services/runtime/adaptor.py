"""The adaptor between a specialist and Triton's python backend.

`model_repo/<model>/1/model.py` is `TritonPythonModel = serve(TheSpecialist)` and nothing
more. Only this module imports `triton_python_backend_utils`, which exists in the server.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from editjudge.base.contracts import ABSTENTION, Tensor
from editjudge.base.errors import Abstention, ConfigError, ImageError
from editjudge.base.images import decode, load_mask

from .serving import find_declared_artefact, stay_on_device
from .specialist import BadRequest, Outputs, Request, Specialist, Unavailable

log = logging.getLogger(__name__)
_WATCH_SECONDS = 2.0


def serve(specialist: type[Specialist]) -> type:
    """Make the class that Triton's python backend instantiates."""
    return type("TritonPythonModel", (_Adaptor,), {"kind": specialist})


def _end_with_server() -> None:
    """Start a thread that kills this process when its server is gone.

    Without it the process would stay, with the model in memory: a stub waits for its server's next
    message for ever, also after the server was killed.
    """
    server = _server(Path("/proc/self/cmdline").read_text().split("\0")) or os.getppid()

    def watch() -> None:
        while os.getppid() == server:
            time.sleep(_WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="server", daemon=True).start()


def _server(command: Sequence[str]) -> int | None:
    """Read the server's process id from a stub's command line: the number before the folder.

    The server may have ended before this code runs, so the parent's id is not reliable.
    """
    pairs = pairwise(command)
    return next((int(one) for one, other in pairs if one.isdigit() and other[:1] == "/"), None)


class _Adaptor:
    kind: type[Specialist]

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model; Triton calls this once, and the model is ready when it returns."""
        import triton_python_backend_utils as pb

        parameters = json.loads(args["model_config"]).get("parameters", {})
        config = {name: value["string_value"] for name, value in parameters.items()}
        stay_on_device(args, config)
        _end_with_server()
        self._pb = pb
        self._specialist = self.kind()
        self._decoders = ThreadPoolExecutor(thread_name_prefix="decode")
        self._counters = _counters(pb, self.kind.name)
        try:
            self._specialist.load(config)
            # An export may have replaced files after they were verified and before they were loaded.
            if self.kind.entry:
                find_declared_artefact(self.kind.entry, config)
        except ConfigError as error:
            raise RuntimeError(f"{self.kind.name}: {error}") from error

    def finalize(self) -> None:
        """Release the decoders' threads; Triton calls this once at the end."""
        self._decoders.shutdown(cancel_futures=True)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer every request of a batch with its own outputs or its own error."""
        inputs = list(self._decoders.map(self._read, requests))
        good = [index for index, one in enumerate(inputs) if not isinstance(one, BadRequest)]
        answers: dict[int, Outputs | Abstention | Exception] = dict(
            zip(good, self._infer([inputs[index] for index in good]), strict=True)
        )
        return [self._respond(answers.get(i, one)) for i, one in enumerate(inputs)]

    def _read(self, request: Any) -> Request | BadRequest:
        tensors: dict[str, Any] = {}
        for tensor in self.kind.contract.inputs:
            try:
                tensors[tensor.name] = self._value(request, tensor)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this request's
                return BadRequest(f"{tensor.name}: {_describe_error(error)}")
        try:
            return Request(tensors, self._parameters(request))
        except Exception as error:  # noqa: BLE001 - as above
            return BadRequest(_describe_error(error))

    def _parameters(self, request: Any) -> dict[str, str]:
        choices_by_name = self.kind.contract.parameters
        parameters = json.loads(request.parameters() or "{}")
        if not isinstance(parameters, dict):
            raise TypeError("parameters are no object")
        for name, value in parameters.items():
            if value not in choices_by_name.get(name, ()):
                choices = ", ".join(choices_by_name.get(name, ())) or "no such parameter"
                raise ValueError(f"parameter {name}={value!r}: {choices}")
        return {name: parameters.get(name, values[0]) for name, values in choices_by_name.items()}

    def _value(self, request: Any, tensor: Tensor) -> Any:
        given_tensor = self._pb.get_input_tensor_by_name(request, tensor.name)
        if given_tensor is None:
            if tensor.optional:
                return None
            raise ValueError("missing")
        values = given_tensor.as_numpy()
        if values.shape[0] != 1:
            raise ValueError(f"{values.shape[0]} in one request; send one, Triton batches them")
        if tensor.dtype != "BYTES":
            return values[0]
        payload = values.reshape(-1)[0]
        if tensor.holds == "image":
            return decode(payload)[0]
        if tensor.holds == "mask":
            return load_mask(payload, "mask").region
        return payload.decode("utf-8")

    def _infer(self, batch: list[Any]) -> Sequence[Outputs | Abstention | Exception]:
        """Run the specialist; a batch that fails is tried again in halves, down to one request."""
        if not batch:
            return []
        try:
            return _check_count(self._specialist.infer(batch), batch)
        except Exception as error:
            if len(batch) == 1:
                if not isinstance(error, BadRequest | Unavailable):
                    log.exception("%s failed on a request, which gets the error. See why below.", self.kind.name)
                return [error]
        # Outside the handler, whose traceback would hold the arrays of the batch that failed.
        _release_gpu_memory()
        half = len(batch) // 2
        return [*self._infer(batch[:half]), *self._infer(batch[half:])]

    def _respond(self, answer: Any) -> Any:
        """Make the response; an answer that cannot be sent becomes an error of its request."""
        try:
            return self._response(answer)
        except Exception as error:
            log.exception("%s gave an answer that cannot be sent. See why below.", self.kind.name)
            return self._response(error)

    def _response(self, answer: Any) -> Any:
        pb = self._pb
        match answer:
            case Abstention(kind=kind, reason=reason):
                outcome, code, text = "abstained", pb.TritonError.INVALID_ARG, f"{ABSTENTION}/{kind}: {reason}"
            case BadRequest():
                outcome, code, text = "refused", pb.TritonError.INVALID_ARG, str(answer)
            case Unavailable():
                outcome, code, text = "failed", pb.TritonError.UNAVAILABLE, str(answer)
            case Exception():
                outcome, code, text = "failed", pb.TritonError.INTERNAL, f"{type(answer).__name__}: {answer}"
                if is_out_of_memory(answer):
                    text = f"out of memory on one request; send smaller pictures ({text})"
            case _:
                tensors = [self._tensor(one, answer[one.name]) for one in self.kind.contract.outputs]
                self._counters["answered"].increment(1)
                return pb.InferenceResponse(tensors)
        self._counters[outcome].increment(1)
        return pb.InferenceResponse(error=pb.TritonError(text, code))

    def _tensor(self, tensor: Tensor, value: Any) -> Any:
        if tensor.dtype == "BYTES":
            data = value if isinstance(value, bytes) else value.encode()
            return self._pb.Tensor(tensor.name, np.array([[data]], dtype=np.object_))
        array = np.ascontiguousarray(value, dtype=np.float32)
        return self._pb.Tensor(tensor.name, array[np.newaxis])


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of Python, torch or ONNX Runtime says that memory ran out."""
    text = str(error).lower()
    words = ("out of memory", "failed to allocate memory", "available memory of")
    return isinstance(error, MemoryError) or any(one in text for one in words)


def _release_gpu_memory() -> None:
    """Return what torch holds of a GPU without using it, where torch is loaded at all."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _check_count(answers: Sequence[Any], batch: Sequence[Request]) -> Sequence[Any]:
    """Check that there is one answer for each request, and return the answers."""
    if len(answers) != len(batch):
        raise RuntimeError(f"{len(answers)} answers to {len(batch)} requests")
    return answers


def _describe_error(error: Exception) -> str:
    """The message of an error in reading a request; unexpected errors are named by their type."""
    is_readable = isinstance(error, ValueError | ImageError)
    return str(error) if is_readable else f"cannot be read: {type(error).__name__}: {error}"


def _counters(pb: Any, model: str) -> dict[str, Any]:
    """Make the counters of requests by outcome on Triton's metrics endpoint."""
    family = pb.MetricFamily(
        name="editjudge_specialist_requests_total",
        description="Requests by outcome: answered, abstained, refused or failed",
        kind=pb.MetricFamily.COUNTER,
    )
    outcomes = ("answered", "abstained", "refused", "failed")
    counters = {one: family.Metric(labels={"model": model, "outcome": one}) for one in outcomes}
    # A metric lives only as long as its family.
    counters["family"] = family
    return counters
