"""Q-Insight and ArtiMuse, served by the real vLLM with random weights."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pil

from editjudge.panel.prompt import Prompt, Text
from editjudge_services.aesthetics.artimuse_service import LEVELS, ArtiMuse
from editjudge_services.quality.qinsight_service import QInsight
from editjudge_services.runtime.specialist import Request
from editjudge_services.runtime.vllm_server import VllmServer

from .checkpoints import INTERN_SIDE, RATINGS
from .conftest import serving
from .reference import logprobs, picture, tokens_of

QUESTION = "How good does this picture look?"


@pytest.fixture(scope="module")
def servers(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, VllmServer]]:
    folders = {name: checkpoints[name] for name in ("qinsight", "artimuse")}
    with serving(folders, tmp_path_factory.mktemp("logs"), "--dtype=float32") as servers:
        for server in servers.values():
            server.wait_until_ready()
        yield servers


def load_specialist(kind: type[Any], server: VllmServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A specialist with stand-ins for the authors' prompts, under digests of their own."""
    digests = {}
    for name in kind.prompts:
        (folder / name).write_text(QUESTION)
        digests[name] = hashlib.sha256(QUESTION.encode()).hexdigest()
    monkeypatch.setattr(kind, "prompts", digests)
    variable = f"EDITJUDGE_{kind.__name__.upper()}"
    monkeypatch.setenv(f"{variable}_URL", server.url)
    monkeypatch.setenv(f"{variable}_MODEL", server.served_name)
    monkeypatch.setenv(f"{variable}_PROMPTS", str(folder))
    specialist = kind()
    specialist.load({})
    return specialist


def test_artimuse(
    servers: dict[str, VllmServer], checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specialist = load_specialist(ArtiMuse, servers["artimuse"], tmp_path, monkeypatch)
    monkeypatch.setattr(specialist, "side", INTERN_SIDE)
    folder = checkpoints["artimuse"]
    ids = tokens_of(folder).convert_tokens_to_ids(list(LEVELS))
    scores = []
    for seed in range(3):
        shown = picture(seed, INTERN_SIDE)
        rgb = np.asarray(Pil.open(io.BytesIO(shown.data)).convert("RGB"))
        (answer,) = specialist.infer([Request({"IMAGE": rgb})])
        # Where the template puts an image, it ends the line.
        prompt = Prompt("", (shown, Text(f"\n{QUESTION}")))
        spread = torch.softmax(logprobs(folder, prompt)[ids].double(), -1)
        wanted = float(spread @ torch.linspace(0, 1, len(LEVELS)).double())
        assert answer["SCORE"][0] == pytest.approx(wanted, abs=1e-3)
        scores.append(wanted)
    assert all(0 <= score <= 1 for score in scores)
    assert max(scores) - min(scores) > 0.01


def test_qinsight(
    servers: dict[str, VllmServer], checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specialist = load_specialist(QInsight, servers["qinsight"], tmp_path, monkeypatch)
    answers = {f'<answer>{{"rating": {one}}}</answer>': (one - 1) / 4 for one in RATINGS}
    said = tokens_of(checkpoints["qinsight"]).convert_tokens_to_ids(list(answers))
    pictures = [picture(seed, 56) for seed in range(6)]
    images = [np.asarray(Pil.open(io.BytesIO(one.data)).convert("RGB")) for one in pictures]
    for image, shown in zip(images, pictures, strict=True):
        (answer,) = specialist.infer([Request({"IMAGE": image})])
        prompt = Prompt(QUESTION, (Text(QUESTION), shown))
        chosen = int(logprobs(checkpoints["qinsight"], prompt)[said].argmax())
        assert answer["SCORE"][0] == pytest.approx(list(answers.values())[chosen])
