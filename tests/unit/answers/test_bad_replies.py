"""Replies that hold no valid answer, as judges really write them: never a number."""

from __future__ import annotations

import pytest

from editjudge.answers.contract import OutputContract
from editjudge.answers.questions import QuestionAnswers, Questions
from editjudge.answers.reply import Unparsable
from editjudge.answers.scores import ScoreField, Scores
from editjudge.answers.texts import Option, Verbatim

KRIS = Scores((ScoreField("consistency_score", 1, 5),))
JOINT = Scores(
    (ScoreField("instruction_score", 1, 5), ScoreField("knowledge_score", 1, 5)),
    reasoning=("instruction_reasoning", "knowledge_reasoning"),
)
BARE = Scores((ScoreField("score", 1, 5),), reasoning=False)
CO_EDIT = Scores(tuple(ScoreField(n, 0, 10) for n in ("EA", "NESP", "OE", "EP")), as_list=True)
REAL = Scores((ScoreField("score", 0, 1, integer=False),), reasoning=False)


def refused(contract: OutputContract[object], reply: str, *, cut: bool = False) -> str:
    with pytest.raises(Unparsable) as caught:
        contract.parse(reply, cut=cut)
    assert str(caught.value) == caught.value.reason
    assert len(caught.value.reason) < 200
    assert "\n" not in caught.value.reason
    return caught.value.reason


def kris(score: str) -> str:
    return f'{{"reasoning": "The 3 trees moved.", "consistency_score": {score}}}'


def listed(score: str) -> str:
    return f"{{'score': {score}, 'reasoning': 'A detailed explanation'}}"


# The number itself.
SCORES = [
    ("4.5", "is 4.5, not an integer"),
    ("0", "is 0, outside 1 to 5"),
    ("6", "is 6, outside 1 to 5"),
    ("-1", "is -1, outside 1 to 5"),
    ("100", "outside 1 to 5"),
    ("1e400", "not finite"),
    ("NaN", "not finite"),
    ("Infinity", "not finite"),
    ("-Infinity", "not finite"),
    ("5.0000000000000000001", "is 5.000000000000001, not an integer"),
    ("4.0000000000000000001", "is 4.000000000000001, not an integer"),
    ("3.99999999999999999999", "is 3.9999999999999996, not an integer"),
    ('"5.0000000000000000001"', "is 5.000000000000001, not an integer"),
    ("1e-400", "is 5e-324, not an integer"),
    ("-0", "is -0, outside 1 to 5"),
    ("1e-99999999999999999999", "not an integer"),
    ("9" * 400, "not finite"),
    ("\u0663", "stands where a value is due"),  # an Arabic-Indic digit
    ("\uff15", "stands where a value is due"),  # a full-width one
    ("5_0", "stands where"),
    ("5/5", "stands where ',' is due"),
    ("0x5", "stands where a value is due"),
    ('"5_0"', "not a number"),
    ('"\u0663"', "not a number"),
    ('"1e400"', "not finite"),
    ("true", "is True, not a number"),
    ("False", "is False, not a number"),
    ("null", "is None, not a number"),
    ("None", "is None, not a number"),
    ('""', "is '', not a number"),
    ('"four"', "is 'four', not a number"),
    ('"4/5"', "is '4/5', not a number"),
    ('"4 out of 5"', "is '4 out of 5', not a number"),
    ('"3-4"', "is '3-4', not a number"),
    ('"4 (minor differences)"', "not a number"),
    ('"~4"', "not a number"),
    ('"\uff14"', "not a number"),  # a full-width digit
    ('" 4"', "not a number"),
    ('"0x4"', "not a number"),
    ('"NaN"', "not a number"),
    ('"4.5"', "is 4.5, not an integer"),
    ('"7"', "is 7, outside 1 to 5"),
    ("[4]", "is a list, not a number"),
    ('{"value": 4}', "is an object, not a number"),
    ("{}", "is an object, not a number"),
    ("4/5", "stands where ',' is due"),
    ("3-4", "stands where ',' is due"),
    ("4 out of 5", "stands where ',' is due"),
    ("04", "stands where a value is due"),
    ("+4", "stands where a value is due"),
    ("4.", "stands where a value is due"),
    ("0x4", "stands where a value is due"),
    ("X", "stands where a value is due"),
    ("**4**", "stands where a value is due"),
    ("", "stands where a value is due"),
    ("4 5", "stands where ',' is due"),
]


@pytest.mark.parametrize(("score", "reason"), SCORES)
def test_a_score_that_is_none(score: str, reason: str) -> None:
    assert reason in refused(KRIS, kris(score))
    assert reason in refused(KRIS, f"```json\n{kris(score)}\n```")


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        ("[8, 7, 9]", "has 3 values, not 4"),
        ("[8, 7, 9, 9, 9]", "has 5 values, not 4"),
        ("[]", "has 0 values, not 4"),
        ("8", "is 8, not a list"),
        ("'[8, 7, 9, 9]'", "not a list"),
        ("(8, 7, 9, 9)", "stands where a value is due"),
        ("{'EA': 8, 'NESP': 7, 'OE': 9, 'EP': 9}", "is an object, not a list"),
        ("[8, 7, 9, 11]", '"EP" is 11, outside 0 to 10'),
        ("[-1, 7, 9, 9]", '"EA" is -1, outside 0 to 10'),
        ("[8, 7.5, 9, 9]", '"NESP" is 7.5, not an integer'),
        ("[8, null, 9, 9]", '"NESP" is None, not a number'),
        ("[8, [7], 9, 9]", '"NESP" is a list, not a number'),
        ("[8, true, 9, 9]", '"NESP" is True, not a number'),
        ("[8, 7,, 9, 9]", "stands where a value is due"),
        ("[8 7 9 9]", "stands where ',' is due"),
        ("[8, 7, 9, 9", "stands where ',' is due"),
        ("[EA, NESP, OE, EP]", "stands where a value is due"),
    ],
)
def test_a_list_of_scores_that_is_none(score: str, reason: str) -> None:
    assert reason in refused(CO_EDIT, listed(score))


# The object, or what stands in its place.
GOOD = kris("4")
OBJECTS = [
    ("", "the reply is empty"),
    (" \n\t\u00a0", "the reply is empty"),
    ("\ufeff", "the reply is empty"),
    ("<think>\nThe tree moved.\n</think>\n\n", "the reply is empty"),
    ("<think>The tree moved, so 4. " + GOOD, "the thinking is not closed"),
    ("Score: 4/5", "no JSON object"),
    ("consistency_score: 4", "no JSON object"),
    ("4", "no JSON object"),
    ("[4]", "no JSON object"),
    ('"4"', "no JSON object"),
    ("I'm sorry, but I can't assist with that request.", "declined: I'm sorry"),
    ("1. The sky changed.\n2. The tree is gone.\n3. The 2 cars stay.", "no JSON object"),
    ("1. The sky changed.\n**Final score:** 4", "no JSON object"),
    ("```json\n```", "no JSON object"),
    ("{}", "no JSON object"),
    ("{4}", "no JSON object"),
    ("null", "no JSON object"),
    ('"reasoning": "Nothing moved.", "consistency_score": 4', "no JSON object"),
    ('"{\\"reasoning\\": \\"x\\", \\"consistency_score\\": 4}"', "no JSON object"),
    (GOOD + "\n" + kris("2"), "more than one JSON object"),
    (GOOD + "\n" + GOOD, "more than one JSON object"),
    (f"[{GOOD}, {GOOD}]", "more than one JSON object"),
    (f"<think>so {GOOD}</think>{GOOD}{GOOD}", "more than one JSON object"),
    ('As asked, {"box": [1, 2]} changed.\n' + GOOD, "more than one JSON object"),
    ('{"consistency_score": 4}', 'missing "reasoning"'),
    ('{"reasoning": "Nothing moved."}', 'missing "consistency_score"'),
    ('{"reasoning": "x", "rating": 4}', "missing \"consistency_score\", unexpected 'rating'"),
    ('{"assessment": ' + GOOD + "}", "unexpected 'assessment'"),
    ('{"analysis": ' + GOOD + "}", "unexpected 'analysis'"),
    ("{“reasoning”: “x”, “consistency_score”: 4}", "no JSON object"),
    ("{\u2018consistency_score\u2019: 4}", "no JSON object"),
    ('{"reasoning": "x", “consistency_score”: 4}', "a key in quotes"),
    ('{"reasoning": “x”, "consistency_score": 4}', "a value is due"),
    # Of what goes on, it cannot be told whether it is meant.
    ("If the edit were perfect I would say " + kris("5") + ", but it is not.", "text follows"),
    (GOOD + "\n\nLet me know if you need more. Score: 4/5.", "text follows the answer"),
    (f"```json\n{GOOD}\n```\nDone.", "text follows the answer"),
    (GOOD + " or 3", "text follows the answer"),
    (GOOD + " {a, b}", "text follows the answer"),
    # Another reason stays what it was: the second question names it, and so does the stored call.
    (kris("6") + " or so", "outside 1 to 5"),
    ('{"reasoning": "x"} or so', 'missing "consistency_score"'),
    ('{"reasoning": "x", "consistency_score": 4, "quality_score": 2}', "'quality_score'"),
    ('{"reasoning": "x", "consistency_score": 4, "confidence": "high"}', "unexpected"),
    ('{"reasoning": "x", "consistency_score": 4, "consistency_score": 5}', "given twice"),
    ('{"reasoning": "x", "consistency_score": 4, "consistency_score": 4}', "given twice"),
    ('{"reasoning": "x", "consistency_score": 4, "Consistency Score": 5}', "given twice"),
    # What a broken object holds is no answer, nor is one inside it.
    ('{"reasoning": **Compared to the original**, "consistency_score": 4}', "malformed"),
    ('{"reasoning": 1. Detect Difference, "consistency_score": 4}', "malformed"),
    ('{"reasoning": "the "red" car", "consistency_score": 4}', "malformed"),
    ('{"reasoning": "x" "consistency_score": 4}', "malformed"),
    ('{"reasoning": "x", consistency_score: 4}', "a key in quotes"),
    ("{reasoning: 'x', consistency_score: 4}", "a key in quotes"),
    ("{result: " + GOOD + "}", "a key in quotes"),
    ('{"reasoning": "x", // why\n"consistency_score": 4}', "a key in quotes"),
    ('{"reasoning": "x",, "consistency_score": 4}', "a key in quotes"),
    ('{"reasoning"; "x", "consistency_score": 4}', "no JSON object"),
    ('{"notes": oops, "inner": ' + GOOD + "}", "malformed"),
    ('{"a": oops} ' + GOOD, "malformed"),
    (GOOD + ' {"a": oops}', "malformed"),
    (GOOD[:-1], "not complete"),
    (GOOD[:30], "not complete"),
    (GOOD[:30] + "\n\n" + GOOD, "malformed"),
    ('{"a":' * 100 + "4" + "}" * 100, "more than 32 brackets"),
    # A judge that quotes an image's text inside its answer does not end its thinking there.
    ('{"reasoning": "it says </think>{\'a\': 1}", "consistency_score": 9}', "outside 1 to 5"),
]


@pytest.mark.parametrize(("reply", "reason"), OBJECTS)
def test_an_object_that_is_none(reply: str, reason: str) -> None:
    assert reason in refused(KRIS, reply)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "cut at the token limit before any answer"),
        ("<think>The tree", "cut at the token limit while thinking"),
        ("First, the tree moved. Then", "cut at the token limit before the JSON object"),
        ("```json\n{", "cut at the token limit before the JSON object"),
        ('{"reas', "cut at the token limit before the JSON object was complete"),
        (GOOD[:30], "cut at the token limit before the JSON object was complete"),
        (GOOD[:-1], "cut at the token limit before the JSON object was complete"),
        ('{"reasoning": "x", "consistency_score": ', "cut at the token limit"),
        ('{"reasoning": "x", "consistency_score": -', "cut at the token limit"),
        ('{"reasoning": "x", "consistency_score": 4.', "cut at the token limit"),
        (GOOD + '\n{"reasoning": "x', "cut at the token limit"),
        (kris("4/5"), "malformed"),
        (kris("6"), "outside 1 to 5"),
    ],
)
def test_a_reply_cut_at_the_token_limit(reply: str, reason: str) -> None:
    assert reason in refused(KRIS, reply, cut=True)


def test_two_scores_are_both_due() -> None:
    one = '{"instruction_reasoning": "a", "instruction_score": 2, "knowledge_reasoning": "b"}'
    assert 'missing "knowledge_score"' in refused(JOINT, one)
    assert 'missing "reasoning"' not in refused(JOINT, one)


def test_a_real_scale_has_ends() -> None:
    assert "is 1.01, outside 0 to 1" in refused(REAL, '{"score": 1.01}')
    above = refused(REAL, '{"score": 1.00000000000000000001}')
    assert "is 1.0000000000000002, outside 0 to 1" in above
    below = refused(REAL, '{"score": -1e-400}')
    assert "is -5e-324, outside 0 to 1" in below


FIVE = '"Is a 1?", "Is b?", "Is c?", "Is d?"'


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"questions": []}', "0 different questions among 0 entries, 5 are due"),
        (f'{{"questions": [{FIVE}]}}', "4 different questions among 4 entries"),
        (f'{{"questions": [{FIVE}, "IS  A 1?"]}}', "4 different questions among 5 entries"),
        (f'{{"questions": [{FIVE}, "The car is red."]}}', "4 different questions among 5"),
        (f'{{"questions": [{FIVE}, ""]}}', "4 different questions among 5 entries"),
        (f'{{"questions": [{FIVE}, "?"]}}', "4 different questions among 5 entries"),
        (f'{{"questions": [{FIVE}, "Is {"e" * 300}?"]}}', "4 different questions among 5"),
        (f'{{"questions": [{FIVE}, null]}}', "holds None, which is not text"),
        (f'{{"questions": [{FIVE}, ["Is e?"]]}}', "which is not text"),
        (f'{{"questions": [{FIVE}, "e?", "f?", "g?", "h?"]}}', "has 8 entries, more than 7"),
        ('{"questions": "Is a 1?"}', "is not a list"),
        (f'{{"physical_questions": [{FIVE}]}}', 'missing "questions"'),
        (f"[{FIVE}]", "4 different questions among 4 entries"),
        ("1. Is a there?\n2. Is b there?", "no JSON object"),
    ],
)
def test_questions_that_are_none(reply: str, reason: str) -> None:
    assert reason in refused(Questions(), reply)


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ("", "0 pairs where 1 are due"),
        (", ".join(f'{{"question": "Q{i}?", "answer": "Yes"}}' for i in range(4)), "more than 3"),
        ('{"question": "Is it red?"}', 'missing "answer"'),
        ('{"question": "Is it red?", "answer": ""}', "'' is not an answer"),
        ('{"question": "Is it red?", "answer": true}', "True is not an answer"),
        ('{"question": "It is red.", "answer": "Yes"}', "is not a question"),
        ('{"question": "Is it red?", "answer": "Yes", "why": ""}', "unexpected 'why'"),
        ('["Is it red?", "Yes"]', "a pair is not an object"),
        (
            '{"question": "Red?", "answer": "Yes"}, {"question": "RED?", "answer": "No"}',
            "a question is given twice",
        ),
    ],
)
def test_pairs_that_are_none(pairs: str, reason: str) -> None:
    assert reason in refused(QuestionAnswers(), f'{{"pairs": [{pairs}]}}')


CARS = Option(("A car", "A bus", "I can not tell from the image"))


@pytest.mark.parametrize(
    ("contract", "reply", "reason"),
    [
        (CARS, "", "the reply is empty"),
        (CARS, "A truck", "'A truck' is none of the options"),
        (CARS, "A car, not a bus", "none of the options"),
        (CARS, "Answer: A car", "none of the options"),
        (CARS, "A car or A bus", "none of the options"),
        (CARS, "I'm sorry, I can't help with that.", "declined: I'm sorry"),
        (CARS, 'The sign reads "</think>A car', "none of the options"),
        (CARS, '{"answer": "A car"}', "none of the options"),
        (Option(("A", "B")), "A)", "none of the options"),
        (Option(("OPEN", "Open", "open.")), "oPEN", "matches 3 options"),
        (Verbatim(), " ", "the reply is empty"),
        (Option(("Yes", "No")), "Yes and no", "none of the options"),
        (Option(("Yes", "No")), "Maybe", "none of the options"),
        (Option(("Yes", "No")), "Yes, the car is blue.", "none of the options"),
        (Option(("True", "False")), "Yes", "none of the options"),
        (Option(("True", "False")), "Not true", "none of the options"),
    ],
)
def test_an_option_that_is_none(contract: OutputContract[object], reply: str, reason: str) -> None:
    assert reason in refused(contract, reply)


@pytest.mark.parametrize("contract", [CARS, Verbatim()])
def test_an_option_that_is_cut_may_be_the_beginning_of_another(
    contract: OutputContract[str],
) -> None:
    assert refused(contract, "A car", cut=True) == "cut at the token limit"
