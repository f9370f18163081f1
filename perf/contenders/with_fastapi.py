"""A service as one writes it in an afternoon: FastAPI, pictures in base64, a judge over aiohttp."""

import base64
import io
import re
import sys

import aiohttp
import uvicorn
from fastapi import FastAPI
from PIL import Image
from pydantic import BaseModel, Field

judge, port, decodes = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "decoding"


class Edit(BaseModel):
    instruction: str
    source: str
    output: str = Field(alias="edited")


async def lifespan(app):
    async with aiohttp.ClientSession() as app.state.session:
        yield


app = FastAPI(lifespan=lifespan)


def encode_picture(data):
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    if decodes:
        picture.load()
    return {"type": "image_url", "image_url": {"url": f"data:{picture.get_format_mimetype()};base64,{data}"}}


@app.post("/score")
async def score(edit: Edit):
    content = [{"type": "text", "text": edit.instruction}, encode_picture(edit.source), encode_picture(edit.output)]
    body = {"model": "judge", "messages": [{"role": "user", "content": content}], "temperature": 0}
    async with app.state.session.post(f"{judge}/v1/chat/completions", json=body) as reply:
        text = (await reply.json())["choices"][0]["message"]["content"]
    return {"score": int(re.findall(r"\d+", text)[-1])}


uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", timeout_keep_alive=600)
