"""A worker process for tests: python -m tests.worker_process URL NAMESPACE '{"threads": 4, ...}'.

What a handler does stands in the payload: {"sleep": s}, {"exit": code}, {"fail": text}, {"count": key, "sleep": s}.
Each start is written to the list <namespace>:started, each end to <namespace>:ended; with "times": true also
the server's time of each start (ms) to <namespace>:times.
"""

from __future__ import annotations

import json
import os
import sys
import time

import redis

from fairqueue import ConcurrencyGroup, FairQueue, Worker

COUNT = """
local now = redis.call('INCR', KEYS[1])
local most = tonumber(redis.call('GET', KEYS[1] .. ':most') or 0)
if now > most then redis.call('SET', KEYS[1] .. ':most', now) end
"""


def main(url: str, namespace: str, settings: str) -> None:
    options = json.loads(settings)
    threads, prefetch, grace = options.pop("threads", 4), options.pop("prefetch", 0), options.pop("grace", 30)
    limit, times = options.pop("limit", None), options.pop("times", False)
    live = options.pop("live", None)  # a key that holds the limit, asked live
    notes = redis.Redis.from_url(url)
    groups = [
        ConcurrencyGroup(
            name="t",
            group_id=lambda m: m.tenant_id,
            default_limit=limit,
            limit=(lambda _: int(notes.get(live))) if live else None,
        )
    ]
    count = notes.register_script(COUNT)

    def handle(delivery):
        note = f"{delivery.id} {delivery.attempt} {os.getpid()}"
        notes.rpush(f"{namespace}:started", note)
        if times:
            seconds, micros = notes.time()
            notes.rpush(f"{namespace}:times", f"{delivery.id} {seconds * 1000 + micros // 1000}")
        what = delivery.payload or {}
        if "exit" in what:
            os._exit(what["exit"])
        if "fail" in what:
            raise ValueError(what["fail"])
        if "count" in what:
            count(keys=[what["count"]])
        time.sleep(what.get("sleep", 0))
        if "count" in what:
            notes.decr(what["count"])
        notes.rpush(f"{namespace}:ended", note)

    q = FairQueue.connect(url, namespace=namespace, concurrency_groups=groups, **options)
    worker = Worker(q, handle, threads=threads, prefetch=prefetch, grace=grace)
    notes.incr(f"{namespace}:up")
    worker.run()
    q.close()
    notes.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
