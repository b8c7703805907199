"""The glossary names only what is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import fairqueue

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "glossary.md").read_text("utf-8")
TERMS, _, NAMES = PAGE.partition("## Names of the design we port")
NAMES = NAMES.partition("### BatchQueue")[0]  # those of batches are checked with batches


def rows(text):
    """Cells of the rows of all tables of a text, without their heads."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:2] == "| "]
    return [row for row in cells if not row[0].startswith("---") and row[0] not in {"term", "ported"}]


OWNERS = sorted({name for row in rows(TERMS) for name in re.findall(r"`([^`]+)`", row[-1])})


def named(cell):
    """Our names in a cell, without those that are planned or dropped."""
    parts = re.split(r"(?:^|[;:,.] |\()(?=planned: |dropped: )", cell)
    ours = [parts[0], *(p.partition("; ")[2] for p in parts[1:] if p.startswith(("planned: ", "dropped: ")))]
    return [name for part in ours for name in re.findall(r"`([^`]+)`", part)]


OURS = sorted({name for row in rows(NAMES) for name in named(row[-1]) if name != "receive()"})


class Unknown(Exception):
    """A name that leads nowhere."""


def step(thing, name):
    """An attribute, a field, or a module of a package."""
    if name in getattr(thing, "__annotations__", {}) or hasattr(thing, name):
        return getattr(thing, name, None)
    if not inspect.ismodule(thing):
        raise Unknown(name)
    try:
        return importlib.import_module(f"{thing.__name__}.{name}")
    except ModuleNotFoundError:
        raise Unknown(name) from None


def agree(parameters, arguments):
    """Every name is a parameter; where a default is given, it is that."""
    for argument in filter(None, arguments.split(", ")):
        name, given, default = argument.partition("=")
        if name not in parameters:
            raise Unknown(f"parameter {name}")
        if given and parameters[name].default != ast.literal_eval(default):
            raise Unknown(f"parameter {name}: its default is {parameters[name].default!r}")


def resolve(expression, delivery, q):
    """What a name stands for; with parentheses, its parameters and defaults must be as they say."""
    path, call, arguments = expression.partition("(")
    first, *rest = path.split(".")
    if first == "q":
        thing = q
    elif first == "Delivery" and rest:
        thing = delivery
    elif first == "fairqueue":
        thing = fairqueue
    else:
        thing = getattr(fairqueue, first, None)
    if thing is None:
        raise Unknown(expression)
    for name in rest:
        thing = step(thing, name)
    if call:
        agree(inspect.signature(thing).parameters, arguments.removesuffix(")"))
    return thing


@pytest.fixture
def things(make_queue):
    """A delivery and its queue."""
    q = make_queue()
    q.enqueue(1, tenant_id="t")
    return q.receive()[0], q


def test_every_name_of_ours_exists(things):
    """Classes, options, methods, their parameters and defaults: found by looking, not by trust."""
    wrong = []
    for name in OURS:
        try:
            resolve(name, *things)
        except Unknown as error:
            wrong.append(f"{name}: {error}")
    assert wrong == []
    assert len(OURS) > 90


@pytest.mark.parametrize(
    "wrong",
    [
        "FairQueueOptions.no_such_option",
        "FairQueueOptions(visibility_timeout=31)",
        "FairQueueOptions(no_such=1)",
        "q.queues.size(tenant_id)",
        "q.queues.length(queue)",
        "Delivery.nack()",
        "NoSuchClass",
        "fairqueue.nowhere.Thing",
    ],
)
def test_a_wrong_name_is_noticed(things, wrong):
    """The check above can fail."""
    with pytest.raises(Unknown):
        resolve(wrong, *things)


@pytest.mark.parametrize("owner", OWNERS)
def test_every_owner_exists(owner):
    """The module that a term belongs to is a module, or a Lua file."""
    if owner.endswith(".lua"):
        assert (ROOT / "fairqueue" / owner).is_file()
    else:
        importlib.import_module(owner)


def test_every_row_says_what_became_of_it():
    """A name of ours, a plan, or a reason."""
    for ported, *_, ours in rows(NAMES):
        assert named(ours) or re.search(r"(planned|dropped): \S", ours), ported
