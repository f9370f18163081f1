"""Attacks on what comes from outside; `make attack` tries them all, tests a few of each."""

from __future__ import annotations

from .judges import JUDGES
from .kills import KILLS
from .pictures import BOMB, PICTURES
from .replies import REPLIES
from .stale import STALE
from .stores import STORES
from .tritons import TRITONS

ATTACKS = {attack.name: attack for attack in (PICTURES, BOMB, REPLIES, JUDGES, TRITONS, STORES, STALE, KILLS)}
