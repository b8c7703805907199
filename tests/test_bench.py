"""The benchmark runs and says what it measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench.py"


def test_a_small_run():
    """Every workload gives figures; nothing was lost or doubled, or the exit code would say so."""
    command = [sys.executable, str(SCRIPT), "--messages", "400", "--rounds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert len(figures) == 6
    assert all(len(rows) == 1 for rows in figures.values())
    assert figures["enqueue in bulk"][0]["commands"] < 5
