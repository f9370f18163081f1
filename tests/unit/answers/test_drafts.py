"""What a model thought before it answered: no answer is taken out of it."""

from __future__ import annotations

import pytest

from editjudge.answers.questions import Questions
from editjudge.answers.reply import Unparsable
from editjudge.answers.scores import ScoreField, Scores, ScoresAnswer
from editjudge.answers.segmentation import Commands
from editjudge.answers.texts import FirstWord, Option

KRIS = Scores((ScoreField("score", 1, 5),))
BEFORE = Scores((ScoreField("score", 1, 5),), reasoning="before")
DRAFT = '{"reasoning": "At first sight.", "score": 5}'
ANSWER = '{"reasoning": "The hat is blue.", "score": 2}'
HARMONY = "<|end|><|start|>assistant<|channel|>final<|message|>"
TAGS = [
    ("<think>", "</think>"),
    ("<THINK>", "</THINK>"),
    ("<Think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|think|>", "<|/think|>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("[unused16]", "[unused17]"),
    ("<|channel|>analysis<|message|>", HARMONY),
    ("<|start|>assistant<|channel|>analysis<|message|>", HARMONY),
    ("<|channel|>analysis<|message|>", HARMONY.replace("<|m", " <|constrain|>json<|m")),
    ("analysisWell: ", "assistantfinal"),
]


def assert_answer(said: ScoresAnswer) -> None:
    assert said.scores == {"score": 2.0}
    assert "sight" not in said.reasoning


def why_not(contract: Scores, reply: str, *, cut: bool = False) -> str:
    with pytest.raises(Unparsable) as caught:
        contract.parse(reply, cut=cut)
    return caught.value.reason


@pytest.mark.parametrize("contract", [KRIS, BEFORE])
@pytest.mark.parametrize(("opens", "closes"), TAGS)
class TestEveryTag:
    def test_what_follows_the_draft_counts(self, contract: Scores, opens: str, closes: str) -> None:
        for draft in (DRAFT, DRAFT[:30], "It is blue.", f"{DRAFT} or {DRAFT}", ""):
            for reply in (
                f"{opens}{draft}{closes}\n{ANSWER}",
                f"\n{opens}{draft}{closes}{opens}{draft}{closes}{ANSWER}<|return|>",
            ):
                assert_answer(contract.parse(reply))

    def test_a_template_may_have_opened_it(self, contract: Scores, opens: str, closes: str) -> None:
        if contract is KRIS:
            assert_answer(contract.parse(f"So. {DRAFT[:30]} no.{closes}{ANSWER}"))
        assert_answer(contract.parse(f"So {DRAFT}, or not.{closes}{ANSWER}"))

    def test_a_draft_without_an_end_holds_no_answer(self, contract: Scores, opens: str, closes: str) -> None:
        assert why_not(contract, f"{opens}{DRAFT}") == "the thinking is not closed"
        assert "while thinking" in why_not(contract, f"{opens}{DRAFT}", cut=True)
        again = f"{opens}a{closes}{opens}{DRAFT}"
        assert why_not(contract, again) == "the thinking is not closed"
        if not opens.startswith("analysis"):
            assert why_not(contract, f"Sure. {opens}{DRAFT}") == "the thinking is not closed"

    def test_nothing_follows_the_draft(self, contract: Scores, opens: str, closes: str) -> None:
        assert why_not(contract, f"{opens}{DRAFT}{closes}\n") == "the reply is empty"
        assert why_not(contract, f"{DRAFT}{closes}\n") == "no JSON object"


@pytest.mark.parametrize("tag", ["<think>", "</think>", "[/THINK]", "<|channel|>final"])
def test_a_tag_that_is_quoted_in_the_answer_is_text(tag: str) -> None:
    reply = f'{{"reasoning": "the sign says {tag} there", "score": 3}}'
    assert KRIS.parse(reply).scores == {"score": 3.0}
    assert KRIS.parse(f"<think>hm</think>{reply}").reasoning == f"the sign says {tag} there"


def test_a_nested_draft_ends_with_its_last_tag() -> None:
    assert_answer(KRIS.parse(f"<think>a<think>b</think>{DRAFT}</think>{ANSWER}"))


@pytest.mark.parametrize("closes", ["</think>", "[/THINK]", "◁/think▷", "</reasoning>"])
def test_other_forms_of_replies(closes: str) -> None:
    yes = FirstWord(("Yes", "No"))
    assert yes.parse(f"Yes, it may be.{closes}No") == "No"
    assert yes.parse(f"Yes, it may be.\n{closes}\n\nNo, it is blue.") == "No"
    assert Option(("A car", "A bus")).parse(f"A bus?\n{closes}\nA car") == "A car"
    listed = Commands().parse(f'["the hat"]?{closes}["the car"]')
    assert [command.phrase for command in listed] == ["the car"]
    assert Questions(1, 3).parse(f'{{"questions": {closes} ["Is it red?"]') == ("Is it red?",)


def test_a_hostile_reply_costs_time_in_proportion_to_its_length() -> None:
    for text in ("<think></think>", "</think>{", '{"a":', "<|channel|>", "<think>", "◁think▷{"):
        why_not(KRIS, text * 20_000)
