#!/usr/bin/env python3
"""Batches on real input, under fire: a batch of flights for each airport; the ingest and the worker are killed midway.

Four processes: this one, an embedded server, an ingest that streams the flights in, and `batchqueue worker`. The ingest
and the worker are ended by SIGKILL midway and started again. Flights more than an hour late fail once, those more than
two hours late fail for good. Exit code 0 when every flight was counted exactly once and every batch called back.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import redis
from flights import FLIGHTS, Flight, read
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from batchqueue import BatchItem, BatchQueue, BatchResult, ItemFailed
from batchqueue.batch import every
from fairqueue import FixedDelay
from fairqueue.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairqueue.views.page import Page

HERE = Path(__file__).resolve().parent
URL = "BATCHQUEUE_URL"
RUNS, CALLS = "demo:runs", "demo:calls"  # what the callbacks were given; outside the namespace
LATE, TOO_LATE = 60, 120  # minutes: fails once, fails for good
THREADS = 8
WORK = 0.02  # seconds an item takes
SLICE, PAUSE = 20, 0.02  # the ingest reads so many flights, then waits so many seconds for more
LEASE = 2.0  # seconds
LIMIT = 50.0  # seconds for everything


class WrongError(Exception):
    """The demo found that something is off."""


# -- the processes


def batches() -> BatchQueue:
    """What `batchqueue worker batch_demo:batches` runs."""
    b = BatchQueue.connect(
        os.environ[URL],
        consumer_count=THREADS,
        retry=FixedDelay(3, 0.1),
        visibility_timeout=LEASE,
        reclaim_interval=0.2,
    )
    notes = redis.Redis.from_url(os.environ[URL])

    @b.on_process_item
    def process(item: BatchItem) -> dict[str, int]:
        notes.rpush(RUNS, json.dumps([item.tenant_id, item.index, item.attempt]))
        time.sleep(WORK)
        if item.payload["delay"] > TOO_LATE:
            raise ItemFailed("nobody waits that long", code="TOO_LATE", skip_retries=True)
        if item.payload["delay"] > LATE and item.attempt == 1:
            raise ItemFailed("late, try again", code="LATE")
        return {"number": item.payload["number"]}

    @b.on_batch_complete
    def done(result: BatchResult) -> None:
        counts = result.status, result.item_count, result.succeeded, result.failed
        notes.rpush(CALLS, json.dumps([result.tenant_id, result.completion_id, *counts, time.time()]))

    return b


def ingest(path: Path) -> None:
    """Stream the flights in, a batch an airport; started again, it goes on where it was killed."""
    with BatchQueue.connect(os.environ[URL]) as b:
        for airport, own in read(path).items():
            with b.initialize("flights", tenant_id=airport, metadata={"file": path.name}) as batch:
                source = iter(own)
                while chunk := list(islice(source, SLICE)):
                    result = batch.add_many(chunk)
                    time.sleep(PAUSE if result.enqueued else 0)


class Run:
    """This process: starts the others, kills them, and looks on."""

    def __init__(self, path: Path, url: str, console: Console, log: IO[bytes]) -> None:
        """Start nothing yet."""
        self.path, self.url, self.console, self.log = path, url, console, log
        self.total = sum(map(len, read(path).values()))
        self.b = BatchQueue.connect(url)
        self.children: list[subprocess.Popen[bytes]] = []
        self.until = time.monotonic() + LIMIT

    def counts(self) -> tuple[int, int]:
        """Flights that are in, and those that ended."""
        there = [info.progress for info in every(partial(_page, self.b.list))]
        return sum(p.enqueued for p in there), sum(p.processed for p in there)

    def go(self) -> None:
        """Run until every batch has called back."""
        columns = TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as progress:
            bars = [progress.add_task(name, total=self.total) for name in ("streamed", "processed")]
            drawn = 0.0

            def wait(done: Callable[[int, int], bool]) -> None:
                nonlocal drawn
                while True:
                    counts = self.counts()
                    for bar, n in zip(bars, counts, strict=True):
                        progress.update(bar, completed=n)
                    if not self.console.is_terminal and time.monotonic() - drawn >= 1:
                        drawn = time.monotonic()
                        self.console.print(f"streamed {counts[0]:,}, processed {counts[1]:,} of {self.total:,}")
                    if done(*counts):
                        return
                    if time.monotonic() > self.until:
                        raise WrongError(f"not done after {LIMIT:.0f} s: {counts} of {self.total:,}")
                    time.sleep(0.02)

            filling, working = self.ingest(), self.worker()
            wait(lambda streamed, _: streamed > self.total // 3)
            self.kill(filling, "the ingest")
            filling = self.ingest()
            wait(lambda _, processed: processed > self.total // 2)
            self.kill(working, "the worker")
            working = self.worker()
            wait(lambda _, processed: processed == self.total and filling.poll() is not None)
            if filling.returncode:
                raise WrongError(f"the ingest ended with {filling.returncode}")
            wait(lambda *_: self.ended())
        working.send_signal(signal.SIGTERM)
        if working.wait(10):
            raise WrongError(f"the worker ended with {working.returncode} after SIGTERM")

    def ingest(self) -> subprocess.Popen[bytes]:
        """Start the ingest."""
        return self.start(__file__, "--ingest", "--flights", str(self.path))

    def worker(self) -> subprocess.Popen[bytes]:
        """Start the worker."""
        return self.start("-m", "batchqueue", "worker", "batch_demo:batches")

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """One of them; what it writes is shown if something goes wrong."""
        child = subprocess.Popen(  # noqa: S603 - our own files
            [sys.executable, *command], cwd=HERE, env={**os.environ, URL: self.url}, stdout=self.log, stderr=self.log
        )
        self.children.append(child)
        return child

    def kill(self, child: subprocess.Popen[bytes], name: str) -> None:
        """End one of them in the middle of its work."""
        if child.poll() is not None:
            raise WrongError(f"{name} ended by itself with {child.returncode}, too early to be killed")
        child.kill()
        child.wait()
        streamed, processed = self.counts()
        self.console.print(f"SIGKILL to {name}: {streamed:,} streamed, {processed:,} processed; started again")

    def ended(self) -> bool:
        """Whether every batch is over, its callback included."""
        return all(
            info.status in {"completed", "completed_with_failures"} for info in every(partial(_page, self.b.list))
        )

    def told(self) -> str:
        """What the others wrote."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]

    def close(self) -> None:
        """End what still runs."""
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        self.b.close()


# -- what came of it


class Row(NamedTuple):
    """A line of the table."""

    airport: str
    items: int
    succeeded: int
    failed: int
    retries: int
    seconds: float


def check(run: Run, flights: dict[str, list[Flight]]) -> Iterator[Row]:
    """Airport, items, succeeded, failed, retries, seconds of every batch; raises unless all was counted once."""
    notes = redis.Redis.from_url(run.url)
    runs = [json.loads(note) for note in notes.lrange(RUNS, 0, -1)]
    calls = [json.loads(note) for note in notes.lrange(CALLS, 0, -1)]
    notes.close()
    attempts = Counter((airport, index) for airport, index, _ in runs)
    for airport, own in flights.items():
        batch = run.b.get(airport, "flights")
        if batch is None:
            raise WrongError(f"{airport}: there is no batch")
        progress = batch.progress()
        lost = {n for n, flight in enumerate(own) if flight["delay"] > TOO_LATE}
        succeeded: dict[int, Any] = dict(every(partial(_page, batch.results)))
        failed = {failure.index for failure in every(partial(_page, batch.failures))}
        wanted = {n: {"number": flight["number"]} for n, flight in enumerate(own) if n not in lost}
        if succeeded != wanted or failed != lost:
            raise WrongError(f"{airport}: {len(succeeded)} results and {len(failed)} failures are not those expected")
        figures = (progress.enqueued, progress.succeeded, progress.failed, progress.remaining)
        if figures != (len(own), len(wanted), len(lost), 0):
            raise WrongError(f"{airport}: {progress} does not fit {len(own)} flights, {len(lost)} of them too late")
        called = [call for call in calls if call[0] == airport]
        status = "completed_with_failures" if lost else "completed"
        if not called or any(call[1:6] != [called[0][1], status, len(own), len(wanted), len(lost)] for call in called):
            raise WrongError(f"{airport}: the completion callback was given {called}")
        own_runs = [attempts[airport, n] for n in range(len(own))]
        if min(own_runs) < 1:
            raise WrongError(f"{airport}: an item was counted that no callback saw")
        seconds = called[0][6] - batch.created_at.timestamp()
        yield Row(airport, len(own), len(wanted), len(lost), sum(own_runs) - len(own), seconds)
    findings = run.b.queue.audit()
    if findings:
        raise WrongError(f"the books do not balance: {findings}")


def _page(read: Callable[..., Page[Any]], cursor: str | None) -> Page[Any]:
    return read(limit=500, cursor=cursor)


def show(rows: list[Row], limit: int, console: Console) -> None:
    """The table of batches."""
    table = Table("batch of", title="batches")
    for heading in ("items", "succeeded", "failed", "retries", "seconds"):
        table.add_column(heading, justify="right")
    for row in rows if limit == 0 else [*rows[: limit - 3], *rows[-3:]]:
        table.add_row(row[0], *(f"{n:,}" for n in row[1:5]), f"{row.seconds:.1f}")
    totals = [f"{sum(figures):,}" for figures in list(zip(*rows, strict=True))[1:5]]
    table.add_section()
    table.add_row(f"all {len(rows)}", *totals, f"{max(row.seconds for row in rows):.1f}")
    console.print(table)


def main() -> int:
    """Run, check, tell."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--flights", type=Path, default=FLIGHTS, help="NDJSON with origin and delay in each line")
    arguments.add_argument("--rows", type=int, default=12, help="batches in the table (0: all)")
    arguments.add_argument("--ingest", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    path = chosen.flights.resolve()
    if chosen.ingest:
        ingest(path)
        return 0
    console, flights = Console(), read(path)
    with EmbeddedServer() as server, tempfile.TemporaryFile() as log:
        run = Run(path, server.url, console, log)
        console.print(f"{run.total:,} flights, a batch for each of {len(flights)} airports; {THREADS} threads")
        try:
            run.go()
            rows = list(check(run, flights))
        except WrongError as error:
            console.print(run.told(), markup=False, highlight=False)
            console.print(f"FAILED {error}", style="red", markup=False)
            return 1
        finally:
            run.close()
    show(rows, chosen.rows, console)
    console.print(
        f"every one of {run.total:,} flights was counted exactly once and each of {len(rows)} batches called back, "
        "through two kills (checked: results, failures, counts, callbacks, audit)",
        style="bold",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
