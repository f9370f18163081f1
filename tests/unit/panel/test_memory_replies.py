"""What a panel without a ledger remembers, and what it lets go."""

from __future__ import annotations

import gc
import weakref

from editjudge.panel.calls import Call, MemoryReplies, Reply, Usage
from editjudge.panel.prompt import Picture, Prompt, Text


def call_about(picture: Picture) -> Call:
    return Call("judge", Prompt("", (picture, Text("Is it red?"))), {"choices": ["Yes", "No"]})


async def test_only_the_latest_are_remembered_where_there_is_a_bound() -> None:
    store = MemoryReplies(2)
    calls = [call_about(Picture(bytes([i]), "image/png", (8, 8))) for i in range(3)]
    for call in calls:
        await store.put(call, Reply({"text": "Yes"}, "m", Usage(3, 1, 1), None))
    assert await store.get(calls[0]) is None
    assert len(await store.get_records([call.key for call in calls])) == 2


async def test_replies_are_remembered_and_pictures_are_not() -> None:
    """A client that judges for days would hold every picture otherwise."""
    store = MemoryReplies()
    picture = Picture(b"encoded", "image/png", (8, 8))
    call = call_about(picture)
    key, prompt = call.key, call.prompt.digest
    await store.put(call, Reply({"text": "Yes"}, "m", Usage(3, 1, 1), None))
    sent = weakref.ref(picture)
    del picture, call
    gc.collect()
    assert sent() is None

    again = call_about(Picture(b"encoded", "image/png", (8, 8)))
    assert again.key == key
    reply = await store.get(again)
    assert reply is not None
    assert reply.content == {"text": "Yes"}
    (said,) = (await store.get_records([key, "sha256:unknown"])).values()
    assert (said.call, said.judge, said.prompt) == (key, "judge", prompt)
    assert (said.reply, said.prompt_tokens) == ({"text": "Yes"}, 3)
