"""Chat templates and the encoding of prompts: data never becomes a control token."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from editjudge.panel.prompt import Picture, Prompt, Text
from editjudge.panel.vllm import tokenizer as module
from editjudge.panel.vllm.tokenizer import ChatTemplate, ModelTokenizer, TokenizerFiles, unpack

from ...fakes.vllm_grpc import MARKUP, SPECIAL, SPLIT, TEMPLATE, bundle_files, tokenizer, zip_files

PICTURE = Picture(b"\x89PNG", "image/png", (32, 32))
WHOLE = tokenizer()
CHAT = ChatTemplate(TEMPLATE, ModelTokenizer(WHOLE.to_str()), {}, WHOLE.token_to_id("<|image_pad|>"))
CONTROL = (*SPECIAL, *MARKUP)

VARIABLES = {"bos_token": "<|endoftext|>"}


def render(chat: ChatTemplate, prompt: Prompt) -> str:
    return "".join(text for text, _ in chat.pieces(prompt))


def messages(prompt: Prompt, *, as_text: bool = False) -> list[dict[str, Any]]:
    content: Any = [
        {"type": "image"} if isinstance(p, Picture) else {"type": "text", "text": p.text} for p in prompt.parts
    ]
    if as_text:
        content = "".join(part["text"] for part in content)
    system: Any = prompt.system if as_text else [{"type": "text", "text": prompt.system}]
    turns = [{"role": "system", "content": system}] if prompt.system else []
    return [*turns, {"role": "user", "content": content}]


PROMPTS = {
    "text": Prompt("", (Text("Is it good?"),)),
    "system": Prompt("You judge.", (Text('Is it <good> & "fair"?'),)),
    "images": Prompt("You judge.", (Text("Before:"), PICTURE, Text("After:"), PICTURE, Text("?"))),
}
# Written anew in the manner of well-known ones.
_JINJA = (Path(__file__).parent / "templates").iterdir()
TEMPLATES = {"qwen": TEMPLATE} | {file.stem: file.read_text() for file in _JINJA}
PARITY = [pair for pair in product(TEMPLATES, PROMPTS) if pair != ("chatml", "images")]


@pytest.mark.parametrize(("template", "case"), PARITY)
def test_rendering_is_that_of_transformers(template: str, case: str) -> None:
    prompt = PROMPTS[case]
    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer(), **VARIABLES)
    theirs.chat_template = TEMPLATES[template]
    expected = theirs.apply_chat_template(
        messages(prompt, as_text=template == "chatml"), tokenize=False, add_generation_prompt=True
    )
    assert render(ChatTemplate(TEMPLATES[template], CHAT.tokens, VARIABLES), prompt) == expected


@pytest.mark.parametrize("case", PROMPTS)
def test_ids_are_those_of_the_whole_text_in_one_piece(case: str) -> None:
    whole = render(CHAT, PROMPTS[case])
    assert CHAT.ids(PROMPTS[case]) == WHOLE.encode(whole, add_special_tokens=False).ids


# Words whose letters merge across borders, white space, and what begins control tokens.
PARTS = st.sampled_from(["good", "exc", "ellent", "fa", "ir", " ", "\n", "<", "|", "im_", "é", "字"])
PLAIN = st.lists(PARTS | st.characters(exclude_categories=["Cs"]), max_size=12).map("".join)
HOSTILE = st.sampled_from([*CONTROL, "good", "\n", "assistant", "<|im", "_end|>", "<|", "|>", "é"])
ATTACK = st.lists(HOSTILE, min_size=1, max_size=6).map("".join)


@given(st.lists(PLAIN, min_size=1, max_size=5), st.text("good ", max_size=5))
@settings(max_examples=150)
def test_ordinary_text_merges_across_parts(texts: list[str], system: str) -> None:
    prompt = Prompt(system, tuple(Text(text, is_data=i % 2 == 1) for i, text in enumerate(texts)))
    assume(not any(control in "".join(texts) + system for control in CONTROL))
    whole = render(CHAT, prompt)
    assert CHAT.ids(prompt) == WHOLE.encode(whole, add_special_tokens=False).ids


@given(st.lists(ATTACK, min_size=1, max_size=4), st.booleans())
@settings(max_examples=150)
def test_data_never_adds_a_control_token(texts: list[str], data: bool) -> None:
    attacked = Prompt("Judge.", (PICTURE, *(Text(text, is_data=data) for text in texts)))
    harmless = Prompt("Judge.", (PICTURE, Text("a")))
    control = {WHOLE.token_to_id(text) for text in CONTROL}
    ids = CHAT.ids(attacked)
    assert [i for i in ids if i in control] == [i for i in CHAT.ids(harmless) if i in control]
    # Nothing is lost on the way.
    decoded = WHOLE.decode(ids, skip_special_tokens=False)
    assert decoded.replace("\u200b", "") == render(CHAT, attacked)


@pytest.mark.parametrize("control", CONTROL)
def test_a_control_tokens_text_in_data_is_broken(control: str) -> None:
    ids = CHAT.ids(Prompt("", (Text("Instruction: "), Text(f"{control}x", is_data=True))))
    token = WHOLE.token_to_id(control)
    own = CHAT.ids(Prompt("", (Text("x"),))).count(token)
    assert ids.count(token) == own
    broken = f"{control[0]}\u200b{control[1:]}"
    assert f"Instruction: {broken}x" in WHOLE.decode(ids, skip_special_tokens=False)


def test_a_control_token_put_together_from_two_parts() -> None:
    ids = CHAT.ids(Prompt("", (Text("<|im_"), Text("end|>", is_data=True))))
    assert ids.count(WHOLE.token_to_id("<|im_end|>")) == 1


def test_a_control_token_put_together_with_the_template() -> None:
    template = "{{ messages[0].content[0].text }}nd|>{{ '<|im_start|>' }}"
    chat = ChatTemplate(template, CHAT.tokens)
    with pytest.raises(ValueError, match=r"makes '<\|im_end\|>' of a text"):
        chat.ids(Prompt("", (Text("<|im_e", is_data=True),)))


def with_added(added: AddedToken) -> Tokenizer:
    made = tokenizer()
    made.add_tokens([added])
    return made


@pytest.mark.parametrize("form", ["rstrip", "lstrip", "single_word"])
@pytest.mark.parametrize("text", ["  good", "good\n ", "x"])
def test_control_tokens_that_take_in_white_space(form: str, text: str) -> None:
    made = with_added(AddedToken("<|end|>", special=True, **{form: True}))
    tokens = ModelTokenizer(made.to_str())
    pieces = [(" <|end|> ", False), (text, True), ("\n<|end|>", False)]
    whole = "".join(part for part, _ in pieces)
    assert tokens.encode(pieces) == made.encode(whole, add_special_tokens=False).ids


def test_runs_of_white_space_are_no_control_tokens() -> None:
    made = with_added(AddedToken("    ", special=False, normalized=False))
    tokens = ModelTokenizer(made.to_str())
    assert made.token_to_id("    ") in tokens.encode([("a    b<think>", True)])


def test_a_normaliser_that_makes_a_control_token() -> None:
    made = tokenizer()
    made.normalizer = normalizers.NFKC()
    made.add_special_tokens([AddedToken("<s>", normalized=True, special=True)])
    tokens = ModelTokenizer(made.to_str())
    assert made.token_to_id("<s>") in made.encode("＜s＞").ids
    with pytest.raises(ValueError, match="makes '<s>' of a text"):
        tokens.encode([("＜s＞", True)])


def test_a_tokenizer_that_cannot_write_the_text() -> None:
    vocabulary = {"[U]": 0, "<s>": 1, "a": 2}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[U]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["[U]", "<s>"])
    tokens = ModelTokenizer(made.to_str())
    assert tokens.encode([("a b", True)]) == [2, 0]
    assert tokens.encode([("a <s>", True)]) == [2, 0]


def test_truncation_and_padding_of_the_file_are_off() -> None:
    made = tokenizer()
    made.enable_truncation(2)
    made.enable_padding(length=9)
    assert len(ModelTokenizer(made.to_str()).encode([("bad Yes good", True)])) == 5


def test_sentence_pieces_prefix_is_that_of_the_whole() -> None:
    vocabulary = {text: i for i, text in enumerate(["▁", "a", "b", "▁a", "<s>"])}
    made = Tokenizer(models.BPE(vocabulary, [("▁", "a")]))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<s>"])
    pieces = [("<s>a", False), ("a", True), ("<s>", False), ("b", True)]
    assert ModelTokenizer(made.to_str()).encode(pieces) == made.encode("<s>aa<s>b").ids


def test_labels_that_are_one_token() -> None:
    whole = tokenizer(SPLIT)
    tokens = ModelTokenizer(whole.to_str())
    assert tokens.single_token("good") == whole.token_to_id("good")
    assert tokens.single_token("excellent") is tokens.single_token("<|im_end|>") is None


REFUSING = {
    "an error of its own": ("{{ raise_exception('no system turn') }}", "no system turn"),
    "texts left out": ("{{ messages[-1].role }}", "leaves out"),
    "texts twice": ("{{ messages[0].content[0].text * 2 }}", "changes their order"),
    "a private attribute": ("{{ messages.__class__.__mro__ }}", "unsafe"),
    "a private name": ("{% set n = namespace(_x=1) %}", "private name"),
    "a mistake": ("{% if %}", "cannot be read"),
    "no such thing": ("{{ messages[0].content.nothing.at_all }}", "no attribute"),
}


@pytest.mark.parametrize("case", REFUSING)
def test_templates_that_do_not_take_the_prompt(case: str) -> None:
    template, text = REFUSING[case]
    with pytest.raises(ValueError, match=text):
        ChatTemplate(template, CHAT.tokens).pieces(PROMPTS["text"])


def test_images_where_a_template_takes_text_only() -> None:
    with pytest.raises(ValueError, match="does not take the prompt"):
        ChatTemplate(TEMPLATES["chatml"], CHAT.tokens).ids(PROMPTS["images"])
    placeholder = WHOLE.token_to_id("<|image_pad|>")
    ids = ChatTemplate(TEMPLATES["chatml"], CHAT.tokens, image_id=placeholder).ids(PROMPTS["images"])
    assert ids.count(placeholder) == 2


def test_a_template_that_writes_another_number_of_placeholders() -> None:
    twice = TEMPLATE.replace("<|image_pad|>", "<|image_pad|><|image_pad|>")
    chat = ChatTemplate(twice, CHAT.tokens, image_id=WHOLE.token_to_id("<|image_pad|>"))
    with pytest.raises(ValueError, match="4 placeholders for 2 images"):
        chat.ids(PROMPTS["images"])


def test_neighbouring_texts_are_one_and_empty_ones_none() -> None:
    data = [Text(text, is_data=True) for text in ("", "it")]
    split = Prompt("", (Text("Is "), *data, Text(" good?")))
    assert CHAT.ids(split) == CHAT.ids(PROMPTS["text"])


def test_json_and_dates_in_templates() -> None:
    template = "{{ {'a': '<é>'} | tojson }}{{ strftime_now('%Y')[:2] }}{{ messages[0].content }}"
    chat = ChatTemplate(template, CHAT.tokens)
    assert render(chat, PROMPTS["text"]) == '{"a": "<é>"}20Is it good?'


FILES = bundle_files(WHOLE)
SEVERAL = [{"name": "tools", "template": "U"}, {"name": "default", "template": "T"}]
TEMPLATE_FILES: dict[str, dict[str, str | bytes]] = {
    "own file": {"chat_template.jinja": "T", "tokenizer_config.json": '{"chat_template": "U"}'},
    "json": {"chat_template.json": '{"chat_template": "T"}'},
    "tokenizer's": {"tokenizer_config.json": '{"chat_template": "T"}'},
    "one of several": {"tokenizer_config.json": json.dumps({"chat_template": SEVERAL})},
}


@pytest.mark.parametrize("case", TEMPLATE_FILES)
def test_where_templates_are_kept(case: str) -> None:
    assert unpack(zip_files(TEMPLATE_FILES[case])).template == "T"


def test_what_a_bundle_says() -> None:
    bundle = unpack(zip_files({**FILES, "../../escape": "x", "/etc/passwd": "x"}))
    assert set(bundle.files) == set(FILES)
    assert bundle.image_id == WHOLE.token_to_id("<|image_pad|>")
    assert bundle.stop_ids == (WHOLE.token_to_id("<|im_end|>"),)
    assert bundle.special_texts == {"eos_token": "<|im_end|>"}
    same = unpack(zip_files(dict(reversed(FILES.items()))))
    other = unpack(zip_files({**FILES, "chat_template.jinja": "other"}))
    assert bundle.digest == same.digest != other.digest


def test_archives_that_cannot_be_read() -> None:
    whole = zip_files(FILES)
    damaged = whole.replace(b"PK\x03\x04", b"PK\x03\x05", 1)
    for archive in (b"no zip at all", whole[:-40], damaged):
        with pytest.raises(ValueError, match="cannot be read"):
            unpack(archive)


def test_an_archive_that_holds_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.MAX_FILES > 10**8
    monkeypatch.setattr(module, "MAX_FILES", 1000)
    with pytest.raises(ValueError, match="exceed 1,000 bytes"):
        unpack(zip_files({"tokenizer.json": bytes(100_000)}))


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({}, r"no tokenizer\.json"),
        ({"tokenizer.json": b"{}"}, "no chat template"),
        ({"tokenizer.json": b"{}", "chat_template.jinja": b"T"}, "tokenizer"),
        ({"tokenizer.json": b"{}", "tokenizer_config.json": b"[]"}, "not a JSON object"),
    ],
)
def test_models_without_what_is_needed(files: dict[str, bytes], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ChatTemplate.of(TokenizerFiles(files))
