"""The repository that a server loads: what cannot be served costs itself."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from generate import chart_text

from editjudge.base.config import StackSettings
from editjudge.base.errors import ConfigError, StoreError
from editjudge.cli import plugin_commands
from editjudge_services.features.vision_service import DinoV2
from editjudge_services.perceptual.lpips_service import LpipsVgg
from editjudge_services.quality.piqe_service import Piqe
from editjudge_services.runtime import liveness, triton_server
from editjudge_services.runtime.repository import build_repository, find_specialists, render_config
from editjudge_services.runtime.serving import Serving, stay_on_device
from editjudge_services.runtime.specialist import Specialist
from editjudge_services.runtime.triton_server import make_stack
from editjudge_services.zoo.artefact import RECORD, Precision

from ...small_disk import fill_disk, mount_disk

command = plugin_commands()["models"]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path / "models"))
    return tmp_path / "models"


def list_models(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_damaged_record_costs_its_own_model(tmp_path: Path, models: Path) -> None:
    record = models / "lpips-alex" / "fp32" / RECORD
    record.parent.mkdir(parents=True)
    record.write_text("no JSON")
    unusable = build_repository(tmp_path / "repo")
    assert list_models(tmp_path / "repo") == ["ocr_ppocr", "quality_piqe"]
    assert list(unusable) == ["lpips_alex"]
    assert str(record.parent) in unusable["lpips_alex"]


def test_what_is_asked_for_and_not_installed_is_named(tmp_path: Path, models: Path) -> None:
    wanted = {"quality_piqe": Serving(), "features_dinov2": Serving()}
    unusable = build_repository(tmp_path / "repo", models=wanted)
    assert list_models(tmp_path / "repo") == ["quality_piqe"]
    assert "no weights for fp32" in unusable["features_dinov2"]
    with pytest.raises(ConfigError, match="no model is named quality_pique"):
        build_repository(tmp_path / "repo", models={"quality_pique": Serving()})


def test_models_of_an_earlier_table_go(tmp_path: Path, models: Path) -> None:
    folder = tmp_path / "repo"
    build_repository(folder)
    own = folder / "of_others" / "1" / "model.py"
    own.parent.mkdir(parents=True)
    own.touch()
    build_repository(folder, models={"quality_piqe": Serving(instances=2)})
    assert list_models(folder) == ["of_others", "quality_piqe"]
    assert own.exists()
    assert "count: 2" in (folder / "quality_piqe" / "config.pbtxt").read_text()
    assert (folder / "quality_piqe" / "1" / "model.py").exists(), "the package's own code stays"
    build_repository(folder, models={"features_dinov2": Serving()})
    assert list_models(folder) == ["of_others"]


def test_a_stack_has_the_needed_models_that_are_installed(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_server, "has_serve_extra", lambda: True)
    monkeypatch.setattr(triton_server, "temporary_stack", lambda settings: settings.models)
    some = ["clip_vit_b_32", "quality_piqe", "ocr_ppocr"]
    assert make_stack(StackSettings(), some) == ("quality_piqe", "ocr_ppocr")
    one = StackSettings(models=("ocr_ppocr",))
    assert make_stack(one, some) == ("ocr_ppocr",)
    absent = "clip.vit_b_32 is not installed (docs/howto/models.md)"
    assert make_stack(StackSettings(), ["clip_vit_b_32"]) == absent
    assert make_stack(one, ["quality_piqe"]) == "quality.piqe is not among the `models` of the stack"
    monkeypatch.setattr(triton_server, "has_serve_extra", lambda: False)
    assert make_stack(StackSettings(), some) is None


def test_instances_precision_and_device_are_in_the_configuration() -> None:
    assert "KIND" not in render_config(DinoV2)  # Triton's own default: a GPU where there is one
    on_gpus = render_config(DinoV2, serving=Serving(instances=2, device="gpu"))
    assert "count: 2\n  kind: KIND_GPU" in on_gpus
    assert "KIND_CPU" in render_config(DinoV2, serving=Serving(device="cpu"))
    assert "KIND_CPU" in render_config(Piqe)
    # That precision is computed by the processor alone.
    assert "KIND_CPU" in render_config(DinoV2, serving=Serving(precision="bf16"))


@pytest.mark.parametrize(
    ("kind", "precision", "device", "where"),
    [
        (Piqe, "fp32", "gpu", "a GPU"),
        (DinoV2, "bf16", "gpu", "a GPU"),
        (DinoV2, "fp32", "tensorrt", "TensorRT"),
        # An engine is for pictures of one size.
        (LpipsVgg, "fp16", "tensorrt", "TensorRT"),
    ],
)
def test_what_cannot_run_on_a_gpu_is_not_put_there(
    kind: type[Specialist], precision: Precision, device: Any, where: str
) -> None:
    with pytest.raises(ConfigError, match=f"{kind.name} cannot run on {where} in {precision}"):
        render_config(kind, serving=Serving(precision=precision, device=device))


@pytest.mark.parametrize(
    ("placed", "before", "device", "onnx"),
    [
        ({"model_instance_kind": "GPU", "model_instance_device_id": "1"}, "", "1", None),
        ({"model_instance_kind": "GPU", "model_instance_device_id": "1"}, "4,6", "6", None),
        ({"model_instance_kind": "CPU", "model_instance_device_id": "0"}, "4,6", "", "cpu"),
    ],
)
def test_an_instance_keeps_to_the_device_that_triton_gave_it(
    monkeypatch: pytest.MonkeyPatch, placed: dict[str, str], before: str, device: str, onnx: str | None
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    monkeypatch.setenv("EDITJUDGE_ONNX_DEVICE", "auto")
    monkeypatch.delenv("EDITJUDGE_ONNX_DEVICE")
    stay_on_device(placed, {})
    assert os.environ["CUDA_VISIBLE_DEVICES"] == device
    assert os.environ.get("EDITJUDGE_ONNX_DEVICE") == onnx


def test_device_gpu_reaches_the_model_and_no_identity() -> None:
    for device, precision in (("gpu", "fp32"), ("tensorrt", "bf16")):
        strict = render_config(DinoV2, serving=Serving(device=device, precision=precision))
        assert f'key: "device"\n  value {{\n    string_value: "{device}"' in strict
        assert "kind: KIND_GPU" in strict
    for device in ("auto", "cpu"):
        assert '"device"' not in render_config(DinoV2, serving=Serving(device=device))


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize(("device", "told"), [("gpu", "cuda"), ("tensorrt", "tensorrt")])
def test_device_gpu_asks_for_cuda_wherever_triton_put_the_instance(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str, told: str
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "EDITJUDGE_ONNX_DEVICE"):
        monkeypatch.setenv(name, "auto")
    kind = "GPU" if gpu else "CPU"
    placed = {"model_instance_kind": kind, "model_instance_device_id": "0"}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    stay_on_device(placed, {"device": device})
    assert os.environ["EDITJUDGE_ONNX_DEVICE"] == told


def run_repository(tmp_path: Path, table: str) -> Result:
    file = tmp_path / "models.json"
    file.write_text(table)
    return CliRunner().invoke(
        command, ["repository", str(file), "--out", str(tmp_path / "repo")], standalone_mode=False
    )


def test_a_table_becomes_the_folder_that_triton_loads_and_again(tmp_path: Path, models: Path) -> None:
    for count in (1, 3):
        ran = run_repository(tmp_path, f'{{"quality_piqe": {{"instances": {count}}}}}')
        assert ran.exception is None
        config = (tmp_path / "repo" / "quality_piqe" / "config.pbtxt").read_text()
        assert f"count: {count}" in config
    assert (tmp_path / "repo" / "quality_piqe" / "1" / "model.py").is_file()


def test_a_full_disk_is_named_and_leaves_no_configuration_that_is_not_whole(tmp_path: Path, models: Path) -> None:
    table = '{"quality_piqe": {"instances": 3}, "ocr_ppocr": {}}'
    with mount_disk(tmp_path / "repo", 1) as disk:
        for instances in (1, 2):
            filler = fill_disk(disk)
            ran = run_repository(tmp_path, table)
            assert isinstance(ran.exception, StoreError)
            assert "No space left on device" in str(ran.exception)
            assert str(ran.exception).endswith("make room, or give another --out")
            assert len(list(disk.glob("*/config.pbtxt"))) == instances - 1
            filler.unlink()
            assert run_repository(tmp_path, f'{{"quality_piqe": {{"instances": {instances}}}}}').exception is None
        assert "count: 2" in (disk / "quality_piqe" / "config.pbtxt").read_text()
        assert run_repository(tmp_path, table).exception is None
        assert not list(disk.rglob("*.partial"))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("{}", "the table has no model"),
        ("no JSON", "Invalid JSON"),
        ('{"quality_piqe": {"instance": 2}}', "quality_piqe.instance"),
        ('{"quality_piqe": {"device": "tpu"}}', "quality_piqe.device"),
        ('{"quality_pique": {}}', "no model is named quality_pique"),
        ('{"features_dinov2": {}}', "is not complete: features_dinov2: no weights for fp32"),
    ],
)
def test_a_table_that_cannot_be_served_is_refused(tmp_path: Path, models: Path, table: str, told: str) -> None:
    ran = run_repository(tmp_path, table)
    assert isinstance(ran.exception, ConfigError)
    assert told in str(ran.exception)


def test_the_chart_knows_every_model_and_where_its_weights_lie() -> None:
    known = json.loads(chart_text())
    assert known["models"].keys() == {kind.name for kind in find_specialists()}
    assert known["models"]["lpips_vgg"]["pictures"] == 3
    assert known["models"]["quality_qinsight"]["vllm"] == "q-insight"
    assert known["weights"]["q-insight"]["folder"] == "q-insight/checkpoint/score_degradation"
    assert known["weights"]["q-insight"]["variable"] == "QINSIGHT"


def process(folder: Path, pid: int, instance: str, name: str = "triton_python_backend_stub") -> None:
    model = instance.rsplit("_", 2)[0]
    (folder / str(pid)).mkdir(parents=True)
    line = f"/b/{name}\0{folder.parent}/{model}/1/model.py\0x\0{instance}\0DEFAULT\0"
    (folder / str(pid) / "cmdline").write_text(line)


def test_a_server_is_started_again_where_it_serves_nothing_or_has_lost_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = tmp_path / "proc"
    states: list[dict[str, str]] | None = None

    def fault() -> str:
        reply = None if states is None else json.dumps(states).encode()
        monkeypatch.setattr(liveness, "fetch", lambda url, data: reply)
        return liveness.find_fault(tmp_path, "http://server", processes)

    assert fault() == "http://server does not answer"
    states = [
        {"name": "ocr_got", "state": "UNAVAILABLE", "reason": "Internal: no torch\n\nAt:"},
        {"name": "quality_piqe", "state": "LOADING"},
    ]
    assert fault() == "no model is ready; ocr_got: Internal: no torch; quality_piqe: LOADING"
    states[1]["state"] = "READY"
    assert fault() == "no process any more: quality_piqe"
    process(processes, 1, "quality_piqe_0_0")
    process(processes, 2, "quality_piqe_0_1")
    # One that cannot be loaded costs the others nothing, though its process may still be ending.
    process(processes, 3, "ocr_got_0_0")
    assert not fault()
    shutil.rmtree(processes / "3")
    assert not fault()
    # It is there at the second attempt.
    process(processes, 4, "ocr_got_0_0", name="another")
    states[0]["state"] = "READY"
    assert fault() == "no process any more: ocr_got"
    # First seen while one attempt ends and the next is ready: one instance, not two.
    process(processes, 5, "ocr_got_0_0")
    process(processes, 6, "ocr_got_0_0")
    assert not fault()
    shutil.rmtree(processes / "5")
    assert not fault()
    shutil.rmtree(processes / "2")
    process(tmp_path / "another" / "proc", 7, "quality_piqe_0_1")
    (tmp_path / "another" / "proc" / "7").rename(processes / "7")  # of another server
    assert fault() == "no process any more: quality_piqe"
