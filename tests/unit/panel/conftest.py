from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the loop that their module names."""
    return {"loop": getattr(item.module, "LOOP", asyncio.new_event_loop)}  # type: ignore[attr-defined]
