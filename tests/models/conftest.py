from __future__ import annotations

from collections.abc import Iterator

import pytest

from editjudge_services.zoo.export import export, make_untrained
from editjudge_services.zoo.manifest import find_entry


@pytest.fixture(scope="module", autouse=True)
def _zoo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Untrained checkpoints of the `ENTRIES` of a module, exported as the zoo does it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDITJUDGE_MODELS_DIR", str(tmp_path_factory.mktemp("models")))
        for entry in getattr(request.module, "ENTRIES", ()):
            make_untrained(find_entry(entry))
            export(find_entry(entry), "fp32")
        yield
