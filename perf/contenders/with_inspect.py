"""The question as a task of inspect_ai; what a killed one had logged is taken over."""

import json
import re
import sys
from pathlib import Path

from inspect_ai import Task, eval_set
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, get_model
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import generate

folder, url, out, in_flight = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])


@scorer(metrics=[mean()])
def number():
    async def score(state, target):
        numbers = re.findall(r"\d+", state.output.completion)
        return Score(value=int(numbers[-1])) if numbers else None

    return score


def sample(edit):
    question = ContentText(text=f"{edit['instruction']}\n{edit['question']}")
    pictures = [ContentImage(image=str(folder / edit[name])) for name in ("source", "edited")]
    return Sample(input=[ChatMessageUser(content=[question, *pictures])], id=edit["id"])


if __name__ == "__main__":
    edits = json.loads((folder / "edits.json").read_text())
    samples = [sample(edit) for edit in edits]
    task = Task(samples, solver=generate(temperature=0.0), scorer=number(), name="edits")
    _, (log,) = eval_set(
        task,
        log_dir=str(out.parent / "logs"),
        model=get_model("openai/judge", base_url=url, responses_api=False),
        max_connections=in_flight,
        max_samples=in_flight,
        fail_on_error=False,
        retry_attempts=0,
        display="none",
    )
    scores = {}
    for one in read_eval_log(log.location).samples or []:
        answer = (one.scores or {}).get("number")
        scores[str(one.id)] = answer.value if answer else None
    out.write_text(json.dumps(scores))
