"""A batch process for tests: python -m tests.batch_process URL NAMESPACE ROLE '{"items": 20, ...}'.

Roles: ``produce`` initializes the batch and streams it in, ``work`` processes until SIGTERM. Each item start
is written to the list <namespace>:items, each callback to <namespace>:ends. A failpoint may kill it.
"""

from __future__ import annotations

import json
import os
import sys
import time

import redis

from batchqueue import BatchQueue
from fairqueue import FixedDelay


def main(url: str, namespace: str, role: str, settings: str) -> None:
    given = json.loads(settings)
    notes = redis.Redis.from_url(url)
    b = BatchQueue.connect(
        url,
        namespace=namespace,
        consumer_count=given.get("threads", 4),
        retry=FixedDelay(3, 0.05),
        callback_retry=FixedDelay(10, 0.05),
        visibility_timeout=given.get("visibility", 0.5),
        reclaim_interval=0.1,
    )
    if role == "produce":
        with b.initialize("b1", tenant_id="t", item_count=given["items"]) as batch:
            batch.add_many({"n": n} for n in range(given["items"]))
    else:

        @b.on_process_item
        def process(item):
            notes.rpush(f"{namespace}:items", f"{item.index} {item.attempt} {os.getpid()}")
            if item.index in given.get("always", ()):
                raise ValueError("always")
            if item.index in given.get("once", ()) and item.attempt == 1:
                raise ValueError("once")
            if item.index in given.get("killers", ()):
                os._exit(9)
            time.sleep(given.get("sleep", 0))
            return item.index

        @b.on_batch_complete
        def done(result):
            counts = f"{result.status} {result.succeeded} {result.failed}"
            first = notes.rpush(f"{namespace}:ends", f"{result.completion_id} {counts}") == 1
            if given.get("dies_in_callback") and first:
                os._exit(9)

        notes.incr(f"{namespace}:up")
        b.run()
    b.close()
    notes.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
