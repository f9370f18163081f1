"""What `import editjudge`, a score of pixels and other beginnings load."""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST_MODULES = 60
SERVED = """editjudge_services matplotlib onnxruntime pytriton rapidocr ray scipy skimage torch"""
HEAVY = f"""{SERVED} aiohttp google.protobuf grpc jinja2 pandas pyarrow rich sqlite3 tokenizers
tritonclient zstandard"""
"""What takes long to load, and has no part in a score of pixels."""
SCORE = """
import editjudge, numpy as np
image = np.zeros((16, 16, 3), np.uint8)
judgement = editjudge.score(
    source=image, edited=image, instruction="leave it", dimensions=["core.psnr.source.whole"]
)
assert judgement.outcomes["core.psnr.source.whole"].value == 100.0
"""
HELP = "import editjudge.cli; editjudge.cli.root.main(['--help'], standalone_mode=False)"
BENCHMARKS = "from editjudge.benchmarks.registry import load_benchmarks; load_benchmarks()"
LIST = HELP.replace("'--help'", "'list', 'benchmarks'")
RUNS = "editjudge.app.results editjudge.app.view"
COMPARISONS = "editjudge.benchmarks.cell editjudge.stats.agreement editjudge.stats.paired_comparison"
CLIENT = "from editjudge import Client, score; import editjudge.cli.scoring"


def load(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after some code."""
    asked = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    return set(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import editjudge", HEAVY),
        (SCORE, HEAVY),
        ("import editjudge; editjudge.score", "cv2"),
        (HELP, "cv2 grpc jinja2 matplotlib numpy onnxruntime pydantic rich torch"),
        (f"import editjudge.cli.runs; {BENCHMARKS}", "cv2 psycopg ray"),
        (CLIENT, SERVED),
        ("import editjudge.cli.scoring", f"{RUNS} {COMPARISONS}"),
        (LIST, f"{RUNS} numpy PIL asyncio editjudge.base.item editjudge.scorers rich sqlite3"),
        ("import editjudge.answers", "pydantic numpy PIL grpc"),
    ],
)
def test_what_is_heavy_is_not_loaded(code: str, heavy: str) -> None:
    modules = load(code)
    assert modules & set(heavy.split()) == set()
    ours = {name for name in modules if name.partition(".")[0] == "editjudge"}
    most = {"import editjudge": 1, SCORE: MOST_MODULES - 1}.get(code, len(ours))
    assert len(ours) <= most, sorted(ours)
    assert ("cv2" in modules) == (code == SCORE), "it is loaded where pixels are compared"
