"""A server that speaks vLLM's gRPC protocol as its servicer does, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import json
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from smg_grpc_proto import vllm_engine_pb2 as pb
from smg_grpc_proto import vllm_engine_pb2_grpc
from smg_grpc_proto.generated import common_pb2
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from editjudge.base.config import JudgeEndpoint
from editjudge.panel.prompt import Picture, Prompt, Text
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.vllm import VllmTransport

from .grpc_server import Failure, ScriptedGrpc

PICTURE = Picture(b"\x89PNG", "image/png", (32, 32))
PROMPT = Prompt("You judge.", (Text("Before:"), PICTURE, Text("Good? "), Text("x", is_data=True)))
LEVELS = ("excellent", "good", "fair", "poor", "bad")
LOGITS = {"excellent": 1.0, "good": 2.5, "fair": -1.0, "poor": -3.0, "bad": -7.25, "Yes": 0.5}

WORDS = ("excellent", "good", "fair", "poor", "bad", "Yes", "No")
# As Qwen's vocabulary has them.
SPLIT = ("ex", "cellent", "good", "fair", "po", "or", "bad", "Yes", "No")
CONTROL = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad")
SPECIAL = tuple(f"<|{name}|>" for name in CONTROL)
MARKUP = ("<think>", "</think>", "<tool_call>")

TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.content is string %}{{- message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>
{%- elif 'text' in part %}{{- part.text }}
{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""


def tokenizer(words: tuple[str, ...] = WORDS) -> Tokenizer:
    """Byte-level BPE that joins letters of these words only, with Qwen's control tokens."""
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges: list[tuple[str, str]] = []
    for word in words:
        whole = word[0]
        for letter in word[1:]:
            if (whole, letter) not in merges:
                merges.append((whole, letter))
            whole += letter
            vocabulary.setdefault(whole, len(vocabulary))
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(SPECIAL))
    made.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKUP])
    return made


def zip_files(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def bundle_files(made: Tokenizer, template: str = TEMPLATE) -> dict[str, str | bytes]:
    """The files of a model folder that the servicer sends."""
    return {
        "tokenizer.json": made.to_str(),
        "tokenizer_config.json": json.dumps({"eos_token": "<|im_end|>"}),
        "chat_template.jinja": template,
        "config.json": json.dumps({"image_token_id": made.token_to_id("<|image_pad|>")}),
        "generation_config.json": json.dumps({"eos_token_id": [made.token_to_id("<|im_end|>")]}),
    }


class ScriptedVllmGrpc(ScriptedGrpc, vllm_engine_pb2_grpc.VllmEngineServicer):  # type: ignore[misc]
    """Answers each Generate by the next of `script`.

    An answer may also be `silence` (a stream without completion), `pieces`, `death` (the server
    stops in mid-call), or a function that changes the good reply.

    Args:
        logits: By token text; all others are `floor`.
        says: What `complete` gets.
        mode: As `--logprobs-mode`.
        most: As `--max-logprobs`.
        sampled: The token that a step samples; the likeliest by default.
    """

    def __init__(
        self,
        *script: Any,
        logits: Mapping[str, float] | None = None,
        floor: float = -5.0,
        says: str = "Yes",
        mode: str = "processed_logprobs",
        most: int = 128,
        words: tuple[str, ...] = WORDS,
        media: str = "inprocess",
        name: str = "judge",
        sampled: str = "",
        files: Mapping[str, str | bytes] | None = None,
    ) -> None:
        super().__init__(*script)
        self.tokenizer = tokenizer(words)
        self.says = says
        self.mode = mode
        self.most = most
        self.media, self.schemes = media, "http,https,data"
        self.name = name
        self.sampled = sampled
        self.size = self.tokenizer.get_vocab_size()
        self.logits = np.full(self.size, floor, np.float32)
        for text, value in (logits or {}).items():
            self.logits[self.tokenizer.token_to_id(text)] = value
        self.archive = zip_files(files or bundle_files(self.tokenizer))
        self.digest = hashlib.sha256(self.archive).hexdigest()
        self.health = health_pb2.HealthCheckResponse.SERVING
        self.asked: list[str] = []
        self.aborted: list[str] = []
        self.info_failures: list[Failure] = []
        self._server: Any = None
        self._stopping: asyncio.Task[None] | None = None

    def decode_prompt(self, request: Any) -> str:
        """A request's prompt as text, control tokens included."""
        ids = list(request.tokenized.input_ids)
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    async def GetModelInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.asked.append("GetModelInfo")
        self.metadata.append(dict(context.invocation_metadata()))
        if self.info_failures:
            failure = self.info_failures.pop(0)
            await context.abort(failure.code, failure.detail)
        return pb.GetModelInfoResponse(
            model_path=f"/models/{self.name}",
            served_model_name=self.name,
            is_generation=True,
            max_context_length=4096,
            vocab_size=self.size,
            supports_vision=True,
            model_type="qwen3_vl",
            architectures=["Qwen3VLForConditionalGeneration"],
            eos_token_ids=[self.tokenizer.token_to_id("<|im_end|>")],
        )

    async def GetServerInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.asked.append("GetServerInfo")
        schemes = self.schemes if self.media else ""
        return pb.GetServerInfoResponse(mm_processor=self.media, mm_media_ref_schemes=schemes)

    async def GetLoads(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.GetLoadsResponse(version="0.32.0")

    async def GetTokenizer(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.asked.append("GetTokenizer")
        size = 4096
        for at in range(0, len(self.archive), size):
            last = at + size >= len(self.archive)
            yield common_pb2.GetTokenizerChunk(data=self.archive[at : at + size], sha256=self.digest if last else "")

    async def Abort(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.aborted += request.request_ids
        return pb.AbortResponse()

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        answer = await self.play(request, context)
        if answer == "death":
            # In a task of its own: stopping cancels this call.
            self._stopping = asyncio.create_task(self._server.stop(None))
            await asyncio.sleep(30)
        if answer == "silence":
            return
        if problem := self._problem(request):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        if answer == "pieces":
            yield pb.GenerateResponse(chunk=pb.GenerateStreamChunk(token_ids=[1]))
        complete = self._complete(request)
        if callable(answer):
            answer(complete)
        yield pb.GenerateResponse(complete=complete)

    async def wait_for_end(self) -> None:
        """Wait until the server has stopped and its port is free."""
        while self._stopping is None:
            await asyncio.sleep(0.01)
        await self._stopping

    def _problem(self, request: Any) -> str:
        """What the servicer and the engine refuse, in their words."""
        images = len(request.media_refs.items)
        placeholder = self.tokenizer.token_to_id("<|image_pad|>")
        params = request.sampling_params
        if images and not self.media:
            return "media_refs sent but --mm-processor (SMG_VLLM_MM_PROCESSOR) is off on this worker"
        if list(request.tokenized.input_ids).count(placeholder) != images:
            return "multimodal placeholder validation failed"
        if params.HasField("logprobs") and params.logprobs > self.most:
            return f"Requested sample logprobs of {params.logprobs}, which is greater than max allowed: {self.most}"
        if any(not 0 <= token < self.size for token in params.logit_bias):
            return "token_id(s) in logit_bias contain out-of-vocab token ids"
        return ""

    def _complete(self, request: Any) -> Any:
        params = request.sampling_params
        prompt = len(request.tokenized.input_ids)
        if params.HasField("logprobs"):
            ids, finish = [self._step(params)[0]], "length"
        else:
            end = self.tokenizer.token_to_id("<|im_end|>")
            ids = [*self.tokenizer.encode(self.says).ids, end]
            finish = "length" if len(ids) > params.max_tokens else "stop"
            ids = ids[: params.max_tokens]
        complete = pb.GenerateComplete(
            output_ids=ids,
            finish_reason=finish,
            prompt_tokens=prompt,
            completion_tokens=len(ids),
            cached_tokens=prompt // 2,
        )
        if params.HasField("logprobs") and params.logprobs:
            sampled, logprobs = self._step(params)
            likeliest = np.argsort(-logprobs, kind="stable")[: params.logprobs]
            # The servicer's own way: the sampled token first, then cut to the length.
            entry = {t: float(logprobs[t]) for t in (sampled, *likeliest.tolist())}
            given = complete.output_logprobs
            given.token_ids.append(sampled)
            given.token_logprobs.append(entry[sampled])
            top = given.top_logprobs.add()
            for token, value in itertools.islice(entry.items(), params.logprobs):
                top.token_ids.append(token)
                top.values.append(value)
        return complete

    def _step(self, params: Any) -> tuple[int, Any]:
        """The sampled token and all log-probabilities, in float32 as in the engine."""
        biased = self.logits.copy()
        for token, bias in params.logit_bias.items():
            biased[token] += np.float32(min(100.0, max(-100.0, bias)))
        sampled = self.tokenizer.token_to_id(self.sampled or "")
        sampled = int(biased.argmax()) if sampled is None else sampled
        used = biased if self.mode.startswith("processed") else self.logits
        if self.mode.endswith("logits"):
            return sampled, used
        shifted = used - used.max()
        return sampled, shifted - np.log(np.exp(shifted).sum(dtype=np.float32))

    def add_to(self, server: Any) -> None:
        self._server = server
        vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server(self, server)
        health_pb2_grpc.add_HealthServicer_to_server(_Health(self), server)


@asynccontextmanager
async def judge(
    server: ScriptedVllmGrpc, attempts: int = 3, deadline: float = 20.0, **settings: Any
) -> AsyncIterator[VllmTransport]:
    policy = RetryPolicy(attempts=attempts, deadline=deadline, first_wait=0.001)
    async with server.serving() as url:
        async with VllmTransport(JudgeEndpoint(url=url, **settings), policy) as transport:
            yield transport


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    def __init__(self, engine: ScriptedVllmGrpc) -> None:
        self._engine = engine

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.service not in {"", "vllm.grpc.engine.VllmEngine"}:
            await context.abort(grpc.StatusCode.NOT_FOUND, "Unknown service")
        return health_pb2.HealthCheckResponse(status=self._engine.health)


def change_logprobs(**fields: Any) -> Callable[[Any], None]:
    """A reply with other values in its log-probabilities."""

    def change(complete: Any) -> None:
        given = complete.output_logprobs
        for name, value in fields.items():
            if name == "drop":
                complete.ClearField(value)
            elif name in {"values", "token_ids"}:
                del getattr(given.top_logprobs[0], name)[:]
                getattr(given.top_logprobs[0], name).extend(value)
            else:
                del getattr(given, name)[:]
                getattr(given, name).extend(value)

    return change
