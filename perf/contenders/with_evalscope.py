"""The question as a benchmark of evalscope; what a killed one had cached is taken over."""

import json
import re
import sys
from pathlib import Path

from evalscope import TaskConfig, run_task
from evalscope.api.benchmark import BenchmarkMeta
from evalscope.api.metric import Score
from evalscope.api.registry import register_benchmark
from evalscope.benchmarks.general_vqa.general_vqa_adapter import GeneralVQAAdapter
from evalscope.constants import Tags

folder, url, out, in_flight = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
data, work = out.parent / "data", out.parent / "work"


@register_benchmark(
    BenchmarkMeta(
        name="edits",
        pretty_name="Edits",
        description="Edits judged on a scale.",
        tags=[Tags.CUSTOM],
        dataset_id=str(data),
        metric_list=["score"],
        few_shot_num=0,
        train_split=None,
        eval_split="test",
        prompt_template=None,
    )
)
class Edits(GeneralVQAAdapter):
    def match_score(self, original_prediction, filtered_prediction, reference, task_state):
        numbers = re.findall(r"\d+", filtered_prediction)
        score = Score(extracted_prediction=filtered_prediction, prediction=original_prediction)
        score.value = {"score": int(numbers[-1])} if numbers else {}
        score.metadata = {"edit": reference}
        return score


def record(edit):
    def encode_picture(name):
        return {"type": "image_url", "image_url": {"url": str(folder / edit[name])}}

    question = {"type": "text", "text": f"{edit['instruction']}\n{edit['question']}"}
    content = [question, encode_picture("source"), encode_picture("edited")]
    return {"messages": [{"role": "user", "content": content}], "answer": edit["id"]}


if __name__ == "__main__":
    edits = json.loads((folder / "edits.json").read_text())
    data.mkdir(exist_ok=True)
    (data / "test.jsonl").write_text("".join(json.dumps(record(edit)) + "\n" for edit in edits))
    is_resumed = work.exists()
    run_task(
        TaskConfig(
            model="judge",
            api_url=url,
            api_key="none",
            eval_type="openai_api",
            datasets=["edits"],
            dataset_args={"edits": {"local_path": str(data), "subset_list": ["test"]}},
            eval_batch_size=in_flight,
            generation_config={"temperature": 0.0, "retries": 3},
            ignore_errors=True,
            work_dir=str(work),
            no_timestamp=True,
            use_cache=str(work) if is_resumed else None,
        )
    )
    scores = {edit["id"]: None for edit in edits}
    for file in (work / "reviews").rglob("*.jsonl"):
        for line in file.read_text().splitlines():
            sample_score = json.loads(line)["sample_score"]["score"]
            scores[sample_score["metadata"]["edit"]] = sample_score["value"].get("score")
    out.write_text(json.dumps(scores))
