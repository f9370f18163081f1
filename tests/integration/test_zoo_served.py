"""Untrained models of every architecture: made, exported, served, and judged with; and all in one repository."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.app.client import Client
from editjudge.base.config import Endpoint, Settings, StackSettings
from editjudge.base.contracts import Contract
from editjudge.base.errors import ConfigError
from editjudge.base.images import decode
from editjudge.base.item import Edit
from editjudge.base.probes import probe_inputs, wrong_answer
from editjudge.base.verdict import NoScore, NotApplicable, Score
from editjudge.cli import root
from editjudge.panel import SPECIALISTS, Panel
from editjudge_services.aesthetics.artimuse_service import LEVELS, ArtiMuse
from editjudge_services.quality.qinsight_service import QInsight
from editjudge_services.runtime.repository import find_specialists
from editjudge_services.runtime.specialist import Request
from editjudge_services.runtime.triton_server import TritonServer

from ..fakes.openai import ScriptedOpenAi
from ..patience import patience
from ..untrained_models import KINDS, SERVED, UntrainedModels

pytestmark = [pytest.mark.triton, pytest.mark.timeout(400)]


def settings_of(stack: TritonServer) -> Settings:
    return Settings(endpoints={"local": Endpoint(url=stack.url)})


async def test_every_model_is_served_and_says_what_its_weights_said(stack: TritonServer) -> None:
    async with Panel(settings_of(stack)) as panel:
        assert set(SERVED) <= set(panel.specialists)
        for name in SERVED:
            declared = panel.specialists[name].identity.facts
            assert declared["untrained"] == "yes"
            assert declared["fingerprint"]
            reply = await panel.call(name, probe_inputs(name.partition(".")[0]))
            assert wrong_answer(name, reply, declared) is None


def decode_inputs(contract: Contract, inputs: dict[str, bytes]) -> Request:
    read: dict[str, Any] = {
        tensor.name: decode(inputs[tensor.name])[0] if tensor.holds == "image" else inputs[tensor.name].decode()
        for tensor in contract.inputs
        if tensor.name in inputs
    }
    parameters = {name: values[0] for name, values in contract.parameters.items()}
    return Request(read, parameters)


@pytest.mark.parametrize("name", SERVED)
async def test_served_equals_in_process(name: str, stack: TritonServer) -> None:
    inputs = probe_inputs(name.partition(".")[0])
    async with Panel(settings_of(stack)) as panel:
        reply = await panel.call(name, inputs)
        specialist = KINDS[name]()
        specialist.load(panel.specialists[name].identity.facts)
    (here,) = specialist.infer([decode_inputs(SPECIALISTS[name], inputs)])
    assert isinstance(here, dict)
    for tensor in SPECIALISTS[name].outputs:
        one, other = here[tensor.name], reply[tensor.name]
        if tensor.dtype == "BYTES":
            assert other == (one.encode() if isinstance(one, str) else one)
        else:
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-6)


def photographs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    source = np.kron(rng.integers(0, 256, (8, 10, 3), dtype=np.uint8), np.ones((16, 16, 1), np.uint8))
    edited = source.copy()
    edited[32:96, 40:120] = (200, 40, 30)
    mask = np.zeros(source.shape[:2], bool)
    mask[32:96, 40:120] = True
    return source, edited, mask


async def test_edits_are_judged_and_marked_untrained(stack: TritonServer) -> None:
    source, edited, mask = photographs()
    edit = Edit.load(source=source, edited=edited, instruction="x", mask=mask, target=edited, target_text="A")
    async with Client(settings_of(stack)) as client:
        judged = await client.score(edit, ["core.features.*", "core.clip.*", "core.lpips.*"])
        reading = await client.score(edit, ["core.text_content_accuracy*"])
    values = {name: one.value for name, one in judged.outcomes.items() if isinstance(one, Score)}
    assert set(values) == set(judged.outcomes)
    assert judged.untrained_ids == set(judged.outcomes)
    assert reading.untrained_ids == {"core.text_content_accuracy.got"}
    for name, value in values.items():
        same = "lpips" not in name
        if ".target." in name:
            assert value == pytest.approx(1.0 if same else 0.0, abs=1e-5), name
        elif name.endswith("whole"):
            assert value < 0.9999 if same else value > 1e-4, name
    assert "untrained=yes" in str(judged.signatures["core.lpips.vgg.source.whole"])


async def test_empty_and_full_masks(stack: TritonServer) -> None:
    source, edited, mask = photographs()
    async with Client(settings_of(stack)) as client:
        for whole, without in ((np.zeros_like(mask), "inside"), (np.ones_like(mask), "outside")):
            edit = Edit.load(source=source, edited=edited, instruction="x", mask=whole, target=edited)
            names = [f"core.{s}.*.{without}" for s in ("features.dinov2", "clip.vit_b_32", "lpips.vgg")]
            judged = await client.score(edit, names)
            for outcome in judged.outcomes.values():
                assert isinstance(outcome, NoScore)
                assert outcome.kind == "degenerate"
        bare = Edit.load(source=source, edited=edited, instruction="x")
        judged = await client.score(bare, ["core.lpips.vgg.source.outside"])
        assert isinstance(judged.outcomes["core.lpips.vgg.source.outside"], NotApplicable)


async def test_weights_exchanged_behind_a_running_server_are_refused(stack: TritonServer) -> None:
    specialist = KINDS["lpips.alex"]()
    with pytest.raises(ConfigError, match="its configuration declares"):
        specialist.load({"precision": "fp32", "weights": "sha256:other"})


STAND_IN = """
import hashlib
from {module} import {kind} as Kind
from editjudge_services.runtime.adaptor import serve

# The authors' prompts are not ours to ship.
Kind.prompts = {{name: hashlib.sha256(name.encode()).hexdigest() for name in Kind.prompts}}
TritonPythonModel = serve(Kind)
"""


async def test_the_repository_of_every_model_is_one_that_triton_loads(
    zoo: UntrainedModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = ScriptedOpenAi(owner="vllm")
    scripted.vocabulary = {level: number for number, level in enumerate(LEVELS)}
    names = sorted(kind.name for kind in find_specialists())
    (tmp_path / "models.json").write_text(json.dumps({name: {} for name in names}))
    repository = tmp_path / "repository"
    with zoo.in_use():
        async with scripted.serving() as url:
            for kind in (QInsight, ArtiMuse):
                for name, value in {"URL": url, "MODEL": "judge", "PROMPTS": str(tmp_path)}.items():
                    monkeypatch.setenv(f"EDITJUDGE_{kind.variable}_{name}", value)
                for name in kind.prompts:
                    (tmp_path / name).write_text(name)
            for arguments in (
                ["pull", "--untrained", "grounded-sam-huge"],
                ["export", "grounded-sam-huge"],
                ["repository", str(tmp_path / "models.json"), "--out", str(repository)],
            ):
                assert root.main(["models", *arguments], standalone_mode=False) in {0, None}
            for kind in (QInsight, ArtiMuse):
                code = repository / kind.name / "1"
                code.unlink()
                code.mkdir()
                (code / "model.py").write_text(STAND_IN.format(module=kind.__module__, kind=kind.__name__))
            settings = StackSettings(startup_timeout=patience(240))
            server = TritonServer(tmp_path / "triton.log", settings, repository=repository)
            await asyncio.to_thread(server.start)
            try:
                assert server.unloaded_models == {}
                async with Panel(settings_of(server)) as panel:
                    facts = {name.replace(".", "_", 1): one.identity.facts for name, one in panel.specialists.items()}
            finally:
                server.stop()
    assert sorted(facts) == names
    told = {name: one["weights"] for name, one in facts.items()}
    assert {name for name, weights in told.items() if weights == "not told"} == {QInsight.name, ArtiMuse.name}
