"""Probabilities over vLLM's gRPC protocol: what is asked, what is read, what is refused."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest
from grpc import StatusCode

from editjudge.base.errors import BadReply, LogprobsUnavailable, Rejection
from editjudge.panel.calls import Reply, Usage

from ..fakes import vllm_grpc as fakes
from ..fakes.grpc_server import Failure
from ..fakes.transport import distribution
from ..fakes.vllm_grpc import LEVELS, LOGITS, PROMPT, ScriptedVllmGrpc, judge
from .panels import YES_NO


async def choose(server: ScriptedVllmGrpc, choices: tuple[str, ...] = YES_NO) -> Reply:
    async with judge(server) as transport:
        return await transport.choose(PROMPT, choices)


def outside(server: ScriptedVllmGrpc, ids: list[int]) -> float:
    weights = np.exp(server.logits.astype(np.float64))
    return float(1 - weights[ids].sum() / weights.sum())


@pytest.mark.parametrize("words", [fakes.WORDS, fakes.SPLIT], ids=["whole", "split"])
async def test_the_distribution_is_the_softmax_of_the_labels(words: tuple[str, ...]) -> None:
    server = ScriptedVllmGrpc(words=words, logits={k: v for k, v in LOGITS.items() if k in words}, floor=-2.0)
    choice = await choose(server, LEVELS)
    request = server.requests[-1]
    ids = list(request.sampling_params.logit_bias)
    by_choice: dict[str, list[float]] = {level: [] for level in LEVELS}
    for token in ids:
        text = server.tokenizer.decode([token])
        (level,) = [one for one in LEVELS if one.startswith(text.lower())]
        by_choice[level].append(math.exp(float(server.logits[token])))
    total = math.fsum(weight for weights in by_choice.values() for weight in weights)
    expected = {level: math.fsum(weights) / total for level, weights in by_choice.items()}
    assert distribution(choice).probabilities == pytest.approx(expected, abs=1e-5)
    # All others are level, so 128 of them are as many in a list of 263 as the list is long.
    assert distribution(choice).outside is not None
    assert 0.1 < distribution(choice).outside <= outside(server, ids) + 1e-5
    assert (distribution(choice).method, choice.model) == ("logprobs", "judge")
    # Five levels begin with e, g, f, p and b; the words' own tokens come on top.
    assert len(ids) > 5
    assert all(len(weights) >= 1 for weights in by_choice.values())


async def test_all_of_the_mass_outside_where_the_list_is_long_enough() -> None:
    server = ScriptedVllmGrpc(logits=LOGITS, floor=-1.0, most=1000)
    server.logits[:] = np.linspace(-40, -20, server.size)
    for text, value in LOGITS.items():
        server.logits[server.tokenizer.token_to_id(text)] = value
    found = distribution(await choose(server))
    ids = list(server.requests[-1].sampling_params.logit_bias)
    assert found.outside == pytest.approx(outside(server, ids), abs=1e-5)
    assert found.outside == pytest.approx(0.903, abs=0.001)


@pytest.mark.parametrize(
    ("inside", "other", "expected"),
    [(-60.0, 30.0, 1.0), (60.0, -20.0, 0.0)],
    ids=["labels that are hopeless", "labels that are certain"],
)
async def test_extreme_masses(inside: float, other: float, expected: float) -> None:
    logits = {"Yes": inside, "No": inside - 1.0, "good": other, "a": -9.0, "b": -9.0}
    server = ScriptedVllmGrpc(logits=logits, floor=-80.0)
    found = distribution(await choose(server))
    assert found.probabilities["Yes"] > 0.7
    assert found.outside == pytest.approx(expected, abs=1e-5)


async def test_a_sampled_token_that_is_no_label_takes_the_last_place_of_the_list() -> None:
    server = ScriptedVllmGrpc(logits=LOGITS, sampled="<|vision_end|>", most=30)
    async with judge(server) as transport:
        await transport.identify(5)
        transport._includes_bias = True
        choice = await transport.choose(PROMPT, LEVELS)
    listed = server.requests[-1].sampling_params.logprobs
    assert len(server.requests[-1].sampling_params.logit_bias) == 29
    assert listed == 30
    assert math.fsum(distribution(choice).probabilities.values()) == pytest.approx(1)
    # The likeliest other token was cut, the sampled one took its place.
    assert distribution(choice).outside == pytest.approx(
        math.exp(-5) / sum(math.exp(v) for v in LOGITS.values()), rel=0.1
    )


async def test_what_a_choice_is_asked_with() -> None:
    server = ScriptedVllmGrpc(logits=LOGITS)
    choice = await choose(server, LEVELS)
    first, _, request = server.requests
    params = request.sampling_params
    assert (params.temperature, params.top_p, params.top_k, params.max_tokens) == (1, 1, 0, 1)
    assert (params.repetition_penalty, params.n, params.logprobs) == (1, 1, 128)
    assert set(params.logit_bias.values()) == {100}
    assert not request.stream
    assert [item.url for item in request.media_refs.items] == [fakes.PICTURE.url]
    assert server.decode_prompt(request) == (
        "<|im_start|>system\nYou judge.<|im_end|>\n<|im_start|>user\n"
        "Before:<|vision_start|><|image_pad|><|vision_end|>Good? x<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    # Two probes of one token each come first; they are in the bill.
    assert not first.media_refs.items
    assert len({r.request_id for r in server.requests}) == 3
    length = len(request.tokenized.input_ids)
    assert choice.usage == Usage(length, length // 2, 1)


async def test_the_mode_is_probed_once() -> None:
    server = ScriptedVllmGrpc(logits=LOGITS)
    async with judge(server) as transport:
        await asyncio.gather(*(transport.choose(PROMPT, YES_NO) for _ in range(4)))
    assert len(server.requests) == 2 + 4


@pytest.mark.parametrize("mode", ["raw_logprobs", "raw_logits", "processed_logits"])
@pytest.mark.parametrize("certain", ["", "a", "b"])
async def test_servers_whose_probabilities_leave_out_the_bias(mode: str, certain: str) -> None:
    server = ScriptedVllmGrpc(logits={certain: 80.0} if certain else {}, mode=mode)
    async with judge(server) as transport:
        for _ in range(2):
            with pytest.raises(LogprobsUnavailable, match="--logprobs-mode processed_logprobs"):
                await transport.choose(PROMPT, YES_NO)
    assert len(server.requests) == 2


async def test_a_probe_that_fails_is_made_again() -> None:
    refusal = Failure(StatusCode.INVALID_ARGUMENT, "not today")
    async with judge(ScriptedVllmGrpc(refusal, None)) as transport:
        with pytest.raises(Rejection):
            await transport.choose(PROMPT, YES_NO)
        await transport.choose(PROMPT, YES_NO)


async def test_a_server_that_takes_no_bias() -> None:
    words = "min_p and logit_bias sampling parameters are not yet supported with speculative"
    with pytest.raises(LogprobsUnavailable, match="speculative"):
        await choose(ScriptedVllmGrpc(Failure(StatusCode.INVALID_ARGUMENT, words)))


async def test_a_server_that_lists_fewer_tokens() -> None:
    server = ScriptedVllmGrpc(logits=LOGITS, most=20)
    async with judge(server) as transport:
        await transport.choose(PROMPT, YES_NO)
        await transport.choose(PROMPT, YES_NO)
    assert [r.sampling_params.logprobs for r in server.requests] == [128, 20, 20, 20, 20]


@pytest.mark.parametrize("most", [0, 2, 5])
async def test_a_server_that_lists_too_few_tokens(most: int) -> None:
    server = ScriptedVllmGrpc(logits=LOGITS, most=most)
    with pytest.raises(LogprobsUnavailable, match=f"lists {most} tokens.*--max-logprobs 128"):
        await choose(server, LEVELS)


async def test_a_choice_that_no_token_speaks_for() -> None:
    with pytest.raises(LogprobsUnavailable, match="begins '10' only"):
        await choose(ScriptedVllmGrpc(), ("10", "11"))


NAN = float("nan")
SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "no log-probabilities": ({"drop": "output_logprobs"}, "does not hold"),
    "two tokens": ({"token_ids_": 1}, "does not hold"),
    "no token": ({"token_logprobs": []}, "does not hold"),
    "no list": ({"top_logprobs": []}, "does not hold"),
    "fewer values than tokens": ({"values": [0.0]}, "tokens with 1 log-probabilities"),
    "NaN": ({"values": [NAN] * 128}, "NaN"),
    "above 1": ({"values": [0.5] * 128}, "no log-probability"),
    "infinite": ({"values": [math.inf] * 128}, "no label|no log-probability"),
    "labels left out": ({"token_ids": range(1000, 1128)}, "labels are not listed"),
    "one token twice": ({"token_ids": [1, *range(127)]}, "listed twice"),
    "more than 1 in sum": ({"values": [-0.5] * 128}, "sum to"),
    "no label possible": ({"values": [-math.inf] * 128}, "no label has any"),
}


@pytest.mark.parametrize("case", SHAPES)
async def test_replies_of_a_wrong_shape(case: str) -> None:
    fields, text = SHAPES[case]

    def two(complete: Any) -> None:
        complete.output_ids.append(1)

    change = two if "token_ids_" in fields else fakes.change_logprobs(**fields)
    with pytest.raises(BadReply, match=text):
        await choose(ScriptedVllmGrpc(None, None, change, logits=LOGITS))
