"""Time editjudge's pixel metrics against scikit-image's, and compare their values.

Both sides run in turn within one process on the same images: a photograph from scikit-image,
enlarged, and the same photograph turned a little, with noise and a repainted patch. Files of the
first are read by `load_image` and by scikit-image (`imread`, which has Pillow decode). The masked
variants count what lies outside the patch. scikit-image takes masked errors over gathered pixels
(`a[region]`) and a masked SSIM from its full map.
"""

import io
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import click
import cv2
import numpy as np
import skimage
import skimage.data
import skimage.io
from PIL import Image as Pil
from rich.console import Console
from rich.table import Table
from skimage import metrics as peer

from editjudge.base.images import RGB, load_image
from editjudge.pixels.alignment import align
from editjudge.pixels.metrics import mse, psnr
from editjudge.pixels.regions import Region
from editjudge.pixels.ssim import ssim

DATA_RANGE = 255


@dataclass(frozen=True)
class Row:
    """One metric, measured on both sides: medians in milliseconds of processor time."""

    metric: str
    region: str
    ours_ms: float
    peer_ms: float
    difference: float

    @property
    def ratio(self) -> float:
        """How many times as fast as scikit-image."""
        return self.peer_ms / self.ours_ms


Call = Callable[[], float]


def pictures(size: int) -> tuple[RGB, RGB, Region]:
    """Make a reference, an edit of it and the region outside the edit, `size` px square."""
    reference = cv2.resize(skimage.data.astronaut(), (size, size), interpolation=cv2.INTER_CUBIC)
    turn = cv2.getRotationMatrix2D((size / 2, size / 2), 0.5, 1.01)
    edit = cv2.warpAffine(reference, turn, (size, size), borderMode=cv2.BORDER_REFLECT)
    noise = np.random.default_rng(0).integers(-4, 5, edit.shape)
    edit = np.clip(edit + noise, 0, 255).astype(np.uint8)
    region = np.ones((size, size), np.bool_)
    region[size // 3 : size // 2, size // 4 : size // 2] = False
    edit[~region] = 255 - edit[~region]
    return np.asarray(reference, np.uint8), edit, region


def contests(a: RGB, b: RGB, region: Region) -> dict[tuple[str, str], tuple[Call, Call]]:
    """Pair every metric with its peer: (metric, region) to (ours, scikit-image's)."""

    def peer_masked_ssim() -> float:
        _, full = peer.structural_similarity(a, b, channel_axis=2, data_range=DATA_RANGE, full=True)
        within = np.lib.stride_tricks.sliding_window_view(region, (7, 7)).all(axis=(2, 3))
        return float(full[3:-3, 3:-3][within].mean())

    return {
        **{("read", kind): readers(a, kind) for kind in ("JPEG", "PNG")},
        ("mse", "whole"): (lambda: mse(a, b), lambda: peer.mean_squared_error(a, b)),
        ("mse", "masked"): (lambda: mse(a, b, region), lambda: peer.mean_squared_error(a[region], b[region])),
        ("psnr", "whole"): (
            lambda: psnr(a, b).value,
            lambda: peer.peak_signal_noise_ratio(a, b, data_range=DATA_RANGE),
        ),
        ("psnr", "masked"): (
            lambda: psnr(a, b, region).value,
            lambda: peer.peak_signal_noise_ratio(a[region], b[region], data_range=DATA_RANGE),
        ),
        ("ssim", "whole"): (
            lambda: ssim(a, b),
            lambda: peer.structural_similarity(a, b, channel_axis=2, data_range=DATA_RANGE),
        ),
        ("ssim", "masked"): (lambda: ssim(a, b, region), peer_masked_ssim),
    }


def readers(image: RGB, kind: str) -> tuple[Call, Call]:
    """Read a file of this kind from memory: `load_image`, and scikit-image's `imread`."""
    file = io.BytesIO()
    Pil.fromarray(image).save(file, kind, quality=90)
    data = file.getvalue()

    def theirs() -> float:
        return float(skimage.io.imread(io.BytesIO(data))[0, 0, 0])

    return lambda: float(load_image(data).rgb[0, 0, 0]), theirs


def time_call(call: Call) -> tuple[float, float]:
    """Run once: milliseconds of processor time and the value."""
    start = time.process_time()
    value = call()
    return (time.process_time() - start) * 1e3, float(value)


def compare(names: tuple[str, str], ours: Call, theirs: Call, repeats: int) -> Row:
    """Run both in turn after a warm-up, so that a slow spell of the machine hits both."""
    time_call(ours), time_call(theirs)
    runs = [(time_call(ours), time_call(theirs)) for _ in range(repeats)]
    return Row(
        metric=names[0],
        region=names[1],
        ours_ms=statistics.median(mine[0] for mine, _ in runs),
        peer_ms=statistics.median(yours[0] for _, yours in runs),
        difference=max(abs(mine[1] - yours[1]) for mine, yours in runs),
    )


@click.command()
@click.option("--size", default=1024, show_default=True, help="Side of the square images, px.")
@click.option("--repeats", default=9, show_default=True, help="Timed runs of each side.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(size: int, repeats: int, as_json: bool) -> None:
    """Measure MSE, PSNR, SSIM and alignment on SIZE x SIZE RGB images."""
    reference, edit, region = pictures(size)
    rows = [compare(names, *calls, repeats) for names, calls in contests(reference, edit, region).items()]
    alone = {
        "align": lambda: float(align(edit, reference).inliers),
        "align + masked mse": lambda: mse(reference, align(edit, reference).image, region),
    }
    alone_ms = {
        name: statistics.median(time_call(call)[0] for _ in range(min(repeats, 3))) for name, call in alone.items()
    }
    setting = {
        "size": size,
        "repeats": repeats,
        "opencv": cv2.__version__,
        "opencv_threads": cv2.getNumThreads(),
        "scikit_image": skimage.__version__,
        "machine": platform.machine(),
    }
    if as_json:
        results = [asdict(row) | {"ratio": row.ratio} for row in rows]
        click.echo(json.dumps({"setting": setting, "rows": results, "alone_ms": alone_ms}))
        return
    table = Table("metric", "region", "editjudge", "scikit-image", "ratio", "largest difference")
    for row in rows:
        table.add_row(
            row.metric,
            row.region,
            f"{row.ours_ms:.2f} ms",
            f"{row.peer_ms:.2f} ms",
            f"{row.ratio:.1f}x",
            f"{row.difference:.1e}",
        )
    for name, milliseconds in alone_ms.items():
        table.add_row(name, "", f"{milliseconds:.0f} ms", "", "", "")
    console = Console()
    console.print(table)
    console.print(", ".join(f"{key} {value}" for key, value in setting.items()), highlight=False)


if __name__ == "__main__":
    main()
