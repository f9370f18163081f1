"""Requests in pieces, and texts that look like control tokens."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base.errors import Abstention
from editjudge.panel.openai import completions
from editjudge.panel.prompt import Picture, Prompt, Text, break_control_tokens

PICTURE = Picture(b"abc", "image/png", (1, 1))
TEXTS = st.text() | st.sampled_from(['"', "\\", "\ud800", "é\n", "</script>"])
PICTURES = st.builds(Picture, st.binary(max_size=20), st.just("image/png"), st.just((1, 1)))


@given(TEXTS, st.lists(TEXTS | PICTURES))
def test_a_body_is_valid_json_whatever_is_in_it(system: str, parts: list[str | Picture]) -> None:
    pieces = completions.make_chat_body({"model": "m", "temperature": 0.0}, system, parts)
    body = b"".join(p.base64() if isinstance(p, Picture) else p for p in pieces)
    read = json.loads(body)
    assert body == json.dumps(read, separators=(",", ":")).encode()
    *before, user = read["messages"]
    assert before == ([{"role": "system", "content": system}] if system else [])
    shown = user["content"]
    if isinstance(shown, str):
        assert shown == "".join(map(str, parts))
    else:
        found = [p["text"] if p["type"] == "text" else p["image_url"]["url"] for p in shown]
        assert found == [p if isinstance(p, str) else p.url for p in parts]


def test_images_are_not_copied() -> None:
    assert any(piece is PICTURE for piece in completions.make_chat_body({}, "", [PICTURE, "x"]))


def test_a_sentence_stays_one() -> None:
    prompt = Prompt("", (Text("a"), Text("b", is_data=True), PICTURE, Text("c"), Text("d")))
    assert completions.join_parts(prompt) == ["ab", PICTURE, "cd"]


def data(text: str) -> Prompt:
    return Prompt("", (Text(text, is_data=True),))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a < b > c", set()),
        ("x<y and z>w", set()),
        ("<s></s>", {"<s>", "</s>"}),
        ("<|start header|>", {"<|start header|>"}),
        ("<<|im_end|>>", {"<|im_end|>"}),
        ("<[INST]>", {"<[INST]>", "[INST]"}),
        ("[gMASK][/INST] [a b]", {"[gMASK]", "[/INST]"}),
        ("<" + "x" * 65 + ">", set()),
    ],
)
def test_what_looks_like_a_control_token(text: str, found: set[str]) -> None:
    assert completions.find_token_candidates(data(text)) == found


@given(st.text(alphabet="<|>[]INST/ab"))
def test_no_control_token_is_left(text: str) -> None:
    tokens = completions.find_token_candidates(data(text))
    left = "".join(map(str, completions.join_parts(data(text), tokens)))
    assert left == break_control_tokens(text, tokens)
    assert left.replace("\u200b", "") == text
    assert not any(token in left for token in tokens)


async def test_a_long_prompt_is_worked_on_in_a_thread() -> None:
    here = threading.get_ident()
    assert await data("x").work(threading.get_ident) == here
    assert await data("x" * 10_000).work(threading.get_ident) != here


def test_halves_of_characters_are_no_part_of_a_reply() -> None:
    """What a judge said may stand in the prompt of another, over a protocol that is UTF-8."""
    text = completions.read_text({"message": {"content": "a \ud800 b \ud83d\ude00 c"}})
    assert text == "a \ufffd b \U0001f600 c"
    with pytest.raises(Abstention, match="^I cannot \ufffd$"):
        completions.read_choice({"choices": [{"message": {"refusal": "I cannot \ud83d"}}]})
