"""The vision transformers behind the roles `features` and `clip`.

EMBEDDING is L2-normalised, so that the dot product of two of them is their cosine similarity
in [-1, 1], higher is more alike:

- without a MASK the network's embedding of the whole image (the CLS token, which CLIP
  projects);
- with `region` `pool` the mean of the patch tokens of the squashed image, weighted with the
  fraction of each patch that the region covers (I2I-Bench: features inside a
  mask; it leaves the pooling open); with `pool_any` the plain mean over every patch that the
  region touches (GIE-Bench's official code);
- with `region` `zero` the embedding of the whole image with everything else black.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from editjudge.base.contracts import CLIP, FEATURES
from editjudge.base.errors import Abstention
from editjudge.base.images import RGB

from ..runtime.cache import BoundedCache, compute_missing, make_content_key
from ..runtime.onnx import ENGINES, LARGEST_BATCH, ON_GPU, ON_TENSORRT, check_device, open_network
from ..runtime.preprocess import (
    CLIP_CROP,
    CLIP_SQUASH,
    DINOV2_CROP,
    DINOV2_SQUASH,
    DINOV3_SQUASH,
    Rule,
    black_out,
    patch_weights,
)
from ..runtime.serving import load_declared_artefact
from ..runtime.specialist import BadRequest, Outputs, Request, Specialist

Arrays: TypeAlias = "tuple[NDArray[np.float32], ...]"
TRUNK, HEAD = "model.onnx", "head.onnx"
CACHE_MIB = "EDITJUDGE_FEATURE_CACHE_MIB"
"""Environment variable: MiB of features that each model caches, by default 256."""


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """A prepared image; `weights`, float32 (N,), are those of its patches, if pooled."""

    image: RGB
    rule: Rule
    weights: NDArray[np.float32] | None = None


class FeatureSpecialist(Specialist):
    """A vision transformer whose export gives embeddings and patch tokens.

    Attributes:
        whole: How whole images are prepared.
        squash: How images are prepared whose patches are pooled.
    """

    packages = ("numpy", "pillow")
    engines = ENGINES
    on_gpu = ON_GPU
    on_tensorrt = ON_TENSORRT
    max_batch = LARGEST_BATCH

    whole: ClassVar[Rule]
    squash: ClassVar[Rule]

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load the declared export and run it once.

        Raises:
            ConfigError: the export is absent, or not the declared one.
        """
        artefact = load_declared_artefact(self.entry, parameters)
        check_device(artefact)
        self._trunk = open_network(artefact.folder / TRUNK, artefact.precision)
        # CLIP's projection of the CLS token, which is also applied to pooled tokens.
        self._head = None
        if HEAD in artefact.files:
            self._head = open_network(artefact.folder / HEAD, artefact.precision)
        self.cache: BoundedCache[Arrays] = BoundedCache(int(os.environ.get(CACHE_MIB, "256")) << 20)
        ((_, patches),) = self._forward([_View(np.zeros((8, 8, 3), dtype=np.uint8), self.squash)])
        self._grid = math.isqrt(len(patches))
        if self._head is not None:
            self._head(patches[:1])

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Embed each image, or the region of it that its mask selects.

        The network runs once for all images of the batch that are not in the cache.

        Returns:
            For each request EMBEDDING, float32 (D,), of length 1; or Abstention of kind
            `degenerate` where the mask selects nothing.

        Raises:
            BadRequest: a mask has another size than its image.
        """
        views = [self._view(one) for one in batch]
        requested_views = [one for one in views if isinstance(one, _View)]
        answers = iter(self._embeddings(requested_views))
        return [one if isinstance(one, Abstention) else _make_outputs(next(answers)) for one in views]

    def _view(self, request: Request) -> _View | Abstention:
        image, mask = request.tensors["IMAGE"], request.tensors.get("MASK")
        if mask is None:
            return _View(image, self.whole)
        if mask.shape != image.shape[:2]:
            (h, w), (height, width) = mask.shape, image.shape[:2]
            raise BadRequest(f"MASK: {w}x{h}, but IMAGE is {width}x{height}")
        if not mask.any():
            return Abstention("degenerate", "the mask is empty")
        region = request.parameters["region"]
        if region == "zero":
            if not self.whole.crop_mask(mask).any():
                return Abstention("degenerate", "the centre crop leaves nothing of the region")
            return _View(black_out(image, mask), self.whole)
        weights = patch_weights(mask, self._grid)
        if region == "pool_any":
            weights = (weights > 0).astype(np.float32)
        return _View(image, self.squash, weights)

    def _embeddings(self, views: Sequence[_View]) -> list[NDArray[np.float32]]:
        """Compute the embedding of each view, float32 (D,), not normalised."""
        features = self._features(views)
        embeddings = [embedding for embedding, *_ in features]
        pooled_tokens = {
            index: (view.weights @ features[index][1]) / view.weights.sum()
            for index, view in enumerate(views)
            if view.weights is not None
        }
        if pooled_tokens and self._head is not None:
            projections = self._head(np.stack(list(pooled_tokens.values())))[0]
            pooled_tokens = dict(zip(pooled_tokens, projections, strict=True))
        for index, embedding in pooled_tokens.items():
            embeddings[index] = embedding
        return embeddings

    def _features(self, views: Sequence[_View]) -> list[Arrays]:
        """Return each view's embedding, float32 (D,), and if squashed its patches, float32 (N, E)."""
        keys = [make_content_key(view.image, view.rule) for view in views]
        return compute_missing(self.cache, keys, views, self._forward)

    def _forward(self, views: Sequence[_View]) -> list[Arrays]:
        embeddings, patches = self._trunk(np.stack([view.rule(view.image) for view in views]))
        # Only squashed images are pooled, so the patches of a crop are not cached.
        # Copies: a slice would keep the whole batch in memory.
        return [
            (embedding.copy(), tokens.copy()) if view.rule == self.squash else (embedding.copy(),)
            for view, embedding, tokens in zip(views, embeddings, patches, strict=True)
        ]


class DinoV2(FeatureSpecialist):
    """DINOv2 ViT-S/14 (Oquab et al. 2023, arXiv:2304.07193): EMBEDDING is FP32[384].

    Co-EditBench compares pictures with DINOv2; it does not say which size.
    """

    name = "features_dinov2"
    contract = FEATURES
    identity: ClassVar = {"implementation": "dinov2.1"}
    entry = "dinov2-small"
    whole = DINOV2_CROP
    squash = DINOV2_SQUASH


class DinoV3(FeatureSpecialist):
    """DINOv3 ViT-B/16 (Siméoni et al. 2025, arXiv:2508.10104): EMBEDDING is FP32[768].

    I2I-Bench compares regions with it; it does not say which size.
    """

    name = "features_dinov3"
    contract = FEATURES
    identity: ClassVar = {"implementation": "dinov3.1"}
    entry = "dinov3-vitb16"
    # Whole images are squashed too, so that a mask on a cached whole image costs no run.
    whole = DINOV3_SQUASH
    squash = DINOV3_SQUASH


class ClipVitB32(FeatureSpecialist):
    """CLIP ViT-B/32 (Radford et al. 2021, arXiv:2103.00020): EMBEDDING is FP32[512].

    Whole images are prepared as OpenAI's own code does. Pooled patch tokens go through the final
    layer norm and the projection, as GIE-Bench's official code has it.
    """

    name = "clip_vit_b_32"
    contract = CLIP
    identity: ClassVar = {"implementation": "clip.2"}
    entry = "clip-vit-base-patch32"
    whole = CLIP_CROP
    squash = CLIP_SQUASH


def _make_outputs(embedding: NDArray[np.float32]) -> Outputs | Abstention:
    length = np.linalg.norm(embedding.astype(np.float64))
    if length == 0:
        return Abstention("degenerate", "the embedding is the zero vector")
    return {"EMBEDDING": (embedding / length).astype(np.float32)}
