"""Random weights are the same wherever and whenever they are made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from editjudge_services.zoo.checkpoint import hash_files
from editjudge_services.zoo.manifest import load_manifest, load_recipe

# The huge SAM is, untrained, the base one's network.
ENTRIES = [name for name, entry in load_manifest().items() if entry.recipe and "huge" not in name]


@pytest.mark.parametrize("entry", ENTRIES)
def test_weights_do_not_depend_on_what_was_drawn_before(entry: str, tmp_path: Path) -> None:
    made = []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            folder = tmp_path / str(seed)
            folder.mkdir()
            load_recipe(load_manifest()[entry]).make_untrained(folder)
            made.append(hash_files(folder))
            assert torch.equal(torch.get_rng_state(), before), "drew from the caller's numbers"
    assert made[0] == made[1]
