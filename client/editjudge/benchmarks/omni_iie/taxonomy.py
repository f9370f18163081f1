"""Lists of the data, semantic scales, rounds of dialogues and regions (sections 3 and 4)."""

from collections.abc import Mapping
from typing import Any

from ...base.parse import package_tables

TABLES: Mapping[str, Any] = package_tables(__package__, "tables.toml")
SINGLE, MULTI = "final_dataset.json", "final_multi_dataset_cleaned.json"
LONG = "long_multi_compiled_modifications_with_masks.json"
"""The dialogues as an earlier release had them, in the place of `MULTI`."""
LISTS = {SINGLE: 1725, MULTI: 1131, LONG: 1226}
"""Entries of each list (section 3.3.1; of the last one as it was released)."""
MOST_PAIRS = 3
"""Of question and answer to an edit (section 5.1)."""

SCALES = ("low", "high")
ROUNDS = 16
"""The longest dialogue has as many (section 1)."""
TURNS = {"low_to_high": "low to high", "high_to_low": "high to low", "same_scale": "same scale"}
"""From the scale of one round to that of the next, with their titles (section 3.3.2)."""

REGIONS = ("foreground", "background", "whole")
