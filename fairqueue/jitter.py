"""Jitter: chance that spreads load. A source of its own: the caller's ``random`` keeps its sequence."""

from __future__ import annotations

import os
import random

JITTER = random.Random()  # noqa: S311 - spreads load, hides nothing
os.register_at_fork(after_in_child=JITTER.seed)
