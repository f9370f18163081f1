"""What `import editjudge` and a score of pixels load."""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST_MODULES = 60
HEAVY = {
    "aiohttp",
    "google.protobuf",
    "grpc",
    "jinja2",
    "matplotlib",
    "onnxruntime",
    "pandas",
    "pyarrow",
    "rich",
    "scipy",
    "sqlite3",
    "tokenizers",
    "torch",
    "tritonclient",
    "zstandard",
}
"""What takes long to load, and has no part in a score of pixels."""
IMPORT = "import editjudge"
SCORE = """
import editjudge, numpy as np
image = np.zeros((16, 16, 3), np.uint8)
judgement = editjudge.score(
    source=image, edited=image, instruction="leave it", dimensions=["core.psnr.source.whole"]
)
assert judgement.outcomes["core.psnr.source.whole"].value == 100.0
"""


def loaded_modules(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after some code."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ran.stdout.split())


@pytest.mark.parametrize(("code", "most"), [(IMPORT, 2), (SCORE, MOST_MODULES)])
def test_a_score_of_pixels_loads_only_what_it_needs(code: str, most: int) -> None:
    modules = loaded_modules(code)
    ours = {name for name in modules if name.partition(".")[0] == "editjudge"}
    assert len(ours) < most, sorted(ours)
    assert not modules & HEAVY


def test_opencv_is_loaded_where_pixels_are_compared() -> None:
    assert "cv2" not in loaded_modules("import editjudge; editjudge.score")
    assert "cv2" in loaded_modules(SCORE)
