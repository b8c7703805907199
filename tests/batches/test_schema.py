"""Scripts and keys of batchqueue tell the truth about themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchqueue import keys
from batchqueue.keys import batch_key, batch_of, is_callback, split_batch_key
from fairqueue.keys import message_key
from fairqueue.scripts import PIECES, load, read

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "batchqueue/lua").glob("*.lua") if not path.stem.startswith("_"))
SWAP = (*PIECES, ("on_end", "batchqueue/batch"))
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize("name", NAMES)
def test_headers_tell_the_truth(name):
    """Every script says what it does, takes and gives, and each argument is used."""
    text, script = read(f"batchqueue/{name}"), load(f"batchqueue/{name}", SWAP)
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    assert text.startswith(f"-- {name}: ")
    assert script.args[:2] == ("now", "options")
    for arg in script.args[2:]:
        assert re.search(rf"\b{arg}\b", code), f"{arg} is not used"
    assert ("-- rest" in text) == bool(re.search(r"\brest\b", code))
    assert "-- gives" in text
    if "finish(now)" in text:
        assert ("-- frees" in text) != ("-- grows" in text)


def test_scripts_use_no_other_keys():
    """Every key is in the schema, and every key of the schema is used."""
    listed = set(re.findall(r"^\{ns:shard\}:(\w+)", keys.__doc__, re.MULTILINE))
    used = set()
    for path in (ROOT / "batchqueue/lua").glob("*.lua"):
        text = path.read_text("utf-8")
        used |= set(re.findall(r"root \.\. ':(\w+)", text)) | set(re.findall(r"Batch\.key\('(\w+)'", text))
        used |= set(re.findall(r"Bits\.of\('(\w+)'", text))
    assert used == listed


@given(st.tuples(ids, ids), st.tuples(ids, ids))
def test_batch_keys_are_injective(one, other):
    """Different names give different keys, and a key gives its name back."""
    assert (batch_key(*one) == batch_key(*other)) == (one == other)
    assert split_batch_key(batch_key(*one)) == one


@given(ids, ids)
def test_no_batch_is_taken_for_a_callback(tenant, batch):
    """The queue of callbacks is one that no id names."""
    assert not is_callback(message_key(tenant, batch, "0"))
    assert batch_of(message_key(tenant, batch, "0")) == (tenant, batch)
    assert is_callback(f"t/{keys.CALLBACKS}/b")
