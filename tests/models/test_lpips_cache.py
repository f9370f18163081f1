"""What the LPIPS service keeps of targets, what it runs once, and the released code's range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from editjudge_services.perceptual import lpips_service
from editjudge_services.perceptual.lpips_service import LpipsAlex
from editjudge_services.perceptual.network import to_signed, to_stretched
from editjudge_services.perceptual.recipe import RECIPES
from editjudge_services.runtime.specialist import Request
from editjudge_services.zoo.artefact import checkpoint_dir, load_artefact
from editjudge_services.zoo.export import export, make_untrained
from editjudge_services.zoo.manifest import find_entry

ENTRY = "lpips-alex"


@pytest.fixture(scope="module", autouse=True)
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path_factory.mktemp("models")))
        make_untrained(find_entry(ENTRY))
        export(find_entry(ENTRY), "fp32")
        yield


class Counting(LpipsAlex):
    """Counts the images that its trunk sees."""

    ran = 0

    def start(self) -> Counting:
        artefact = load_artefact(ENTRY, "fp32")
        assert artefact is not None
        self.load(artefact.identity)
        taps = self._network.taps

        def counted(images: Any) -> Any:
            self.ran += len(images)
            return taps(images)

        self._network.taps = counted  # type: ignore[method-assign]
        return self


def picture(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (12, 16, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)


A, B, C = map(picture, range(3))
HALF = np.zeros(A.shape[:2], bool)
HALF[:, :64] = True


def asking(a: Any, b: Any, mask: Any = None, region: str = "weight") -> Request:
    return Request({"IMAGE_A": a, "IMAGE_B": b, "MASK": mask}, {"region": region})


def distances(specialist: LpipsAlex, *requests: Request) -> list[float]:
    return [float(one["DISTANCE"][0]) for one in specialist.infer(requests)]  # type: ignore[index]


def test_a_target_runs_once_for_all_that_is_compared_with_it() -> None:
    specialist = Counting().start()
    first = distances(specialist, asking(A, B), asking(A, B, HALF, "zero"))
    assert specialist.ran == 4
    assert distances(specialist, asking(A.copy(), C)) != first[:1]
    assert specialist.ran == 5
    assert distances(specialist, asking(A, B), asking(A, B, HALF, "zero")) == pytest.approx(
        first, abs=1e-7
    )
    assert specialist.ran == 7
    changed = A.copy()
    changed[0, 0, 0] ^= 1
    distances(specialist, asking(changed, B))
    assert specialist.ran == 9


def test_regions_of_the_map_share_one_run() -> None:
    specialist = Counting().start()
    got = distances(specialist, asking(A, B), asking(A, B, HALF), asking(A, B, ~HALF))
    assert specialist.ran == 2
    assert (got[1] + got[2]) / 2 == pytest.approx(
        distances(specialist, asking(A, B, np.ones_like(HALF)))[0], abs=1e-6
    )


def test_nothing_is_kept_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lpips_service.CACHE_MIB, "0")
    specialist = Counting().start()
    for _ in range(2):
        distances(specialist, asking(A, B))
    assert specialist.ran == 4


def test_the_released_codes_range() -> None:
    """As it is done there: to [-1, 1], times the mask, then normalised once more."""
    model = RECIPES[ENTRY].load(checkpoint_dir(ENTRY))  # type: ignore[attr-defined]
    pair = []
    for image in (A, B):
        x = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 127.5 - 1
        pair.append(2 * (x * torch.from_numpy(HALF)) - 1)
    with torch.inference_mode():
        due = float(model(*pair)[0])
    (got,) = distances(Counting().start(), asking(A, B, HALF, "stretched"))
    assert got == pytest.approx(due, abs=1e-5)
    (plain,) = distances(Counting().start(), asking(A, B, HALF, "zero"))
    assert abs(got - plain) > 1e-3
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
    inside = to_stretched(levels, np.ones((16, 16), bool))
    assert (inside.min(), inside.max()) == (-3, 1)
    assert np.unique(to_stretched(levels, np.zeros((16, 16), bool))).tolist() == [-1]
    assert (to_signed(levels).min(), to_signed(levels).max()) == (-1, 1)
