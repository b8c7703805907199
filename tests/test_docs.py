"""What README and docs show is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{n}")
    for page in PAGES
    for n, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_run(block):
    """Each Python block runs by itself, in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_commands_are_targets():
    """Every make target that a page names in code exists."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set()
    for page in PAGES:
        for line in re.findall(r"^make .*$|`make [^`]*`", page.read_text("utf-8"), re.MULTILINE):
            named |= set(line.partition("#")[0].strip("` ").split()[1:])
    assert {"demo", "test"} <= named <= targets


def test_links_lead_somewhere():
    """Every relative link in a page is a file."""
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
