"""Masked CLIP as it is served, against torch doing what the released code does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.images import decode, load_image
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import Score
from editjudge.benchmarks.gie import BENCHMARK
from editjudge.benchmarks.gie.dataset import GieData
from editjudge_services.features.vision_service import ClipVitB32
from editjudge_services.runtime.specialist import Request
from editjudge_services.zoo.artefact import checkpoint_dir, load_artefact
from editjudge_services.zoo.export import export, make_untrained
from editjudge_services.zoo.manifest import find_entry

from .release import SIDE, mask, pixels, record, write_release

if TYPE_CHECKING:  # torch takes seconds to load, in every process that collects tests
    import torch

ENTRY = "clip-vit-base-patch32"
REGIONS = {
    "a rectangle": mask(60, 70, 130, 150),
    "to the edge of a patch": mask(32, 64, 96, 128),
    "all but a pixel": ~mask(100, 100, 101, 101),
    "nothing may change": mask(0, 0, 0, 0),
    "all may change": mask(0, 0, SIDE, SIDE),
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClipVitB32, Any]]:
    """CLIP with random weights: as it is served, and as torch has it."""
    from editjudge_services.features.recipe import RECIPES

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path_factory.mktemp("models")))
        make_untrained(find_entry(ENTRY))
        export(find_entry(ENTRY), "fp32")
        service = ClipVitB32()
        service.load(load_artefact(ENTRY, "fp32").identity)
        yield service, RECIPES[ENTRY].load(checkpoint_dir(ENTRY))


class Panel:
    """Calls the service in this process, with what travels to it."""

    def __init__(self, service: ClipVitB32) -> None:
        self.service = service

    async def call(self, name: str, inputs: Any, parameters: Any) -> Any:
        tensors = {"IMAGE": decode(inputs["IMAGE"])[0], "MASK": None}
        if "MASK" in inputs:
            tensors["MASK"] = decode(inputs["MASK"])[0][..., 0] > 0
        (answer,) = self.service.infer([Request(tensors, parameters)])
        return answer


def preprocess(picture: Pil.Image) -> torch.Tensor:
    from transformers import CLIPImageProcessorPil

    return CLIPImageProcessorPil()(picture, return_tensors="pt")["pixel_values"]  # type: ignore[no-any-return]


def alike(one: torch.Tensor, other: torch.Tensor) -> float:
    from torch.nn.functional import cosine_similarity

    return float(cosine_similarity(one, other)[0])


def token(model: Any, array: np.ndarray, outside: np.ndarray) -> torch.Tensor:
    """As `masked_clip_ssim_evaluation.py` embeds the part of a picture outside a mask."""
    import torch

    square = Pil.fromarray(array).resize((SIDE, SIDE), Pil.Resampling.LANCZOS)
    made = preprocess(square)
    with torch.inference_mode():
        tokens = model.vision_model(pixel_values=made).last_hidden_state[:, 1:]
        touched = torch.from_numpy(outside.reshape(7, 32, 7, 32).any((1, 3)).reshape(1, 49, 1))
        total = (tokens * touched).sum(1) / touched.sum(1).clamp(min=1e-6)
        return model.visual_projection(model.vision_model.post_layernorm(total))  # type: ignore[no-any-return]


def whole(model: Any, array: np.ndarray) -> torch.Tensor:
    """As `clip_whole_image_evaluation.py` embeds a picture."""
    import torch

    made = preprocess(Pil.fromarray(array))
    with torch.inference_mode():
        return model(pixel_values=made).image_embeds  # type: ignore[no-any-return]


async def score_dimension(name: str, item: Item, edited: np.ndarray, panel: Panel, **rules: Any) -> Any:
    found = {d.id: d for d in BENCHMARK.rules(**rules).dimensions}
    (reading,) = found[name].readings
    edit = Edit(item, "m", load_image(edited))
    return (await reading.scorer.score(edit, panel, frozenset({reading.field})))[  # type: ignore[arg-type]
        reading.field
    ]


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("size", [(240, 160), (450, 330), (224, 224), (100, 90)])
async def test_clip_outside_the_mask(
    networks: tuple[ClipVitB32, Any], tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    service, model = networks
    (ref,) = (data := GieData(write_release(tmp_path, [record(where=REGIONS[name])]))).items()
    item = data.load(ref)
    edited = pixels(7, size)
    one, other = (token(model, a, ~REGIONS[name]) for a in (item.sources[0].rgb, edited))
    due = alike(one, other)
    got = await score_dimension("gie.clip", item, edited, Panel(service), protocol="official")
    assert isinstance(got, Score)
    assert got.value == pytest.approx(due, abs=1e-5)
    if name == "all may change":
        assert due == pytest.approx(1), "the zero token is the same for both"
        assert got.imputed
    elif name == "a rectangle":
        weighed = await score_dimension("gie.clip", item, edited, Panel(service))
        assert abs(weighed.value - due) > 1e-4, "patches at the mask's edge count in part"


async def test_clip_of_the_whole_image(networks: tuple[ClipVitB32, Any], tmp_path: Path) -> None:
    service, model = networks
    (ref,) = (data := GieData(write_release(tmp_path, [record()]))).items()
    item = data.load(ref)
    edited = pixels(7, (450, 330))
    due = alike(whole(model, item.sources[0].rgb), whole(model, edited))
    for protocol in ("paper", "official"):
        got = await score_dimension("gie.clip_whole", item, edited, Panel(service), protocol=protocol)
        assert got.value == pytest.approx(due, abs=1e-5)
