"""Loads the Lua scripts: the header of a file is its signature.

``-- args`` names the arguments, in order, as locals; ``-- rest`` says that more follow (from ARGV[rest]);
``-- uses`` names the pieces (``_name.lua``) put before it; ``-- frees`` lets it run on a full server;
``-- keyless`` says that it touches no key.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from hashlib import sha1
from importlib import resources
from typing import TYPE_CHECKING, Any

import attrs

from fairqueue import failpoints
from fairqueue.connection import Argument, NoScript
from fairqueue.errors import FairQueueError, OutcomeUnknown, StoreError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairqueue.connection import Connection

_HEADER = re.compile(r"^-- (args|rest|gives|frees|grows|keyless|uses)\s+(.*)$", re.MULTILINE)
#: What stands for the pieces that scripts name by their part.
PIECES = (("policy", "policy_fair"),)
_COMMAND = re.compile(r"(?:redis[._]call\(|home\(|leave\(|send\(|command = \{)'([a-zA-Z_]{3,})'")
# A script begins with a key that is never there. While its slot moves between two nodes of a cluster some keys
# of a shard are here and some there: asked for this one, either node refuses the script before it did anything.
_ALL_HERE = "redis.call('EXISTS', KEYS[1] .. ':nothing')\n"
# A first write that frees (here: nothing) also lifts the server's memory check for the rest of a script.
_RUN_WHEN_FULL = "redis.call('DEL', KEYS[1] .. ':nothing')\n"


@attrs.frozen
class Script:
    """One script, ready to send."""

    name: str
    args: tuple[str, ...]
    text: str
    sha: str
    again: int | None  # place of the argument that says "sent again"


def read(name: str, prefix: str = "") -> str:
    """The text of one ``.lua`` file of fairqueue, or of the package named before a slash."""
    package, _, stem = name.rpartition("/")
    return (resources.files(package or "fairqueue") / "lua" / f"{prefix}{stem}.lua").read_text(encoding="utf-8")


def _block(piece: str) -> str:
    """A piece in a block of its own: Lua finds a captured local by walking over all that are in scope."""
    text = read(piece, "_")
    return text if piece == "shard" or "/" in piece else f"do\n{text}end\n"


@cache
def load(name: str, swap: tuple[tuple[str, str], ...] = ()) -> Script:
    """Assemble a script; *swap* puts other pieces in the place of named ones (``("policy", "policy_drr")``)."""
    body = read(name)
    header = {kind: text.strip() for kind, text in _HEADER.findall(body)}
    args = tuple(header.get("args", "").split())
    places = dict(swap)
    pieces = [_block(places.get(piece, piece)) for piece in header.get("uses", "").split()]
    prelude = f"local {', '.join(args)} = {', '.join(f'ARGV[{i + 1}]' for i in range(len(args)))}\n"
    if "rest" in header:
        prelude += f"local rest = {len(args) + 1}\n"
    begins = "" if "keyless" in header else _RUN_WHEN_FULL if "frees" in header else _ALL_HERE
    text = begins + prelude + "\n".join([*pieces, body])
    digest = sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, args, text, digest, args.index("again") if "again" in args else None)


@cache
def commands(packages: tuple[str, ...]) -> frozenset[str]:
    """Every command that the scripts of some packages may run, in capitals."""
    files = [path for package in packages for path in (resources.files(package) / "lua").iterdir()]
    texts = [path.read_text(encoding="utf-8") for path in files if path.name.endswith(".lua")]
    return frozenset(word.upper() for text in texts for word in _COMMAND.findall(text))


@attrs.frozen
class Scripts:
    """Calls scripts by name and keyword on one connection."""

    connection: Connection
    now_ms: Callable[[], int | None]
    options: bytes
    swap: tuple[tuple[str, str], ...] = PIECES

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages whose scripts may run here."""
        return tuple(sorted({"fairqueue", *(piece.rpartition("/")[0] or "fairqueue" for _, piece in self.swap)}))

    def call(
        self, name: str, root: str, rest: Sequence[Argument] = (), *, repeatable: bool = True, **args: Argument
    ) -> Any:
        """Run the script *name* on the shard whose root key is *root*.

        Raises:
            TypeError: an argument is missing or unknown.
            Unavailable, OutcomeUnknown: see `Connection.call`.
            StoreError: the script failed; its text names the script and, where they can be told, the keys.
        """
        script = load(name, self.swap)
        now = self.now_ms()
        args.update(now="" if now is None else now, options=self.options)
        if script.again is not None:
            args.setdefault("again", "0")
        try:
            values = [args.pop(arg) for arg in script.args]
        except KeyError as missing:
            msg = f"{name}: argument {missing} is missing"
            raise TypeError(msg) from None
        if args.keys() - {"options"}:
            msg = f"{name}: unknown arguments {sorted(args)}"
            raise TypeError(msg)
        command: list[Argument] = ["EVALSHA", script.sha, 1, root, *values, *rest]

        def build(again: bool) -> list[Argument]:  # noqa: FBT001 - callback of Connection.call
            if again and script.again is not None:
                command[4 + script.again] = "1"
            return command

        if failpoints.reached is not None:
            failpoints.reached(f"{name.rpartition('/')[2]}:before")
        try:
            reply = self._loaded(script, root, build, repeatable=repeatable)
        except StoreError as error:
            raise self._named(script, root, error) from None
        if failpoints.reached is not None:
            failpoints.reached(f"{name.rpartition('/')[2]}:after")
        return reply

    def _loaded(self, script: Script, root: str, build: Callable[[bool], list[Argument]], *, repeatable: bool) -> Any:
        with suppress(NoScript):
            return self.connection.call(root, build, repeatable=repeatable)
        try:
            self.connection.call(root, lambda _: ("SCRIPT", "LOAD", script.text), repeatable=True)
        except OutcomeUnknown as error:  # of the loading, not of the call
            raise Unavailable(f"script {script.name!r} could not be loaded, nothing was done: {error}") from error
        with suppress(NoScript):
            return self.connection.call(root, build, repeatable=repeatable)
        # forgotten again already: sent whole

        def whole(again: bool) -> Sequence[Argument]:  # noqa: FBT001 - callback of Connection.call
            return ["EVAL", script.text, *build(again)[2:]]

        return self.connection.call(root, whole, repeatable=repeatable)

    def _named(self, script: Script, root: str, error: StoreError) -> StoreError:
        """The error with the script's name and the keys that are not what they should be."""
        text, keys = f"script {script.name!r} on {root!r} failed: {error}", (root,)
        if error.code == "WRONGTYPE" and script.name != "wrong_types":
            try:
                reply = [part.decode() for part in self.call("wrong_types", root, limit=500)]
            except FairQueueError:
                reply = []
            if reply:
                keys = tuple(reply[::3])
                found = ", ".join(
                    f"{reply[i]!r} is a {reply[i + 1]}, not a {reply[i + 2]}" for i in range(0, len(reply), 3)
                )
                text = f"script {script.name!r} failed: WRONGTYPE: {found}: another program wrote there"
        return StoreError(text, code=error.code, script=script.name, keys=keys)
