"""Judges that answer at once, in processes of their own: so that their clients are measured."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import multiprocessing
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

ANSWER = {
    "id": "chatcmpl-0",
    "object": "chat.completion",
    "created": 0,
    "model": "null",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 900, "completion_tokens": 1, "total_tokens": 901},
}
CARD = {"object": "list", "data": [{"id": "null", "object": "model", "owned_by": "null"}]}
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|image_pad|>")
TEMPLATE = """\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}
{%- for part in message.content %}
{%- if part.type == 'image' %}<|image_pad|>{%- else %}{{ part.text }}{%- endif %}
{%- endfor %}{{ '<|im_end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"""


class NullChat(asyncio.BufferedProtocol):
    """OpenAI's protocol: counts a request's bytes and answers."""

    _buffer = memoryview(bytearray(1 << 20))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """One client's connection, kept open from request to request."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._head = b""
        self._missing = 0
        self._reply = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        """One buffer for all connections: nothing in it is read again."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """More of a request's head or body."""
        if self._missing:
            self._missing -= nbytes
        else:
            self._head += bytes(self._buffer[:nbytes])
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            lines = head.lower().split(b"\r\n")
            length = next((ln[15:] for ln in lines if ln.startswith(b"content-length:")), b"0")
            self._missing = int(length) - len(body)
            payload = json.dumps(CARD if head.startswith(b"GET") else ANSWER).encode()
            self._reply = (
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(payload)
            ) + payload
            self._head = b""
        if self._missing == 0:
            self._transport.write(self._reply)


def serve_chat(pipe: Connection) -> None:
    """Serve OpenAI's protocol for ever; tells its port."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(NullChat, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def tokenizer() -> Any:
    """Byte-level BPE that has learned a few words, with control tokens as Qwen's has them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(SPECIAL),
        show_progress=False,
    )
    bpe.train_from_iterator([str(asyncio.__doc__), str(json.__doc__)], trainer)
    return bpe


def bundle() -> bytes:
    """The tokenizer's files as vLLM sends them."""
    bpe = tokenizer()
    files = {
        "tokenizer.json": bpe.to_str(),
        "tokenizer_config.json": json.dumps({"eos_token": SPECIAL[1]}),
        "chat_template.jinja": TEMPLATE,
        "config.json": json.dumps({"image_token_id": bpe.token_to_id(SPECIAL[2])}),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def engine_methods() -> dict[str, Any]:
    """What vLLM's gRPC protocol asks of an engine; requests are received and never parsed."""
    import grpc
    from smg_grpc_proto import vllm_engine_pb2 as pb
    from smg_grpc_proto.generated import common_pb2

    bpe, archive = tokenizer(), bundle()
    info = pb.GetModelInfoResponse(
        served_model_name="null",
        is_generation=True,
        max_context_length=4096,
        vocab_size=bpe.get_vocab_size(),
        eos_token_ids=[bpe.token_to_id(SPECIAL[1])],
    )
    server = pb.GetServerInfoResponse(mm_processor="inprocess", mm_media_ref_schemes="data")
    chunk = common_pb2.GetTokenizerChunk(data=archive, sha256=hashlib.sha256(archive).hexdigest())
    complete = pb.GenerateComplete(
        output_ids=bpe.encode("7").ids, finish_reason="stop", prompt_tokens=900, completion_tokens=1
    )

    def once(reply: Any) -> Any:
        data: bytes = reply.SerializeToString()

        async def answer(_request: bytes, _context: Any) -> bytes:
            return data

        return grpc.unary_unary_rpc_method_handler(answer)

    def stream(reply: Any) -> Any:
        data = reply.SerializeToString()

        async def answer(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
            yield data

        return grpc.unary_stream_rpc_method_handler(answer)

    return {
        "GetModelInfo": once(info),
        "GetServerInfo": once(server),
        "GetLoads": once(pb.GetLoadsResponse(version="null")),
        "GetTokenizer": stream(chunk),
        "Generate": stream(pb.GenerateResponse(complete=complete)),
    }


def serve_engine(pipe: Connection) -> None:
    """Serve vLLM's gRPC protocol for ever; tells its port."""
    import grpc
    import grpc.aio
    from grpc_health.v1 import health_pb2

    status = health_pb2.HealthCheckResponse.SERVING
    health: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()

    async def healthy(_request: bytes, _context: Any) -> bytes:
        return health

    async def run() -> None:
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        services = {
            "vllm.grpc.engine.VllmEngine": engine_methods(),
            "grpc.health.v1.Health": {"Check": grpc.unary_unary_rpc_method_handler(healthy)},
        }
        for name, methods in services.items():
            handler = grpc.method_handlers_generic_handler(name, methods)
            server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        pipe.send(port)
        await server.wait_for_termination()

    asyncio.run(run())


@contextmanager
def serving(serve: Callable[[Connection], None]) -> Iterator[str]:
    """A server in a process of its own; gives its host and port."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield f"127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()
