"""The four metrics of KRIS-Bench (section 3.4), by the paper and as released.

The release has one script for each group of tasks and none that summarises. Its authors point to the one of BAGEL
(`eval/gen/kris/summarize.py`), whose own scripts for judging differ from theirs again: they give the judge the
instruction.
"""

from typing import Any

from ...answers.first_digit import FirstDigit
from ...base.identity import JUDGE
from ...base.item import Item
from ...prompts.official_prompts import load_official_prompts
from ...scorers.rubric import OfficialRubric, Rubric
from ..dimension import Dimension, Formula, Reading, make_dimension, make_formula
from ..fusion import Gated, mean
from .switches import KrisSwitches
from .taxonomy import KNOWLEDGE_TASKS, MULTI_ELEMENT, TABLES, TEMPORAL_TASKS, TESTS_KNOWLEDGE, reasoning_dimension

SEVERAL = (*TEMPORAL_TASKS, MULTI_ELEMENT)
"""Tasks with several sources, which two scripts of their own judge."""


def readers(metric: str) -> tuple[tuple[str, FirstDigit], ...]:
    """What reads the replies about one metric, by task: every script has its own.

    Where knowledge is judged, a reply about the instruction has its score too.
    """
    key, joint = f"{metric}_score", metric == "instruction"
    keys = (key, "knowledge_score") if joint else (key,)
    knowing = FirstDigit(keys, colon="required", anywhere=not joint, null_ends=True)
    return (
        ("", FirstDigit((key,), colon="optional")),
        *((task, knowing) for task in KNOWLEDGE_TASKS),
        *((task, FirstDigit((key,))) for task in SEVERAL),
    )


LOW = 1.0


def get_single_image_value(switches: KrisSwitches) -> float | None:
    """See `Rules.single_image`."""
    return None if switches.missing_skipped else LOW


_STANDS_FOR = {"temporal": TEMPORAL_TASKS, "knowledge": KNOWLEDGE_TASKS}


def _rubric(metric: str, switches: KrisSwitches) -> Rubric:
    """A metric's rubric: the paper's own where no switch changes it, whatever the protocol."""
    names = TABLES["simple" if switches.simple_prompts else "prompts"][metric]
    tasks = {
        task: name
        for key, name in names.items()
        for task in _STANDS_FOR.get(key, (key,))
        if key != "others" and not (key == "anomaly_correction" and switches.anomaly_by_common_prompt)
    }
    prompt, changes = names["others"], dict[str, Any]()
    if switches.original_prompts and not switches.simple_prompts:
        official = load_official_prompts(__package__)
        if metric == "quality":  # the same words, the image under another label
            tasks = dict.fromkeys(SEVERAL, "kris/quality_alone")
        prompt = official[prompt].name
        tasks = {task: official[name].name for task, name in tasks.items()}
        changes["official"] = tuple(official.values())
    if switches.first_digit:
        changes["readers"] = readers(metric)
    if switches.empty_instruction and metric != "quality":
        changes["untold"] = True
    if switches.temporal_jpeg:
        changes["jpeg"] = TEMPORAL_TASKS
    how = OfficialRubric if changes else Rubric
    return how(JUDGE, prompt, by_task=tuple(tasks.items()), **changes)


def _of_kris(item: Item) -> str | None:
    return None if reasoning_dimension(item) else "not a task of KRIS-Bench"


def _tests_knowledge(item: Item) -> str | None:
    if reasoning_dimension(item) in TESTS_KNOWLEDGE:
        return None
    return _of_kris(item) or f"{item.task} tests no knowledge"


_INSTRUCTION = "kris.instruction_following"
_GATE = Gated("knowledge_score", by=_INSTRUCTION, above=2.0, otherwise=LOW)


def _plausibility(switches: KrisSwitches, reading: Reading) -> Reading | Formula:
    if switches.knowledge_ungated:
        return reading
    return make_formula(_GATE, _INSTRUCTION, of={"knowledge_score": reading})


def dimensions(switches: KrisSwitches) -> tuple[Dimension, ...]:
    """Return the metrics, then their average, without loading prompts."""
    instruction = _rubric("instruction", switches)
    metrics: dict[str, Reading | Formula] = {
        "visual_consistency": Reading(_rubric("consistency", switches), "consistency_score"),
        "visual_quality": Reading(_rubric("quality", switches), "quality_score"),
        "instruction_following": Reading(instruction, "instruction_score"),
        "knowledge_plausibility": _plausibility(switches, Reading(instruction, "knowledge_score")),
    }
    average = make_formula(mean, *(f"kris.{name}" for name in metrics))
    by_name = {}
    for name, how in (metrics | {"average": average}).items():
        when = _tests_knowledge if name == "knowledge_plausibility" else _of_kris
        by_name[name] = make_dimension(TABLES["dimensions"][name], f"kris.{name}", how, when=when)
    return tuple(by_name.values())
