"""``batchqueue add``: the lines of an NDJSON file become the items of a batch.

An item's index is its line's place among the lines that are not blank. A line that cannot go in keeps its index, so
the same file gives the same indexes each time, and a run that was cut off is ended by running it again.
"""

from __future__ import annotations

import os
import stat
import time
from codecs import BOM_UTF8
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import attrs
import click
import msgspec

from batchqueue.cli_command import on_batch, printable, say, say_json
from batchqueue.cli_meter import meter
from batchqueue.errors import BatchClosed, BatchConflict
from batchqueue.stream import CHUNK, CHUNK_BYTES, MAX_ITEMS
from fairqueue.errors import OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from batchqueue.batch import Batch
    from batchqueue.cli_meter import Meter
    from fairqueue.errors import FairQueueError

LONGEST = 4 * 2**20  # bytes of a line
REDRAW = 0.1  # seconds


@attrs.frozen
class Line:
    """A line that is not blank; *text* is None when it is longer than LONGEST."""

    number: int
    index: int
    text: bytes | None = attrs.field(repr=False)

    def payload(self) -> Any:
        """What it says.

        Raises:
            ValueError: it is not JSON.
        """
        if self.text is None:
            raise ValueError(f"longer than {LONGEST:,} bytes")
        try:
            return msgspec.json.decode(self.text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from None


def read_lines(source: IO[bytes], start: int) -> Iterator[Line]:
    """Lines with the indexes of their items, the first of which is *start*. Holds one line at a time."""
    number, index = 0, start
    while text := source.readline(LONGEST + 1):
        number += 1
        if number == 1:
            text = text.removeprefix(BOM_UTF8)
        cut = len(text) > LONGEST and not text.endswith(b"\n")
        while cut and (more := source.readline(LONGEST)) and not more.endswith(b"\n"):
            pass
        if cut or text.strip():
            yield Line(number, index, None if cut else text)
            index += 1


@attrs.define
class Intake:
    """Sends lines, counts what became of them, and tells of those refused."""

    batch: Batch
    stop_on_bad: bool
    note: Callable[[str], object]
    enqueued: int = 0
    already: int = 0
    refused: int = 0
    stopped: bool = False
    closed: bool = False

    def run(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Send them; gives each back when it was read, for a meter."""
        skip = self.batch.next_index()
        chunk: list[tuple[Line, Any]] = []
        size = 0
        for line in lines:
            yield line
            if line.index < skip:
                self.already += 1
                continue
            try:
                chunk.append((line, line.payload()))
            except ValueError as error:
                self._send(chunk)
                chunk, size = [], 0
                if not self.stopped:
                    self.refused += 1
                    self._refuse(line, str(error))
            else:
                size += len(line.text or b"")
            if len(chunk) == CHUNK or size >= CHUNK_BYTES:
                self._send(chunk)
                chunk, size = [], 0
            if self.stopped:
                return
        self._send(chunk)

    def _send(self, chunk: list[tuple[Line, Any]]) -> None:
        """Consecutive items, up to the one at which to stop."""
        if not chunk:
            return
        start = chunk[0][0].index

        def payloads() -> Iterator[Any]:
            for _, payload in chunk:
                if self.stopped:
                    return
                yield payload

        def refuse(index: int, error: FairQueueError) -> None:
            self.closed = self.closed or isinstance(error, BatchClosed)
            if not self.stopped:
                self._refuse(chunk[index - start][0], str(error))

        result = self.batch.add_many(payloads(), start=start, on_refused=refuse)
        self.enqueued += result.enqueued
        self.already += result.deduplicated
        self.refused += result.refused_count

    def _refuse(self, line: Line, reason: str) -> None:
        self.stopped = self.stop_on_bad or self.closed  # a closed batch refuses everything from here on
        self.note(f"line {line.number} (item {line.index}) refused: {reason}")


@click.command
@on_batch
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--start", type=click.IntRange(0, MAX_ITEMS - 1), default=0, help="Index of the first line's item.")
@click.option("--stop-on-bad/--skip-bad", default=False, help="At a bad line stop, or (default) go on.")
@click.option(
    "--seal/--no-seal",
    default=None,
    help="Seal at the end, or never. Without either: if nothing was refused and the batch has no declared count.",
)
def add(batch: Batch, *, as_json: bool, file: IO[bytes], start: int, stop_on_bad: bool, seal: bool | None) -> None:
    """Stream a file into a batch.

    FILE is NDJSON, an item a line; - or nothing is standard input. Blank lines are skipped and take no index. A line
    that is not JSON, or that is refused, keeps its index and is told on stderr. After a crash run the same command
    again: it goes on from the first missing item.
    """
    wrong = ""
    with meter(f"adding to {batch.batch_id}", total=_size(file), err=True) as shown:
        intake = Intake(batch, stop_on_bad, shown.note)
        try:
            _follow(intake, read_lines(file, start), shown)
            if not intake.stopped and (_may_seal(batch, intake) if seal is None else seal):
                batch.seal()
        except (Unavailable, OutcomeUnknown) as error:
            raise click.ClickException(f"{printable(str(error))}: {_AGAIN}") from None
        except KeyboardInterrupt:
            raise click.ClickException(f"stopped: {_AGAIN}") from None
        except (BatchClosed, BatchConflict) as error:  # sealing was refused
            wrong = str(error)
    status = batch.progress().status
    if intake.refused and not wrong:
        way = "mend them and run the same command again" if status == "filling" else f"it is {status} without them"
        wrong = (
            f"{intake.refused:,} items of batch {batch.batch_id!r} of tenant {batch.tenant_id!r} were refused: {way}"
        )
    if wrong:
        click.echo(f"Error: {printable(wrong)}", err=True)
    counts = {"enqueued": intake.enqueued, "already_in": intake.already, "refused": intake.refused}
    if as_json:
        say_json(tenant_id=batch.tenant_id, batch_id=batch.batch_id, status=status, **counts)
    else:
        figures = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in counts.items())
        say(f"batch {batch.batch_id} is {status}; {figures}")
    if wrong:
        raise SystemExit(1)


def _may_seal(batch: Batch, intake: Intake) -> bool:
    """Nothing can be mended, and no declared count says when it is full."""
    return not intake.refused and batch.progress().item_count is None


_AGAIN = "run the same command again, it goes on from the first missing item"


def _follow(intake: Intake, lines: Iterator[Line], shown: Meter) -> None:
    began = drawn = time.monotonic()
    read = at = 0
    for line in intake.run(lines):
        read += 1
        at += len(line.text or b"")
        if (now := time.monotonic()) - drawn >= REDRAW:
            drawn, rate = now, read / (now - began)
            shown.show(at, f"{read:,} lines, {intake.refused:,} refused, {rate:,.0f} lines/s")
    shown.show(at, f"{read:,} lines, {intake.refused:,} refused")


def _size(file: IO[bytes]) -> int | None:
    """Bytes of a regular file; None for a pipe or what has no descriptor."""
    with suppress(OSError, ValueError):
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            return status.st_size
    return None
