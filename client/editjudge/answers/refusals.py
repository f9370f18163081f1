"""Refusals in words: replies without an answer in which a judge says that it will give none."""

from __future__ import annotations

import re
from typing import NamedTuple

from .contract import Unparsable
from .spoken import Spoken

LONGEST = 600
"""Of a refusal, in characters without the draft: whoever says more has judged."""


class Refusal(NamedTuple):
    """How a language declines: two regular expressions, one soon after the other.

    What is declined is to help or to judge: `I cannot see a change` is an observation. Case does
    not matter, nor which apostrophe is written, nor how lines break.

    Attributes:
        language: In which it is said.
        first: What comes first.
        then: What follows; empty where the first says it all.
        within: How many characters may stand between them.
    """

    language: str
    first: str
    then: str = ""
    within: int = 20

    @property
    def pattern(self) -> str:
        """The regular expression of both together."""
        then = rf"[^.。]{{0,{self.within}}}(?:{self.then})" if self.then else ""
        return f"(?:{self.first}){then}"


_SHOWN = r"(?:(?:the|these|those|any|your|this) )?(?:\w+ )?(?:image|picture|photo|file|content)"
REFUSALS = (
    Refusal(
        "English",
        r"\b(?:i|we) (?:can(?:not|'t| not)|could(?:n't| not)|won't|will not)"
        r"|\b(?:i am|i'm|we are|we're) (?:not able|unable) to",
        r"assist|help with|help you|comply|fulfil|continue|proceed|do (?:that|this|so)\b|process"
        r"|complete|provide|give|answer|respond|discuss|engage|participate|evaluate|assess|rate"
        r"|judge|score|grade|compare|analy[sz]e|review|comment"
        r"|identify (?:people|persons|individuals|anyone|real|who)"
        rf"|(?:view|see|access|open|look at|interpret) {_SHOWN}s?",
        within=12,
    ),
    Refusal(
        "English",
        r"\bi(?:'m| am) (?:just |only )?an? (?:ai|language|text)\b"
        r"|\bas an? (?:ai|language|text)\b",
        r"can(?:not|'t)|unable",
        within=60,
    ),
    Refusal(
        "English",
        r"\b(?:i|we) (?:must|have to|need to|will) (?:respectfully )?(?:decline|refuse)"
        r"|(?:sorry|apologi[sz]e)[^.]{0,30}(?:unable to|can(?:not|'t)) (?:assist|help|comply)"
        r"|(?:against|violates?) (?:my|our|the) (?:\w+ )?(?:guideline|polic|principle)",
    ),
    Refusal(
        "Chinese",
        "无法|無法|不能|没法|沒法|不便|拒绝|拒絕",
        "提供|回答|协助|協助|帮助|幫助|帮您|幫您|完成|满足|滿足|处理|處理|评价|評價|评估|評估|评分"
        "|評分|打分|执行|執行|讨论|討論|回应|回應|查看|继续|繼續|给出|給出",
        within=6,
    ),
    Refusal("Chinese", "违反|違反", "规定|規定|政策|准则|準則|法律|法规"),
    Refusal(
        "Japanese",
        "手伝い|答え|対応|提供|評価|回答|支援",
        "できません|できかねます|いたしかねます|することはできません",
        within=6,
    ),
    Refusal("Korean", "도와|도움|답변|제공|평가|응답|처리", "수 없|어렵습니다", within=12),
    Refusal(
        "German",
        r"\bich (?:kann|darf|werde)\b|\b(?:kann|darf|werde) ich\b",
        r"nicht [^.]{0,40}(?:helfen|beantworten|bewerten|beurteilen|nachkommen|bereitstellen)",
        within=60,
    ),
    Refusal(
        "French",
        r"\bje ne (?:peux|puis|suis)\b[^.]{0,20}\bpas",
        "aider|répondre|assister|évaluer|fournir|traiter|noter|juger",
        within=40,
    ),
    Refusal(
        "Spanish",
        r"\bno (?:puedo|podemos|me es posible)\b",
        "ayudar|asistir|responder|evaluar|proporcionar|cumplir|procesar",
    ),
    Refusal(
        "Portuguese",
        r"\bnão (?:posso|consigo|me é possível)\b",
        "ajudar|auxiliar|responder|avaliar|fornecer|atender|processar",
    ),
    Refusal(
        "Italian",
        r"\bnon (?:posso|sono in grado di|mi è possibile)\b",
        "aiutar|assister|rispondere|valutare|fornire|soddisfare|elaborare",
    ),
    Refusal(
        "Russian",
        r"\bн\u0435 (?:могу|можем|в состоянии)\b",
        "помочь|ответить|оценить|выполнить|предоставить|обработать",
    ),
)
_REFUSES = re.compile("|".join(refusal.pattern for refusal in REFUSALS), re.IGNORECASE)


def refuses(reply: str) -> bool:
    """Whether a reply that holds no answer is a refusal in words.

    It is short, and it speaks: what is written as JSON is none, whatever its texts say.
    """
    try:
        text = Spoken(reply).last.strip()
    except Unparsable:
        return False
    if len(text) > LONGEST or text.startswith(("{", "[", "```")):
        return False
    return _REFUSES.search(" ".join(text.replace("\u2019", "'").split())) is not None
