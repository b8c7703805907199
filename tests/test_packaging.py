"""What is shipped."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import batchqueue
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
    packages = ("fairqueue", "batchqueue")
    scripts = {f"{name}/lua/{path.name}" for name in packages for path in (ROOT / name / "lua").glob("*.lua")}
    assert len(scripts) > 30
    assert scripts | {"fairqueue/py.typed", "batchqueue/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests", "scripts"))]


def test_the_version_is_told_once():
    """The package, its metadata and pyproject.toml say the same."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert fairqueue.__version__ == version("fairqueue") == stated


@pytest.mark.parametrize("package", [fairqueue, batchqueue])
def test_public_names_are_sorted_and_there(package):
    """`__all__` is what a star import gives."""
    assert package.__all__ == sorted(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)


def test_importing_starts_nothing():
    """No thread, no socket, no server at import."""
    code = "import threading, fairqueue, batchqueue; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
