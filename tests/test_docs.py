"""What README and docs show is run."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import fairqueue

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


def shell(page):
    """The shell blocks of a page, as one script."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES if shell(page)])
def test_commands_run(page, own_server, tmp_path):
    """The shell blocks of a page run one after the other, beside its Python blocks that begin with a file's name."""
    files = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for name, block in files:
        (tmp_path / name).write_text(block)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    where = {"PATH": path, "PYTHONWARNINGS": "error", "BATCHQUEUE_URL": own_server.url}
    child = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", shell(page)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=os.environ | where,
        start_new_session=True,
    )
    try:
        out, _ = child.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # what the page started in the background
    assert child.returncode == 0, out
    assert "Traceback" not in out


def test_commands_are_targets():
    """Every make target that a page names in code exists."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set()
    for page in PAGES:
        for line in re.findall(r"^make .*$|`make [^`]*`", page.read_text("utf-8"), re.MULTILINE):
            named |= set(line.partition("#")[0].strip("` ").split()[1:])
    assert {"demo", "demo-batch", "test"} <= named <= targets


def test_the_demo_runs(tmp_path):
    """What `make demo` runs, on a part of its input: both runs, the table, every message once."""
    lines = (ROOT / "examples" / "flights.ndjson").read_text("utf-8").splitlines()[:80]
    (tmp_path / "some.ndjson").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "noisy_neighbour.py"), "--flights", str(tmp_path / "some.ndjson")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "handled exactly once in both runs" in " ".join(done.stdout.split())


def test_the_path_of_a_message_names_what_is_there():
    """Every step's classes, methods and scripts exist."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(fairqueue.__path__, "fairqueue.")
        if found.name != "fairqueue.pytest_plugin"
    ]
    classes = {name: value for module in modules for name, value in vars(module).items() if isinstance(value, type)}
    table = re.findall(
        r"^\| (?!step|---)(.*) \|$", (ROOT / "docs" / "path-of-a-message.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(table) > 8
    for row in table:
        _, python, scripts, _ = row.split(" | ")
        for owner, methods in re.findall(r"`(\w+)\.([\w/]+)`", python):
            for method in methods.split("/"):
                assert hasattr(classes[owner], method), f"{owner}.{method}"
        for script in re.findall(r"`(\w+)`", scripts):
            assert (ROOT / "fairqueue" / "lua" / f"{script}.lua").is_file(), script


def test_links_lead_somewhere():
    """Every relative link in a page is a file."""
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
