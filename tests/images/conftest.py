"""The environments of the images, each made once; what is another one here is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .layers import Layer

TOLD: dict[str, str] = {}
"""What the tests say at the end, by what it is about."""
IMAGES = {
    "judge": ("judge", ""),
    "fetch": ("fetch", ""),
    "triton": ("triton", "cpu"),
    "triton_torch": ("triton", "torch-cpu"),
}


@pytest.fixture(scope="session")
def layers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Layer]:
    """All that are asked for by name, made side by side."""
    named = {name for item in request.session.items for name in item.fixturenames}
    with ThreadPoolExecutor(2) as threads:
        futures = {
            name: threads.submit(Layer, image, tmp_path_factory.mktemp(name), variant)
            for name, (image, variant) in IMAGES.items()
            if name in named
        }
    return {name: future.result() for name, future in futures.items()}


@pytest.fixture(scope="session")
def judge(layers: dict[str, Layer]) -> Layer:
    return layers["judge"]


@pytest.fixture(scope="session")
def fetch(layers: dict[str, Layer]) -> Layer:
    return layers["fetch"]


@pytest.fixture(scope="session")
def triton(layers: dict[str, Layer]) -> Layer:
    return layers["triton"]


@pytest.fixture(scope="session")
def triton_torch(layers: dict[str, Layer]) -> Layer:
    return layers["triton_torch"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, told in TOLD.items():
        terminalreporter.write_line(f"{what}: {told}", bold=True)
