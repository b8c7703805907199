"""The glossary of batches names what is there."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import attrs
import pytest

import batchqueue
import fairqueue
from batchqueue.record import BatchRecord
from fairqueue.views.groups import Groups

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "glossary-batches.md").read_text("utf-8")
LINES = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("| ported name", "| ---"))]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES]
OURS = sorted({name for row in ROWS for cell in row[1:] for name in re.findall(r"`([^`]+)`", cell)})
INSIDE = {"BatchRecord": BatchRecord, "Groups": Groups}


def resolve(path):
    """The thing that a dotted name of the glossary means."""
    first, _, rest = path.partition(".")
    if first == "batchqueue":
        module, _, name = path.rpartition(".")
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError:
            return getattr(importlib.import_module(module), name)
    thing = INSIDE.get(first) or getattr(batchqueue, first, None) or getattr(fairqueue, first)
    if not rest:
        return thing
    if attrs.has(thing) and rest in attrs.fields_dict(thing):
        return attrs.fields_dict(thing)[rest]
    return getattr(thing, rest)


@pytest.mark.parametrize("name", OURS)
def test_our_names_are_there(name):
    """Every name of ours exists, with the parameters that it is shown with."""
    path, _, parameters = name.rstrip(")").partition("(")
    thing = resolve(path)
    if parameters:
        assert set(parameters.split(", ")) <= inspect.signature(thing).parameters.keys()


def test_the_table_was_read():
    """All rows, and nothing that only looks like a name."""
    assert {len(row) for row in ROWS} == {3}
    assert len(ROWS) > 40
    assert len(OURS) > 60
    with pytest.raises(AttributeError):
        resolve("BatchProgress.nothing")
