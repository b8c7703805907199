"""Scripts: the header is the signature."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from fairqueue.scripts import Scripts, load, read

FILES = sorted(
    path.name.removesuffix(".lua")
    for path in (resources.files("fairqueue") / "lua").iterdir()
    if path.name.endswith(".lua")
)
NAMES = [name for name in FILES if not name.startswith("_")]
SWAP = (("policy", "policy_fair"),)


@pytest.mark.parametrize("name", NAMES)
def test_headers_tell_the_truth(name):
    """Every script says what it does, takes and gives; each argument is used, and `rest` only where it is declared."""
    text = read(name)
    assert text.startswith(f"-- {name}: ")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    script = load(name, SWAP)
    assert script.args[:2] == ("now", "options")
    for arg in script.args[2:]:
        assert re.search(rf"\b{arg}\b", code), f"{arg} is not used"
    assert ("-- rest" in text) == bool(re.search(r"\brest\b", code))
    assert "-- gives" in text


def test_every_piece_is_used():
    """No piece is left over, and every one that is named exists."""
    used = {piece for name in NAMES for piece in re.search(r"^-- uses +(.*)$", read(name), re.MULTILINE)[1].split()}
    used = {dict(SWAP).get(piece, piece) for piece in used}
    assert used == {name.removeprefix("_") for name in FILES if name.startswith("_")}


@pytest.mark.parametrize("name", NAMES)
def test_writers_say_what_a_full_server_does(name):
    """Each script that commits either frees or grows; those that free begin with a write that lifts the check."""
    text, script = read(name), load(name, SWAP)
    if "finish(now)" in text or "Draft.commit()" in text:
        assert ("-- frees" in text) != ("-- grows" in text) or name == "set_limit"
    assert ("-- frees" in text) == script.text.startswith("redis.call('DEL'")


def test_missing_and_unknown_arguments_are_refused():
    """Before the server is asked."""
    scripts = Scripts(None, lambda: None, b"", SWAP)
    with pytest.raises(TypeError, match="limit"):
        scripts.call("expired", "{x:0}")
    with pytest.raises(TypeError, match="wrong"):
        scripts.call("expired", "{x:0}", limit=1, wrong=2)


def test_no_script_is_built_from_data():
    """Scripts are constants: nothing in the package formats Lua."""
    for path in (resources.files("fairqueue")).iterdir():
        if path.name.endswith(".py") and path.name != "scripts.py":
            assert "redis.call" not in path.read_text(encoding="utf-8"), path.name
