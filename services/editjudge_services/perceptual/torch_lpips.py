"""LPIPS in plain torch without torchvision, for the export and as its reference.

Equal bit for bit to the official package `lpips` 0.1.4 on the same trunk (tested). The trunks
are torchvision's VGG16 and AlexNet, whose keys `features.*` the layers here have too.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from editjudge.base.errors import MissingExtra

Net: TypeAlias = Literal["vgg", "alex"]


_STAGES: Mapping[Net, tuple[tuple[int, int, tuple[int, ...]], ...]] = {
    "vgg": (
        (0, 3, (64, 64)),
        (2, 3, (128, 128)),
        (2, 3, (256, 256, 256)),
        (2, 3, (512, 512, 512)),
        (2, 3, (512, 512, 512)),
    ),
    "alex": ((0, 11, (64,)), (3, 5, (192,)), (3, 3, (384,)), (0, 3, (256,)), (0, 3, (256,))),
}
"""The stages of each trunk, whose outputs LPIPS compares: the size of the pooling before the stage
(0 for none), the size of its kernels, and the channels of its convolutions."""


class Lpips(nn.Module):
    """LPIPS v0.1 (Zhang et al. 2018, arXiv:1801.03924, equation 1).

    Args:
        net: The trunk; its weights are random until `features` is loaded.
        heads: The linear heads, (1, C, 1, 1) each, by tap.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, net: Net, heads: list[Tensor]) -> None:
        super().__init__()
        self.features, self.taps = make_trunk(net)
        self.heads = nn.ParameterList([nn.Parameter(one, requires_grad=False) for one in heads])
        self.register_buffer("shift", torch.tensor([-0.030, -0.088, -0.188]).view(1, 3, 1, 1))
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.450]).view(1, 3, 1, 1))

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the distance of pairs of images.

        Args:
            a: RGB in [-1, 1], (B, 3, H, W).
            b: The other images, of the same shape.

        Returns:
            Distance, (B,), 0 or more, lower is more alike; and its map (B, 1, H, W), each tap
            enlarged to the image's size as the package does with
            `spatial=True`: its mean is close to the distance, not equal.
        """
        distance: Tensor | int = 0
        where: Tensor | int = 0
        for layer in self.layers_of(self.taps_of(a), self.taps_of(b)):
            distance = distance + layer.mean((2, 3)).flatten()
            where = where + nn.functional.interpolate(layer, size=a.shape[2:], mode="bilinear", align_corners=False)
        return torch.as_tensor(distance), torch.as_tensor(where)

    def taps_of(self, images: Tensor) -> list[Tensor]:
        """Compute the taps of images (B, 3, H, W), of length 1 at every position."""
        x = (images - self.shift) / self.scale
        taps = []
        for index, layer in enumerate(self.features):
            x = layer(x)
            if index in self.taps:
                taps.append(x / (_squares(x).sqrt() + 1e-10))
        return taps

    def layers_of(self, taps_a: Sequence[Tensor], taps_b: Sequence[Tensor]) -> list[Tensor]:
        """Compute the weighted difference (B, 1, h, w) of each pair of taps."""
        both = zip(taps_a, taps_b, self.heads, strict=True)
        return [_weighted_sum((a - b).square(), head) for a, b, head in both]


class Trunk(nn.Module):
    """The first exported graph: images to taps."""

    def __init__(self, model: Lpips) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Compute the taps of images (B, 3, H, W) in [-1, 1]."""
        return tuple(self.model.taps_of(images))


class Heads(nn.Module):
    """The second exported graph: taps of both images to the weighted difference at each."""

    def __init__(self, model: Lpips) -> None:
        super().__init__()
        self.model = model

    def forward(self, *taps: Tensor) -> tuple[Tensor, ...]:
        """Compute the five differences (B, 1, h, w).

        Args:
            taps: Taps of the first image, then of the second.
        """
        count = len(taps) // 2
        return tuple(self.model.layers_of(taps[:count], taps[count:]))


def _squares(x: Tensor) -> Tensor:
    """Sum squares over channels, (B, C, H, W) to (B, 1, H, W).

    The export multiplies with ones, which ONNX Runtime does twice as fast as a sum.
    """
    if torch.onnx.is_in_onnx_export():
        return _weighted_sum(x.square(), torch.ones(1, x.shape[1], 1, 1))
    return x.square().sum(1, keepdim=True)


def _weighted_sum(x: Tensor, weights: Tensor) -> Tensor:
    """Sum over channels with weights (1, C, 1, 1), (B, C, H, W) to (B, 1, H, W).

    The export multiplies matrices, which is faster than a convolution to one channel.
    """
    if torch.onnx.is_in_onnx_export():
        rows = weights.flatten(1) @ x.flatten(2)
        return rows.reshape(x.shape[0], 1, x.shape[2], x.shape[3])
    return nn.functional.conv2d(x, weights)


def make_trunk(net: Net) -> tuple[nn.Sequential, frozenset[int]]:
    """Make the layers of a trunk, numbered as torchvision's `features`, and the indices of taps."""
    layers: list[nn.Module] = []
    taps = []
    before = 3
    for pool, kernel, channels in _STAGES[net]:
        if pool:
            layers.append(nn.MaxPool2d(pool, 2))
        # AlexNet's first layer has a padding of 2 and a stride of 4; all others keep the size.
        padding, stride = (2, 4) if kernel == 11 else (kernel // 2, 1)
        for after in channels:
            layers += [nn.Conv2d(before, after, kernel, stride, padding), nn.ReLU()]
            before = after
        taps.append(len(layers) - 1)
    return nn.Sequential(*layers), frozenset(taps)


def load_published_heads(net: Net) -> list[Tensor]:
    """Load the official linear heads v0.1, which come with the package `lpips`.

    They are read as a file, since importing the package would import torchvision.

    Raises:
        MissingExtra: the package is not installed.
    """
    try:
        path = Path(str(distribution("lpips").locate_file(f"lpips/weights/v0.1/{net}.pth")))
    except PackageNotFoundError as error:
        raise MissingExtra("the linear heads of LPIPS", "export") from error
    heads = torch.load(path, map_location="cpu", weights_only=True)
    return [heads[f"lin{index}.model.1.weight"] for index in range(5)]
