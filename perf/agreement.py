"""Agreement of many stored judges with people: 1,000 pairs, three raters, 18 judges.

Run `python perf/agreement.py [--pairs 1000] [--judges 18]`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from editjudge.app.human_agreement import measure_agreement
from editjudge.app.ratings import read_ratings


def main() -> None:
    """Write the files, read them and compare the judges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--judges", type=int, default=18)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    models = np.array(["v", "w", "x", "y", "z"])
    pairs = []
    for number in range(options.pairs):
        first, second = rng.choice(models, 2, replace=False)
        raters = rng.integers(1, 7, 3).tolist()
        pairs.append(
            {
                "id": str(number),
                "response_a": {"model_name": first},
                "response_b": {"model_name": second},
                "human_annotations": raters,
                "prompt_source": str(number % 750),
            }
        )
    judgements = {
        pair["id"]: {
            "forward": [
                {"judgement": "AB"[rng.integers(2)], "evaluator": f"judge {judge}"} for judge in range(options.judges)
            ]
        }
        for pair in pairs
    }
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, "pairs.json"), Path(folder, "judged.json")]
        for file, whole in zip(files, ({"pairs": pairs}, judgements), strict=True):
            file.write_text(json.dumps(whole))
        start = time.process_time()
        people = read_ratings(files)
        read = time.process_time()
        result = measure_agreement([], people)
        end = time.process_time()
    rows = sum(len(table.rows) for table in result.tables)
    print(
        f"{len(pairs)} pairs, {options.judges} judges: {rows} rows and"
        f" {len(result.differences)} comparisons; {read - start:.1f} s to read,"
        f" {end - read:.1f} s to compare (processor time)"
    )


if __name__ == "__main__":
    main()
