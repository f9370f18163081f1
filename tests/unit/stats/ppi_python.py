"""Writes ppi_python.json: data, and what ppi-python 0.2.3 estimates from it.

Run it in an environment of its own: `pip install ppi-python==0.2.3`, then `python ppi_python.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Estimate each set of data with fixed weights of the judge, and with the best one."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    rng = np.random.default_rng(36)
    data: dict[str, Any] = {}
    cases = []
    for name, rated, others, slope in (("good", 60, 300, 0.9), ("poor", 100, 200, 0.2), ("few", 30, 400, 0.6)):
        scores = rng.normal(size=rated + others).round(3)
        ratings = (3 + slope * scores[:rated] + 0.5 * rng.normal(size=rated)).round(2)
        known, unknown = scores[:rated], scores[rated:]
        data[name] = {"rated": np.stack([known, ratings], 1).tolist(), "others": unknown.tolist()}
        for weight in (0.0, 0.4, 0.8, None):
            value = ppi_mean_pointestimate(ratings, known, unknown, lam=weight)
            low, high = ppi_mean_ci(ratings, known, unknown, alpha=0.05, lam=weight)
            tuned = weight
            if weight is None:  # the weight that gives this estimate
                tuned = (ratings.mean() - float(value[0])) / (known.mean() - unknown.mean())
            numbers = {"value": value, "low": low, "high": high, "weight": tuned}
            plain = {key: float(np.ravel(number)[0]) for key, number in numbers.items()}
            cases.append({"name": f"{name} {weight}", "data": name, "tuned": weight is None, **plain})
    file = Path(__file__).with_name("ppi_python.json")
    file.write_text(json.dumps({"data": data, "cases": cases}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
