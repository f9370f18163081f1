"""Replies that are not as asked, and still mean one thing only."""

from __future__ import annotations

import pytest

from editjudge.answers.questions import QuestionAnswer, QuestionAnswers, Questions
from editjudge.answers.scores import ScoreField, Scores, ScoresAnswer
from editjudge.answers.texts import Option

KRIS = Scores((ScoreField("consistency_score", 1, 5),))
CO_EDIT = Scores(tuple(ScoreField(n, 0, 10) for n in ("EA", "NESP", "OE", "EP")), as_list=True)
PLAIN = '{"reasoning": "Fine.", "consistency_score": 4}'


@pytest.mark.parametrize(
    "reply",
    [
        PLAIN,
        f"  {PLAIN}\n",
        f"\ufeff{PLAIN}",
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}\n```",
        f"```python\n{PLAIN}",
        f"Here is my evaluation:\n\n{PLAIN}",
        f"1. The sky changed.\n2. The tree stays.\n\n```json\n{PLAIN}\n```\n",
        f"**{PLAIN}**",
        f"<answer>{PLAIN}</answer>",
        f"<|begin_of_box|>{PLAIN}<|end_of_box|><|im_end|>",
        f"Of the set {{tree, car}}, with \\frac{{1}}{{2}} of it, x^{{'}} and {{}}: {PLAIN}",
        f'Of {{"tree", "car"}} and {{x: x > 0}}: {PLAIN}',
        f"{{{PLAIN}}}",
        f"[{PLAIN}]",
        f"\\boxed{{{PLAIN}}}",
        f"<think>Is it 2? {PLAIN.replace('4', '2')} Hm.</think>{PLAIN}",
        f"<think>\n\n</think>\n\n{PLAIN}",
        f"<thinking>{{</thinking>{PLAIN}",
        f"So {PLAIN.replace('4', '2')}, or {{'a': oops\n</think>\n{PLAIN}",
        '{"reasoning": "Fine.", "consistency_score": 4,}',
        '{"reasoning": "Fine.", "consistency_score": 4.0}',
        '{"reasoning": "Fine.", "consistency_score": 4e0}',
        '{"reasoning": "Fine.", "consistency_score": "4"}',
        '{"reasoning": "Fine.", "consistency_score": "4.0"}',
        '{"consistency_score": 4, "reasoning": "Fine."}',
        "{'reasoning': 'Fine.', 'consistency_score': 4}",
        "{'reasoning': \"Fine.\", 'consistency_score': '4',}",
        '{"Reasoning": "Fine.", "Consistency Score": 4}',
        '{"REASONING": "Fine.", "consistencyScore": 4}',
        '{"reasoning": "Fine.", "consistency\\_score": 4}',
        '{\u00a0"reasoning"\n:\t"Fine.",\r\n"consistency_score"\u3000: 4\n}',
    ],
)
def test_one_meaning(reply: str) -> None:
    assert KRIS.parse(reply) == ScoresAnswer({"consistency_score": 4.0}, "Fine.")
    assert KRIS.parse(reply, cut=True) == KRIS.parse(reply)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('"a\nb\tc"', "a\nb\tc"),
        ('"a\\nb\\u00e9\\ud83d\\ude00"', "a\nbé😀"),
        ('"half a pair \\ud83d"', "half a pair \ufffd"),
        ('"half a pair \ud83d"', "half a pair \ufffd"),
        ('"\\checkmark and 50\\%"', "\\checkmark and 50\\%"),
        ('"say \\"4\\", \\\\ and \\/"', 'say "4", \\ and /'),
        ('"{\\"a\\": 1} and {b} and ```"', '{"a": 1} and {b} and ```'),
        ("'It's the cat's, isn't it'", "It's the cat's, isn't it"),
        ("'the \\'red\\' car'", "the 'red' car"),
        ('""', ""),
        ("\"it says </think>{'a': 1}\"", "it says </think>{'a': 1}"),
        # No score depends on the reasons: what is no text is kept as JSON.
        ('["The sky.", "é 2",]', '["The sky.", "é 2"]'),
        (
            "{'step': 'a \"b\"', 'step': [1, 2.5, True, None], 'x': {}}",
            '{"step": "a \\"b\\"", "step": [1, 2.5, true, null], "x": {}}',
        ),
        ("4", "4"),
        ("false", "false"),
        ("null", ""),
    ],
)
def test_text_comes_through(written: str, text: str) -> None:
    reply = f'{{"reasoning": {written}, "consistency_score": 4}}'
    assert KRIS.parse(reply) == ScoresAnswer({"consistency_score": 4.0}, text)


@pytest.mark.parametrize(
    "reply",
    [
        "{'score': [8, 7, 0, 10], 'reasoning': 'x'}",
        "{\n  'score': [8, 7, 0, 10,],\n  'reasoning': 'x',\n}",
        '{"reasoning": "x", "Score": ["8", 7.0, -0.0, 1e1]}',
    ],
)
def test_a_list_of_scores(reply: str) -> None:
    answer = CO_EDIT.parse(reply)
    assert answer == ScoresAnswer({"EA": 8.0, "NESP": 7.0, "OE": 0.0, "EP": 10.0}, "x")
    assert list(answer.scores) == ["EA", "NESP", "OE", "EP"]
    assert str(answer.scores["OE"]) == "0.0"


def test_two_scores_with_a_reason_each() -> None:
    joint = Scores(
        (ScoreField("instruction_score", 1, 5), ScoreField("knowledge_score", 1, 5)),
        reasoning=("instruction_reasoning", "knowledge_reasoning"),
    )
    reply = (
        '{"instruction_score": 5, "instruction_reasoning": "Added.",\n'
        ' "knowledge_score": 2, "knowledge_reasoning": "The scale stays level."}'
    )
    assert joint.parse(reply) == ScoresAnswer(
        {"instruction_score": 5.0, "knowledge_score": 2.0}, "Added.\n\nThe scale stays level."
    )


def test_steps_in_the_place_of_a_text_cost_no_score() -> None:
    reply = '{"reasoning": {"1. before": "red", "2. after": "blue"}, "score": [8, 7, 0, 10]}'
    answer = CO_EDIT.parse(reply)
    assert list(answer.scores.values()) == [8, 7, 0, 10]
    assert answer.reasoning == '{"1. before": "red", "2. after": "blue"}'


def test_fractions_on_a_real_scale() -> None:
    real = Scores((ScoreField("score", 0, 1, integer=False),), reasoning=False)
    assert real.parse('{"score": 0.25}') == ScoresAnswer({"score": 0.25})


def test_questions_without_the_unusable_and_repeated_ones() -> None:
    reply = (
        "```json\n{'questions': ['Is the dog's shadow there?', ' Is b\uff1f ', 'is B\uff1f', "
        "'The car is red.', 'Is \"c\", too?', 'هل هي حمراء؟',]}\n```"
    )
    assert Questions(low=4).parse(reply) == (
        "Is the dog's shadow there?",
        "Is b\uff1f",
        'Is "c", too?',
        "هل هي حمراء؟",
    )


def test_pairs() -> None:
    reply = (
        'Here:\n{"Pairs": [{"Question": "Is there a bus? ", "answer": " Yes"},\n'
        '{"answer": "Blue", "question": "What colour is it?"}]}'
    )
    assert QuestionAnswers().parse(reply) == (
        QuestionAnswer("Is there a bus?", "Yes"),
        QuestionAnswer("What colour is it?", "Blue"),
    )


@pytest.mark.parametrize(
    "reply",
    [
        'The sign reads "OPEN".',
        ' the sign reads "open"\n',
        '"The sign reads \\"OPEN\\"."',
        "'The sign reads \"OPEN\".'",
        '“The sign reads "OPEN"”.',
        '`The sign  reads\n"OPEN".`',
        '<think>Closed? No.</think>\nThe sign reads "OPEN"',
        'Closed? No.\n</think>\n\nThe sign reads "OPEN"',
    ],
)
def test_an_option_in_other_clothes(reply: str) -> None:
    open_ = 'The sign reads "OPEN".'
    assert Option((open_, "The sign is blank.")).parse(reply) == open_


def test_options_that_differ_in_case_only_are_told_apart_when_copied() -> None:
    options = Option(("OPEN", "Open", "Open."))
    assert [options.parse(o) for o in ("OPEN", "Open", "Open.")] == ["OPEN", "Open", "Open."]


@pytest.mark.parametrize(
    ("reply", "yes"),
    [("Yes", True), ("no", False), ("YES.", True), ('"No"', False), ("“No.”", False)],
)
def test_yes_and_no(reply: str, yes: bool) -> None:
    assert Option(("Yes", "No")).parse(reply) == ("Yes" if yes else "No")


def test_true_and_false() -> None:
    referee = Option(("True", "False"))
    assert (referee.parse("true"), referee.parse("False.")) == ("True", "False")
