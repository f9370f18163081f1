"""Judges that decline in words."""

from __future__ import annotations

import pytest

from editjudge.answers.words import LONGEST, REFUSALS, is_refusal

DECLINES = {
    "English": (
        "I'm sorry, but I can't assist with that request.",
        "I\u2019m sorry, I can\u2019t help with that.",
        "I cannot evaluate these images.",
        "I am unable to process this image as it contains nudity.",
        "Sorry, I can't identify people in images.",
        "I must respectfully decline.",
        "This request violates our content policy.",
        "As an AI language model, I cannot view images.",
        "I'm an AI assistant, and I'm unable to look at pictures.",
        "I won't provide a rating for this content.",
        "I'm sorry, but I cannot comply.",
    ),
    "Chinese": (
        "抱歉，我无法协助完成该请求。",
        "很抱歉，我不能提供帮助。",
        "对不起，我无法对此进行评价。",
        "該內容違反相關政策，無法處理。",
        "你好，这个问题我暂时无法回答。",
    ),
    "Japanese": ("申し訳ありませんが、そのご依頼には対応できません。",),
    "Korean": ("죄송하지만 그 요청은 도와드릴 수 없습니다.",),
    "German": ("Es tut mir leid, aber ich kann dabei nicht helfen.",),
    "French": ("Désolé, je ne peux pas vous aider avec cette demande.",),
    "Spanish": ("Lo siento, no puedo ayudar con eso.",),
    "Portuguese": ("Desculpe, mas não posso ajudar com isso.",),
    "Italian": ("Mi dispiace, ma non posso aiutarti con questa richiesta.",),
    "Russian": ("Извините, я не могу помочь с этим запросом.",),
}


@pytest.mark.parametrize("language", sorted({row["language"] for row in REFUSALS}))
def test_a_refusal(language: str) -> None:
    for reply in DECLINES[language]:
        assert is_refusal(reply), reply


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot see a change between the two images.",
        "I can't tell from the image.",
        "I cannot determine whether the vase is gone.",
        "No visible change, so the score is 1.",
        "The hat cannot be found in the edited image.",
        "The shelf cannot support the vase, and the man can't help looking at it.",
        '{"reasoning": "I cannot assist with that.", "score": "x"}',
        '```json\n{"reasoning": "I\'m sorry, but I can\'t help"',
        "我看不出任何变化。",
        "无法确定花瓶是否被移除。",
        "I can rate this image. It is helpful, and I cannot say more than that it helps.",
        "I can't assist with that. " + "The edit is fine. " * (LONGEST // 10),
    ],
)
def test_what_is_none(reply: str) -> None:
    assert not is_refusal(reply)
