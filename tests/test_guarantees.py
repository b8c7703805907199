"""The pages of guarantees and of server conditions name tests that are there, and forget nothing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conditions import CONDITIONS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
ROWS = {
    cells[0]: cells[1:]
    for cells in (line.strip("| ").split(" | ") for line in re.findall(r"^\| [IF]\d.*$", PAGE, re.MULTILINE))
}
CONDITIONS_PAGE = (ROOT / "docs" / "server-conditions.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[^`]+::[^`]+)`", PAGE + CONDITIONS_PAGE)))


@cache
def functions(path):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", NAMED)
def test_every_test_named_is_there(name):
    """By path and name."""
    path, _, function = name.partition("::")
    assert (ROOT / path).is_file()
    assert function in functions(path)


def test_every_condition_has_its_row():
    """In the order in which they are run or any other, each once."""
    assert sorted(re.findall(r"^\| `(\w+)`:", CONDITIONS_PAGE, re.MULTILINE)) == sorted(CONDITIONS)


def test_every_promise_and_fault_has_its_row():
    """I1 to I13, F01 to F69, F86 to F96, each once."""
    expected = [f"I{n}" for n in range(1, 14)] + [f"F{n:02}" for n in (*range(1, 70), *range(86, 97))]
    assert re.findall(r"^\| ([IF]\d+) \|", PAGE, re.MULTILINE) == expected


def test_what_is_said_to_be_tested_names_a_test():
    """And what is neither tested nor impossible says that it is open."""
    for name, (*_, here, shown) in ((n, ["", *cells]) for n, cells in ROWS.items() if n.startswith("F")):
        assert re.match(r"(tested|partly|documented|cannot happen|open)\b", here), name
        if re.match(r"tested|partly|documented", here):
            assert "`tests/" in shown, name
        assert "`" in shown or re.match("open|cannot happen yet", here), name
