"""At home in frameworks: each package is an extra, and none is imported by the core."""

from __future__ import annotations
