"""The runs whose tables are kept: small made data by benchmark and protocol.

Of each, `ours` has an edit that is all grey, one that is magenta, one that cannot be read and one
that is missing; `theirs` is whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from ..unit.benchmarks.co_edit.items import line, write_data
from ..unit.benchmarks.gie import release as gie_made
from ..unit.benchmarks.gie.stand_ins import import_stand_ins as gie_prompts
from ..unit.benchmarks.kris.release import write_release as kris_released
from ..unit.benchmarks.kris.stand_ins import import_stand_ins as kris_prompts
from ..unit.benchmarks.omni_iie import release as omni_made
from .services import GREY, MAGENTA

_PHOTO = (120, 80)
Prompts = Callable[[pytest.MonkeyPatch, Path], None]


@dataclass(frozen=True)
class CaseData:
    """Data, and what outputs are called.

    Attributes:
        data: What `--data` is given.
        outputs: Files by item, within a model's folder; those that are not there are drawn.
        more: Further arguments.
    """

    data: Path
    outputs: Mapping[str, str]
    more: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Case:
    """A run that is kept.

    Attributes:
        protocol: Empty where the benchmark has only one.
        make: Writes the data below a folder.
        troubles: Items of `ours` that are grey, magenta, unreadable and missing.
        shown: Items whose `show` is kept.
        models: Triton's, that are served.
        summaries: Further flags with which the table is made, by name.
        prompts: Lets stand-ins be the authors' prompts.
        size: Of outputs, width and height.
        magenta: Colour of the edit for which services fail; another one, and none does.
    """

    benchmark: str
    protocol: str
    make: Callable[[Path], CaseData]
    troubles: tuple[str, str, str, str]
    shown: tuple[str, ...]
    models: tuple[str, ...] = ()
    summaries: Mapping[str, tuple[str, ...]] = ()  # type: ignore[assignment]
    prompts: Prompts | None = None
    size: tuple[int, int] = (20, 16)
    magenta: tuple[int, int, int] = MAGENTA

    @property
    def name(self) -> str:
        return ".".join(filter(None, (self.benchmark, self.protocol)))

    def arguments(self, folder: Path) -> list[Any]:
        """Write data and outputs below a folder; what a command is asked."""
        made = self.make(folder)
        for seed, file in enumerate(made.outputs.values(), 700):
            for more, model in ((0, "theirs"), (100, "ours")):
                if not (folder / model / file).exists():
                    draw_picture(folder / model / file, seed + more, self.size)
        grey, magenta, unreadable, missing = (folder / "ours" / made.outputs[item] for item in self.troubles)
        for path, colour in ((grey, GREY), (magenta, self.magenta)):
            Pil.new("RGB", self.size, colour).save(path)
        unreadable.write_bytes(b"no picture")
        missing.unlink()
        models = [part for m in ("ours", "theirs") for part in ("--outputs", f"{m}={folder / m}")]
        protocol = ["--protocol", self.protocol] if self.protocol else []
        return [self.benchmark, "--data", made.data, *models, *protocol, *made.more]


def draw_picture(path: Path, seed: int, size: tuple[int, int]) -> None:
    """A picture of its own, in broad patches, so that means of its parts differ."""
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    Pil.fromarray(coarse).resize(size, Pil.Resampling.NEAREST).save(path)


def _lines(folder: Path, lines: list[dict[str, Any]]) -> CaseData:
    path = folder / "data" / "items.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return CaseData(path, {one["id"]: f"{one['id']}.png" for one in lines})


def _corner(size: tuple[int, int]) -> np.ndarray:
    """A mask that shows the left upper quarter."""
    mask = np.zeros(size[::-1], np.uint8)
    mask[: size[1] // 2, : size[0] // 2] = 255
    return mask


def _write_shifted_outputs(folder: Path, source: Path, file: str) -> None:
    """Outputs that can be aligned with their source: moved, with a white patch."""
    pixels = np.asarray(Pil.open(source))
    for model, by in (("ours", 2), ("theirs", 3)):
        edited = gie_made.shift(pixels, by, 1)
        edited[48:88, 80:150] = 255
        gie_made.picture(folder / model / file, edited)


def core(folder: Path) -> CaseData:
    for seed, name in enumerate(("source", "other", "target")):
        draw_picture(folder / "data" / f"{name}.png", seed, (32, 24))
    # Only this one has corners enough to be aligned.
    gie_made.picture(folder / "data" / "photo.png", gie_made.pixels(1, _PHOTO))
    gie_made.picture(folder / "data" / "corner.png", _corner(_PHOTO))
    _write_shifted_outputs(folder, folder / "data" / "photo.png", "photo.png")
    gie_made.picture(folder / "data" / "mask.png", _corner((32, 24)))
    gie_made.picture(folder / "data" / "empty.png", np.zeros((24, 32), np.uint8))
    choice = {"question": "What is it?", "options": ["A cup", "A jug", "A pot"], "answer": "A jug"}
    fact = {"question": "Is it red?", "answer": "yes"}
    whole = {"mask": "mask.png", "target": "target.png", "target_text": "NEW 1"}
    lines = [
        {"id": "full", **whole, "questions": [choice, choice | {"question": "What else?"}]},
        {"id": "plain"},
        {"id": "facts", "questions": [fact, fact | {"question": "Is it large?"}]},
        {"id": "empty", "mask": "empty.png", "target": "target.png"},
        {"id": "photo", "source": "photo.png", "target": "photo.png", "mask": "corner.png"},
        {"id": "two", "source": None, "sources": ["source.png", "other.png"]},
        {"id": "grey", **whole, "questions": [choice]},
        {"id": "magenta", **whole, "questions": [fact]},
        {"id": "unreadable"},
        {"id": "missing", **whole},
    ]
    usual = {"source": "source.png"}
    lines = [{**usual, **one, "instruction": f"do {one['id']}"} for one in lines]
    return _lines(folder, [{k: v for k, v in one.items() if v is not None} for one in lines])


def i2i(folder: Path) -> CaseData:
    common = ["image_quality", "instruction_following", "text_content_style_accuracy"]
    se = [*common, "editing_artifacts", "non_edited_region_fidelity", "spatial_accuracy",
          "subject_identity_fidelity", "physical_plausibility",
          "world_knowledge_reasoning"]  # fmt: skip
    me = [*common, "cross_source_transfer", "inter_subject_consistency", "detail_fidelity",
          "non_edited_element_fidelity", "subject_consistency", "aesthetic_quality",
          "subject_extraction_composition", "composition_interaction"]  # fmt: skip
    told = {"hint": "HINT", "target_text": "NEW 1"}
    single = {"source": "source.png"}
    several = {"sources": ["source.png", "other.png"]}
    for seed, name in enumerate(("source", "other")):
        draw_picture(folder / "data" / f"{name}.png", seed, (32, 24))
    lines = [
        {"id": "se-full", "task": "world_knowledge_reasoning", "dimensions": se, **told, **single},
        {"id": "se-plain", "task": "local_editing", **single},
        {"id": "me-full", "task": "combination_reasoning", "dimensions": me, **told, **several},
        {"id": "me-plain", "task": "basic_combination", **several},
        {"id": "se-grey", "task": "text_rendering", "dimensions": se, **told, **single},
        {"id": "me-magenta", "task": "basic_combination", **several},
        {"id": "se-unreadable", "task": "local_editing", **single},
        {"id": "me-missing", "task": "combination_text_rendering", "target_text": "NEW 1",
         **several},
    ]  # fmt: skip
    return _lines(folder, [{**one, "instruction": f"do {one['id']}"} for one in lines])


def co_edit(folder: Path) -> CaseData:
    two = {"source": None, "mask": None, "sources": ["source.png", "other.png"]}
    lines = [
        line(id="custom"),
        line("text_editing", id="text"),
        line("style_editing", id="style", mask=None),
        line("in_context", id="context", **two),
        line("background_editing", id="background", mask_shows="kept", subject=True),
        line(id="empty", mask="empty.png"),
        line(id="full", mask="full.png"),
        line(id="grey"),
        line(id="magenta"),
        line(id="unreadable"),
        line(id="missing"),
    ]
    lines = [{**one, "instruction": f"do {one['id']}"} for one in lines]
    path = write_data(folder / "data", lines)
    return CaseData(path, {one["id"]: f"{one['id']}.png" for one in lines})


def kris(folder: Path) -> CaseData:
    counts = {"count_change": 2, "temporal_prediction": 2, "biology": 3, "viewpoint_change": 1,
              "rule__based_reasoning": 1, "multi__instruction_execution": 1,
              "multi__element_composition": 1, "anomaly_correction": 1}  # fmt: skip
    data = kris_released(folder / "data", **counts)
    items = {
        f"{file.parent.name}/{number}": f"{file.parent.name}/{number}.jpg"
        for file in sorted(data.glob("*/annotation.json"))
        for number in json.loads(file.read_text())
    }
    return CaseData(data, items)


def gie(folder: Path) -> CaseData:
    file = gie_made.write_release(folder / "data")
    for index, one in enumerate(gie_made.make_odd_records()):
        _write_shifted_outputs(folder, file.parent / one["image"].lstrip("/"), f"{index}.png")
    return CaseData(file, {str(index): f"{index}.png" for index in range(10)})


def omni_iie(folder: Path) -> CaseData:
    own = [{"question": "Is the bus blue?", "correct_answer": "Yes"}]
    single = [
        omni_made.record("coco2017val", "0001", "low", qa_pairs=own),
        omni_made.record("coco2017val", "0001", "high"),
        omni_made.record("sharegpt4v(llava)", "0001", "low"),
        omni_made.record("sharegpt4v(llava)", "a b (é)", "high"),
    ]
    multi = [
        omni_made.record("gqa", "0001", "1", scale="low"),
        omni_made.record("gqa", "0001", "2", scale="high"),
        omni_made.record("gqa", "0002", "1"),
        omni_made.record("gqa", "0003", "1"),
    ]
    data = omni_made.write_release(folder / "data", single, multi)
    omni_made.mask(data / "files/masks/gqa/0002_1_target.png", 0.0)
    items = ("coco2017val/0001_low", "coco2017val/0001_high", "sharegpt4v/0001_low",
             "sharegpt4v/a b (é)_high", "gqa/0001_1", "gqa/0001_2", "gqa/0002_1",
             "gqa/0003_1")  # fmt: skip
    more = ("--root", f"{omni_made.AUTHORS}={data / 'files'}")
    return CaseData(data, {item: f"{item}.png" for item in items}, more)


_KRIS_TROUBLES = ("biology/2", "biology/3", "count_change/2", "temporal_prediction/2")
_OMNI_TROUBLES = ("coco2017val/0001_high", "sharegpt4v/0001_low", "sharegpt4v/a b (é)_high",
                  "gqa/0003_1")  # fmt: skip
_OMNI = {
    "make": omni_iie,
    "troubles": _OMNI_TROUBLES,
    "shown": ("coco2017val/0001_low", "gqa/0002_1", "gqa/0003_1"),
    "models": ("lpips_vgg", "clip_vit_b_32"),
    "size": (96, 80),
}
_GIE = {
    "make": gie,
    "troubles": ("3", "6", "8", "9"),
    "shown": ("0", "3", "9"),
    "models": ("clip_vit_b_32",),
    "size": gie_made.SIZE,
}
_TROUBLED = ("grey", "magenta", "unreadable", "missing")
CASES = (
    Case(
        "core",
        "",
        core,
        _TROUBLED,
        ("full", "magenta", "missing"),
        (
            *("quality_piqe", "quality_qinsight", "aesthetics_artimuse", "ocr_ppocr"),
            *("features_dinov3", "features_dinov2", "clip_vit_b_32", "lpips_vgg"),
        ),
    ),
    Case(
        "co_edit",
        "paper",
        co_edit,
        _TROUBLED,
        ("custom", "empty", "grey"),
        ("clip_vit_b_32", "features_dinov2", "lpips_vgg"),
        summaries={
            "uniform": ("--with", "uniform_weights"),
            "no_specialists": ("--without", "specialists"),
            "no_reasoning": ("--without", "reasoning"),
        },
    ),
    Case(
        "gie",
        "paper",
        summaries={"count_missing": ("--count-missing",), "common": ("--common",)},
        **_GIE,  # type: ignore[arg-type]
    ),
    Case("gie", "official", prompts=gie_prompts, **_GIE),  # type: ignore[arg-type]
    Case(
        "i2i",
        "paper",
        i2i,
        ("se-grey", "me-magenta", "se-unreadable", "me-missing"),
        ("se-full", "me-plain", "me-magenta"),
        (*("quality_qinsight", "aesthetics_artimuse", "ocr_got"), *("segmenter_sa2va", "features_dinov3")),
    ),
    Case(
        "kris",
        "paper",
        kris,
        _KRIS_TROUBLES,
        ("biology/1", "biology/2", "count_change/1"),
        summaries={"single_image": ("--single-image", "ours")},
        size=(10, 8),
    ),
    Case(
        "kris",
        "official",
        kris,
        _KRIS_TROUBLES,
        ("biology/1", "biology/2", "biology/3"),
        summaries={"gated": ("--without", "knowledge_ungated")},
        prompts=kris_prompts,
        size=(10, 8),
    ),
    Case("omni_iie", "paper", **_OMNI),  # type: ignore[arg-type]
    Case("omni_iie", "official", **_OMNI),  # type: ignore[arg-type]
)
