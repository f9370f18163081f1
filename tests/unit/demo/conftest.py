import pytest

from editjudge.demo import DemoEdit, demo_set


@pytest.fixture(scope="session")
def edits() -> dict[str, DemoEdit]:
    """The demo set by id."""
    pytest.importorskip("skimage", reason="needs the extra `demo`")
    return {edit.id: edit for edit in demo_set()}
