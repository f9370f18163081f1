"""A script as one writes it in an afternoon: the SDK `openai`, threads, bytes as base64."""

import base64
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openai import OpenAI

folder, url, out, threads = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
client = OpenAI(base_url=url, api_key="none")


def encode_picture(path):
    data = base64.b64encode(path.read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def judge(edit):
    question = {"type": "text", "text": f"{edit['instruction']}\n{edit['question']}"}
    content = [question, encode_picture(folder / edit["source"]), encode_picture(folder / edit["edited"])]
    messages = [{"role": "user", "content": content}]
    try:
        reply = client.chat.completions.create(model="judge", temperature=0, messages=messages)
        return int(re.findall(r"\d+", reply.choices[0].message.content)[-1])
    except Exception as error:
        print(edit["id"], error, file=sys.stderr)


edits = json.loads((folder / "edits.json").read_text())
with ThreadPoolExecutor(threads) as pool:
    scores = list(pool.map(judge, edits))
out.write_text(json.dumps(dict(zip([edit["id"] for edit in edits], scores))))
