"""A reward server as one writes it in an afternoon: FastAPI, base64, a judge over aiohttp."""

import asyncio
import socket
import sys

import aiohttp
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

judge, in_flight = sys.argv[1], int(sys.argv[2])


class Batch(BaseModel):
    prompt: list[str]
    image: list[str]
    condition_images: list[list[str]]


async def lifespan(app):
    async with aiohttp.ClientSession() as app.state.session:
        yield


app = FastAPI(lifespan=lifespan)
places = asyncio.Semaphore(in_flight)


def encode_picture(data):
    return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}


async def score(prompt, source, output):
    content = [encode_picture(source), encode_picture(output), {"type": "text", "text": f"Is it right? {prompt}"}]
    body = {"model": "judge", "messages": [{"role": "user", "content": content}], "temperature": 0}
    try:
        async with places, app.state.session.post(f"{judge}/v1/chat/completions", json=body) as reply:
            text = (await reply.json())["choices"][0]["message"]["content"]
        return {"Yes": 1.0, "No": 0.0}[text]
    except Exception:
        return 0.0  # as such servers do


@app.post("/compute")
async def compute(batch: Batch):
    rows = zip(batch.prompt, batch.condition_images, batch.image, strict=True)
    return {"rewards": await asyncio.gather(*(score(p, s[0], e) for p, s, e in rows))}


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_keep_alive=600))
server.run(sockets=[listener])
