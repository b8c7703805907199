"""What is shipped."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import fairqueue

ROOT = Path(__file__).resolve().parent.parent


def test_the_wheel_holds_scripts_and_types(tmp_path):
    """Every .lua file and both py.typed are in the wheel, and nothing of the tests."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, timeout=100)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    scripts = {f"fairqueue/lua/{path.name}" for path in (ROOT / "fairqueue/lua").glob("*.lua")}
    assert scripts
    assert scripts | {"fairqueue/py.typed", "batchqueue/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests", "scripts"))]


def test_the_version_is_told_once():
    """The package, its metadata and pyproject.toml say the same."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert fairqueue.__version__ == version("fairqueue") == stated


def test_public_names_are_sorted_and_there():
    """`__all__` is what a star import gives."""
    assert fairqueue.__all__ == sorted(fairqueue.__all__)
    assert all(hasattr(fairqueue, name) for name in fairqueue.__all__)


def test_importing_starts_nothing():
    """No thread, no socket, no server at import."""
    code = "import threading, fairqueue, batchqueue; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
