"""Policies that decide whose message is next, as values; each names the Lua piece that carries it out."""

from __future__ import annotations

from typing import ClassVar

import attrs


@attrs.frozen
class Fair:
    """Equal turns by weight: self-clocked fair queueing with an express lane (docs/fairness)."""

    policy: ClassVar[str] = "fair"
