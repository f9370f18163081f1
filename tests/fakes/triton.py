"""A server that speaks Triton's protocol and misbehaves on demand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from .grpc_server import ScriptedGrpc

Answer = Callable[[Any, Any], Any]


def reply(**tensors: Any) -> Any:
    """A ModelInferResponse: text for bytes tensors, arrays (batch axis included) otherwise.

    It is of the model and version that were asked for.
    """
    response = service_pb2.ModelInferResponse()
    for name, value in tensors.items():
        if isinstance(value, str | bytes):
            data = value.encode() if isinstance(value, str) else value
            response.outputs.add(name=name, datatype="BYTES", shape=[1, 1])
            response.raw_output_contents.append(struct.pack("<I", len(data)) + data)
        else:
            array = np.asarray(value)
            kind = {"f4": "FP32", "f8": "FP64", "i4": "INT32"}[array.dtype.str[1:]]
            response.outputs.add(name=name, datatype=kind, shape=array.shape)
            response.raw_output_contents.append(array.tobytes())
    return response


def score(value: float) -> Any:
    return reply(SCORE=np.array([[value]], np.float32))


def name_model(infer: Answer) -> Answer:
    """Replies that name no model name the one that was asked for, as Triton's do."""

    async def infer_and_name(request: Any, context: Any) -> Any:
        answer = service_pb2.ModelInferResponse()
        answer.CopyFrom(await infer(request, context))
        answer.model_name = answer.model_name or request.model_name
        answer.model_version = answer.model_version or request.model_version or "1"
        return answer

    return infer_and_name


class ScriptedTriton(ScriptedGrpc, service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers each inference with the next of `script`, which may be a response."""

    def __init__(
        self,
        *script: Any,
        models: tuple[str, ...] = ("quality_piqe", "ocr_ppocr"),
        implementation: str = "scripted.1",
        versions: tuple[str, ...] = ("1",),
    ) -> None:
        super().__init__(*script)
        self.models = models
        self.implementation = implementation
        self.versions = versions

    async def ServerMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.metadata.append(dict(context.invocation_metadata()))
        return service_pb2.ServerMetadataResponse(name="triton", version="0.0-scripted")

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.ModelReadyResponse(ready=request.name in self.models)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.ModelMetadataResponse(name=request.name, versions=self.versions)

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = service_pb2.ModelConfigResponse()
        response.config.name = request.name
        response.config.parameters["implementation"].string_value = self.implementation
        return response

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = await self.play(request, context)
        return score(0.5) if answer is None else answer

    def add_to(self, server: Any) -> None:
        self.ModelInfer = name_model(self.ModelInfer)  # type: ignore[method-assign]
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, server)
