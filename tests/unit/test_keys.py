"""Keys: one schema, told the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import batchqueue.keys
from fairqueue import keys
from fairqueue.keys import Keys, group_key, message_key, split_message_key, stream_name
from fairqueue.scripts import read

ROOT = Path(__file__).resolve().parents[2]
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def test_the_schema_page_is_the_docstring():
    """docs/redis-schema.md lists exactly the keys of the two modules."""
    told = f"{keys.__doc__}\n{batchqueue.keys.__doc__}"
    listed = re.findall(r"^(\{ns:shard\}\S*) +(\w+) +(.+)$", told, re.MULTILINE)
    page = re.findall(
        r"^\| `(\S+)` \| (\w+) \| (.+) \|$", (ROOT / "docs/redis-schema.md").read_text("utf-8"), re.MULTILINE
    )
    assert page == listed


def test_scripts_use_no_other_keys():
    """Every key a script derives from its root is in the schema."""
    listed = set(re.findall(r"^\{ns:shard\}:(\w+)", keys.__doc__, re.MULTILINE))
    for path in (ROOT / "fairqueue/lua").glob("*.lua"):
        assert set(re.findall(r"root \.\. ':(\w+)", read(path.stem))) <= listed, path.name


@given(st.tuples(ids, ids, ids), st.tuples(ids, ids, ids))
def test_message_keys_are_injective(one, other):
    """Different ids give different keys, and a key gives its ids back."""
    assert (message_key(*one) == message_key(*other)) == (one == other)
    assert split_message_key(message_key(*one)) == one


@given(st.lists(ids, min_size=1, max_size=3).map(tuple), st.lists(ids, min_size=1, max_size=3).map(tuple))
def test_group_keys_are_injective(one, other):
    """A tuple of ids never equals another, nor a joined str."""
    assert (group_key("g", one) == group_key("g", other)) == (one == other)
    assert "/" not in group_key("g", one)


def test_names():
    """The shapes a reader meets in a server."""
    assert Keys("mail").root(3) == "{mail:3}"
    assert (
        Keys("mail").stream(3, stream_name("a b", "q", "default", 0, ["t=a%20b"]))
        == "{mail:3}:stream:a%20b/q/default/0/t=a%20b"
    )
    assert Keys("mail").channel("x") == "mail:wake:x"
