#!/usr/bin/env python3
"""The main job, twice, on the same real input: first come first served through one queue, and fair.

Tenants are airports, messages are flights. One airport's flights are replayed until its backlog is 50 times
any other's, and enqueued first. Eight threads work off everything; the table shows how long each airport waited.
Exit code 0 when every message was handled exactly once in both runs.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from flights import FLIGHTS, Flight, read
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fairqueue import Delivery, FairQueue, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

NOISE = 50  # how many times any other's backlog the noisy tenant's is
THREADS = 8
WORK = 0.006  # seconds a handler takes
LIMIT = 50.0  # seconds a run may take
Waits = dict[str, list[float]]


def replayed(path: Path) -> dict[str, list[Flight]]:
    """Flights by airport, the noisy one first and replayed."""
    flights = read(path)
    noisy, quiet, *_ = flights
    own = flights[noisy]
    count = max(len(own), NOISE * len(flights[quiet]))
    return {**flights, noisy: [{**own[i % len(own)], "replay": i // len(own)} for i in range(count)]}


def work_off(
    title: str, flights: dict[str, list[Flight]], tenant: Callable[[str], str], console: Console
) -> tuple[Waits, str]:
    """Enqueue everything, let eight threads work it off; waits by airport, and what went wrong (or '')."""
    waits: Waits = defaultdict(list)
    handled: Counter[str] = Counter()
    lock = threading.Lock()

    def handle(delivery: Delivery) -> None:
        waited = time.time() - delivery.enqueued_at.timestamp()
        time.sleep(WORK)
        with lock:
            handled[delivery.payload["id"]] += 1
            waits[delivery.payload["origin"]].append(waited)

    expected = {
        f"{airport}-{flight['number']}-{flight.get('replay', 0)}" for airport, own in flights.items() for flight in own
    }
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with FairQueue.embedded() as queue:
        for airport, own in flights.items():
            messages = [{**f, "id": f"{airport}-{f['number']}-{f.get('replay', 0)}"} for f in own]
            queue.enqueue_batch(messages, tenant_id=tenant(airport))
        worker = Worker(queue, handle, threads=THREADS)
        started = time.monotonic()
        shown = 0.0
        worker.start()
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task(title, total=len(expected))
            while True:
                with lock:
                    done = sum(handled.values())
                progress.update(task, completed=done)
                if not console.is_terminal and time.monotonic() - shown >= 1:
                    shown = time.monotonic()
                    console.print(f"{title}: {done:,} of {len(expected):,}")
                if done >= len(expected) or time.monotonic() - started > LIMIT:
                    break
                time.sleep(0.05)
        worker.stop()
        stats, findings = queue.stats(), queue.audit()
    missing, twice = expected - set(handled), [name for name, n in handled.items() if n > 1]
    if missing or twice:
        return waits, f"{title}: {len(missing)} messages were not handled, {len(twice)} more than once"
    if findings or stats["completed"] != len(expected) or stats["in_flight"]:
        return waits, f"{title}: the books do not balance: {stats}, {findings}"
    return waits, ""


def percentile(values: list[float], percent: int) -> float:
    """Of seconds waited."""
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def main() -> int:
    """Run both, compare, check."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--flights", type=Path, default=FLIGHTS, help="NDJSON with an origin in each line")
    arguments.add_argument("--rows", type=int, default=12, help="tenants in the table (0: all)")
    chosen = arguments.parse_args()
    console = Console()
    flights = replayed(chosen.flights)
    noisy = next(iter(flights))
    total = sum(map(len, flights.values()))
    console.print(
        f"{total:,} flights of {len(flights)} airports; {noisy} alone has {len(flights[noisy]):,} and came first. "
        f"{THREADS} threads, {WORK * 1000:.0f} ms a message."
    )
    fifo, wrong = work_off("first come, first served", flights, lambda _: "everybody", console)
    fair, wrong_too = work_off("fair", flights, lambda airport: airport, console)
    if wrong or wrong_too:
        console.print(f"[red]FAILED[/red] {wrong or wrong_too}")
        return 1

    table = Table("tenant", title="seconds from enqueue to start")
    for heading in ("messages", "first come p50", "p95", "fair p50", "p95"):
        table.add_column(heading, justify="right")
    airports = list(flights)
    for airport in airports if chosen.rows == 0 else [*airports[: chosen.rows - 3], *airports[-3:]]:
        figures = (percentile(waits[airport], p) for waits in (fifo, fair) for p in (50, 95))
        name = f"{airport} (noisy)" if airport == noisy else airport
        table.add_row(name, f"{len(flights[airport]):,}", *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    quiet = [
        percentile([w for airport, own in waits.items() if airport != noisy for w in own], 95) for waits in (fifo, fair)
    ]
    console.print(
        f"[bold]quiet tenants' p95 wait: {quiet[0]:.2f} s first come first served, {quiet[1]:.2f} s fair: "
        f"{quiet[0] / quiet[1]:.1f} times shorter[/bold]"
    )
    console.print(
        f"every one of {total:,} messages was handled exactly once in both runs (checked: ids, counters, audit)"
    )
    if quiet[1] >= quiet[0]:
        console.print("[red]FAILED[/red] fair was not faster for the quiet tenants")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
