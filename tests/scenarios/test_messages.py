"""The arrows of the state machine, through the public names, with a clock that is moved by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fairqueue import (
    ConcurrencyGroup,
    ExponentialBackoff,
    FairQueue,
    FixedDelay,
    InvalidArgument,
    InvalidId,
    LeaseLost,
    NewMessage,
    NoRetry,
    PayloadError,
    PayloadTooLarge,
    SchemaMismatch,
)

pytestmark = pytest.mark.server

TENANT = ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=2)


def leftovers(redis_client, namespace):
    """Keys of a namespace besides the shards' root hashes."""
    return sorted(key for key in redis_client.scan_iter(f"{{{namespace}:*") if b"}:" in key)


def test_a_message_lives_once_and_leaves_nothing(make_queue, redis_client, namespace):
    """Enqueue, receive, complete: the payload comes back, nothing stays."""
    q = make_queue(concurrency_groups=[TENANT])

    receipt = q.enqueue({"n": 1}, tenant_id="acme", metadata={"trace": "x"})
    [delivery] = q.receive()

    assert receipt.created
    assert (delivery.id, delivery.payload, delivery.metadata) == (receipt.message_id, {"n": 1}, {"trace": "x"})
    assert (delivery.attempt, delivery.deliveries) == (1, 1)
    assert q.groups.usage("tenant", "acme") == (1, 2)
    delivery.complete()
    assert q.messages.get("acme", "default", receipt.message_id) is None
    assert q.audit() == []
    assert leftovers(redis_client, namespace) == []


def test_the_same_id_is_one_message_while_it_lives(make_queue):
    """A known id changes nothing in whatever state; the id is free again when the message is done (C22)."""
    q = make_queue(retry=FixedDelay(2, 10))
    assert q.enqueue(1, tenant_id="t", message_id="x").created
    assert not q.enqueue(2, tenant_id="t", message_id="x").created
    assert q.enqueue(3, tenant_id="other", message_id="x").created
    assert q.enqueue(4, tenant_id="t", queue_id="second", message_id="x").created

    taken = {(d.tenant_id, d.queue_id): d for d in q.receive(max_messages=10)}
    assert taken["t", "default"].payload == 1
    assert not q.enqueue(5, tenant_id="t", message_id="x").created
    taken["t", "default"].fail("no")
    assert not q.enqueue(6, tenant_id="t", message_id="x").created
    q.clock.advance(10)
    [again] = q.receive()
    again.fail("no")
    assert q.messages.get("t", "default", "x").state == "dead"
    assert not q.enqueue(7, tenant_id="t", message_id="x").created
    taken["other", "default"].complete()
    assert q.enqueue(8, tenant_id="other", message_id="x").created


def test_a_dedupe_window_keeps_a_finished_id(make_queue, redis_client, namespace):
    """With a dedupe_window the id stays taken after the message is done."""
    q = make_queue(dedupe_window=60)
    q.enqueue(1, tenant_id="t", message_id="x")
    q.receive()[0].complete()

    assert not q.enqueue(2, tenant_id="t", message_id="x").created
    assert 0 < redis_client.pttl(leftovers(redis_client, namespace)[0]) <= 60_000


def test_delayed_messages_wait_for_their_time(make_queue):
    """Nothing starts before it is due, by the queue's clock; the order of due times holds."""
    q = make_queue()
    now = datetime.fromtimestamp(q.clock.now_ms() / 1000, UTC)
    q.enqueue("late", tenant_id="t", delay=10)
    q.enqueue("sooner", tenant_id="t", not_before=now + timedelta(seconds=5))
    q.enqueue("past", tenant_id="t", not_before=now - timedelta(hours=1))

    assert [d.payload for d in q.receive(max_messages=10)] == ["past"]
    q.clock.advance(4.999)
    assert q.receive() == []
    q.clock.advance(ms=1)
    assert [d.payload for d in q.receive(max_messages=10)] == ["sooner"]
    q.clock.advance(5)
    assert [d.payload for d in q.receive(max_messages=10)] == ["late"]


def test_retries_back_off_and_end_in_dead_letters(make_queue):
    """Attempts count 1, 2, 3; then the letter has payload, metadata, reason and every error (fq-7, fq-8)."""
    q = make_queue(retry=ExponentialBackoff(max_attempts=3, min_delay=1, jitter=False))
    q.enqueue({"x": 1}, tenant_id="t", message_id="m", metadata={"k": "v"})
    attempts = []
    for wait in (1, 2, 0):
        [delivery] = q.receive()
        attempts.append(delivery.attempt)
        delivery.fail(ValueError(f"bad {delivery.attempt}"))
        assert q.receive() == []
        q.clock.advance(wait)

    [letter] = q.dead_letters.list("t")
    assert attempts == [1, 2, 3]
    assert (letter.payload, letter.metadata, letter.reason) == ({"x": 1}, {"k": "v"}, "exhausted")
    assert (letter.attempts, letter.deliveries, letter.last_error) == (3, 3, "ValueError: bad 3")
    assert [(e.kind, e.text, e.attempt, e.delivery) for e in letter.errors] == [
        ("ValueError", f"bad {n}", n, n) for n in (1, 2, 3)
    ]
    assert q.audit() == []


def test_redrive_moves_a_letter_back_once(make_queue, redis_client, namespace):
    """A redriven message starts over with attempt 1 and its history; a second redrive moves nothing (fq-9)."""
    q = make_queue(retry=NoRetry())
    q.enqueue("p", tenant_id="t", message_id="m", metadata={"k": 1})
    q.receive()[0].fail("first")

    assert q.dead_letters.redrive("t", "default", "m")
    assert not q.dead_letters.redrive("t", "default", "m")
    assert q.dead_letters.count("t") == 0
    [delivery] = q.receive()
    assert (delivery.attempt, delivery.deliveries, delivery.payload, delivery.metadata) == (1, 1, "p", {"k": 1})
    delivery.fail("second")
    assert [e.text for e in q.dead_letters.list("t")[0].errors] == ["first", "second"]
    q.dead_letters.purge("t")
    assert q.audit() == []
    assert leftovers(redis_client, namespace) == []


def test_redrive_all_moves_what_is_dead_now(make_queue):
    """Each letter once, in chunks, by filter; one that dies again meanwhile is not moved twice (C23, reduced)."""
    q = make_queue(retry=NoRetry())
    q.enqueue_batch(range(250), tenant_id="t")
    for delivery in q.receive(max_messages=500):
        delivery.fail(f"{delivery.payload % 2}")
    page = q.dead_letters.list("t", limit=200)
    assert (len(page), len(q.dead_letters.list("t", limit=200, cursor=page.cursor))) == (200, 50)

    assert q.dead_letters.redrive_all("t", where=lambda letter: letter.last_error == "error: 1") == 125
    assert q.dead_letters.count("t") == 125
    for delivery in q.receive(max_messages=500):
        delivery.fail("again")
    assert q.dead_letters.redrive_all("t") == 250
    assert q.dead_letters.redrive_all("t") == 0
    assert len(q.receive(max_messages=500)) == 250
    assert q.audit() == []


def test_a_letter_can_be_read_alone(make_queue):
    """get() gives one letter, and None for what is not dead."""
    q = make_queue()
    q.enqueue("x", tenant_id="t", message_id="m")
    assert q.dead_letters.get("t", "default", "m") is None
    q.receive()[0].fail("bad")
    letter = q.dead_letters.get("t", "default", "m")
    assert (letter.payload, letter.reason, letter.last_error) == ("x", "no retry policy", "error: bad")


def test_purge_keeps_what_is_younger(make_queue):
    """Only letters dead for longer than older_than go."""
    q = make_queue()
    for name in ("old", "new"):
        q.enqueue(1, tenant_id="t", message_id=name)
        q.receive()[0].fail("x")
        q.clock.advance(100)

    assert q.dead_letters.purge("t", older_than=150) == 1
    assert [letter.message_id for letter in q.dead_letters.list("t")] == ["new"]


def test_without_dead_letters_the_end_is_counted(make_queue, redis_client, namespace):
    """Dead letters off: a message that is given up on is gone, and counted as discarded."""
    q = make_queue(dead_letters=False)
    q.enqueue(1, tenant_id="t")
    q.receive()[0].fail("x")

    assert q.stats()["discarded"] == 1
    assert q.audit() == []
    assert leftovers(redis_client, namespace) == []


def test_release_goes_to_the_back_and_keeps_the_attempt(make_queue):
    """A released message is not failed: same attempt, behind what was enqueued meanwhile."""
    q = make_queue()
    q.enqueue("a", tenant_id="t")
    [first] = q.receive()
    q.enqueue("b", tenant_id="t")
    first.release()

    taken = q.receive(max_messages=2)
    assert [(d.payload, d.attempt, d.deliveries) for d in taken] == [("b", 1, 1), ("a", 1, 2)]


def test_a_reclaimed_message_keeps_its_place_and_its_slot_returns(make_queue):
    """Timed-out leases come back in order, slots 2, 0, 2, ten times over; the attempt counts them (C03)."""
    q = make_queue(concurrency_groups=[TENANT], visibility_timeout=2, max_deliveries=None)
    q.enqueue_batch(["a", "b"], tenant_id="t")
    for n in range(1, 11):
        taken = q.receive(max_messages=5)
        assert [(d.payload, d.attempt, d.deliveries) for d in taken] == [("a", n, n), ("b", n, n)]
        assert q.groups.usage("tenant", "t") == (2, 2)
        q.clock.advance(1.999)
        assert q.reclaimer.run_once() == 0
        q.clock.advance(ms=1)
        assert q.reclaimer.run_once() == 2
        assert q.groups.usage("tenant", "t") == (0, 2)
        assert q.audit() == []
    for delivery in q.receive(max_messages=2):
        assert delivery.attempt == 11
        delivery.complete()
    assert q.audit() == []


def test_a_late_worker_changes_nothing(make_queue):
    """After another took the message over, the first one's verbs raise LeaseLost and change no key (C02)."""
    q = make_queue(
        concurrency_groups=[ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=1)]
    )
    q.enqueue("m", tenant_id="t", message_id="m")
    [late] = q.receive()
    q.clock.advance(31)
    q.reclaimer.run_once()
    [owner] = q.receive()
    q.enqueue("n", tenant_id="t")

    for verb in (late.complete, late.fail, late.release, late.heartbeat):
        with pytest.raises(LeaseLost, match="'m'"):
            verb()
    assert q.groups.usage("tenant", "t") == (1, 1)
    assert q.receive() == []
    owner.complete()
    with pytest.raises(LeaseLost):
        late.complete()
    assert [d.payload for d in q.receive()] == ["n"]


def test_settling_twice_is_once(make_queue):
    """The same delivery settled again, also through its token, is success and frees nothing twice (FT20)."""
    q = make_queue(concurrency_groups=[TENANT])
    q.enqueue_batch([1, 2, 3], tenant_id="t")
    first, second = q.receive(max_messages=2)
    first.complete()
    first.complete()
    q.delivery("t", "default", first.id, first.token).complete()

    assert q.groups.usage("tenant", "t") == (1, 2)
    assert len(q.receive(max_messages=5)) == 1
    second.complete()
    assert q.audit() == []


def test_a_token_settles_from_anywhere(make_queue):
    """q.delivery() settles a delivery of another process by its token; a wrong token is refused."""
    q, other = make_queue(), make_queue()
    q.enqueue("x", tenant_id="t")
    [taken] = q.receive()

    with pytest.raises(LeaseLost):
        other.delivery("t", "default", taken.id, "wrong").complete()
    elsewhere = other.delivery("t", "default", taken.id, taken.token)
    assert elsewhere.payload == "x"
    elsewhere.complete()
    assert q.stats()["completed"] == 1


def test_heartbeats_move_the_deadline_out_and_never_in(make_queue):
    """A beat holds the lease for a visibility timeout from now; settling after the deadline, before reclaim, works."""
    q = make_queue(visibility_timeout=30)
    q.enqueue("x", tenant_id="t")
    [delivery] = q.receive()
    for _ in range(5):
        q.clock.advance(20)
        delivery.heartbeat()
        assert q.reclaimer.run_once() == 0
    q.clock.advance(31)
    delivery.complete()
    assert q.reclaimer.run_once() == 0


def test_too_many_deliveries_are_the_end(make_queue):
    """A message whose workers die is dead at max_deliveries, and its letter says that the worker was lost."""
    q = make_queue(max_deliveries=3, visibility_timeout=1)
    q.enqueue("killer", tenant_id="t")
    for _ in range(3):
        assert len(q.receive()) == 1
        q.clock.advance(1)
        q.reclaimer.run_once()

    [letter] = q.dead_letters.list("t")
    assert "worker lost" in letter.reason
    assert (letter.deliveries, [e.kind for e in letter.errors]) == (3, ["LeaseExpired"] * 3)


def test_dispatched_messages_go_back_when_nobody_takes_them(make_queue):
    """After a visibility timeout untaken they stand in their old places, slots free, nothing charged."""
    q = make_queue(concurrency_groups=[TENANT])
    q.enqueue_batch(["a", "b", "c"], tenant_id="t")
    assert q.dispatcher.run_once() == 2
    assert q.worker_queues.length() == 2
    assert q.audit() == []
    q.clock.advance(30)

    assert q.reclaimer.run_once() == 2
    assert q.worker_queues.length() == 0
    assert q.groups.usage("tenant", "t") == (0, 2)
    assert q.dispatcher.run_once() == 0, "not filled again until someone asks"
    assert [(d.payload, d.attempt, d.deliveries) for d in q.receive(max_messages=3)] == [("a", 1, 1), ("b", 1, 1)]
    assert q.audit() == []


def test_clear_gives_a_worker_queue_back(make_queue):
    """Clearing loses nothing: everything stands where it stood."""
    q = make_queue()
    q.enqueue_batch(["a", "b", "c"], tenant_id="t")
    q.dispatcher.run_once()

    assert q.worker_queues.clear() == 3
    assert q.queues.length("t") == 3
    assert [d.payload for d in q.receive(max_messages=3)] == ["a", "b", "c"]


def test_a_lowered_limit_grants_nothing_and_revokes_nothing(make_queue):
    """Limits live: raising wakes who waits, 0 pauses, None lifts."""
    q = make_queue(concurrency_groups=[TENANT])
    q.enqueue_batch(list(range(10)), tenant_id="t")
    held = q.receive(max_messages=10)
    assert len(held) == 2
    q.groups.set_limit("tenant", "t", 5)
    held += q.receive(max_messages=10)
    assert len(held) == 5
    q.groups.set_limit("tenant", "t", 0)
    held.pop().complete()
    assert q.receive(max_messages=10) == []
    q.groups.set_limit("tenant", "t", None)
    assert len(q.receive(max_messages=10)) == 5
    assert q.groups.capacity("tenant", "t") is None
    q.groups.clear_limit("tenant", "t")
    assert q.groups.usage("tenant", "t") == (9, 2)


def test_several_groups_hold_together(make_queue):
    """A message needs a slot in each of its groups; a full organisation stops no stranger (FT13)."""
    org = ConcurrencyGroup(name="org", group_id=lambda m: m.metadata["org"], default_limit=3)
    q = make_queue(concurrency_groups=[TENANT, org])
    for tenant in "abc":
        q.enqueue_batch([NewMessage(payload=tenant, metadata={"org": "o"}) for _ in range(3)], tenant_id=tenant)
    held = q.receive(max_messages=10)
    assert [d.tenant_id for d in held] == ["a", "b", "c"]
    q.enqueue("x", tenant_id="stranger", metadata={"org": "p"})
    assert [d.tenant_id for d in q.receive(max_messages=10)] == ["stranger"]
    held[1].complete()
    assert [d.tenant_id for d in q.receive(max_messages=10)] == ["a"]
    assert q.groups.usage("org", "o") == (3, 3)
    assert q.audit() == []


def test_worker_queues_are_apart(make_queue):
    """A call for one worker queue takes nothing from another."""
    q = make_queue(worker_queue=lambda m: m.payload)
    q.enqueue_batch(["cpu", "gpu", "cpu"], tenant_id="t")

    assert [d.payload for d in q.receive("gpu", max_messages=5)] == ["gpu"]
    assert [d.payload for d in q.receive("cpu", max_messages=5)] == ["cpu", "cpu"]


@pytest.mark.parametrize(
    "name", ["a:b", "*", "{x}", "}{", "a b", "naïve-雪-😀", "../x", "%2F", "123", "a|b", "a\tb", "a,b=c/d"]
)
def test_hostile_names_are_only_names(make_queue, name):
    """Any characters may be in an id, and come back unchanged from everywhere (C19)."""
    group = ConcurrencyGroup(name=name, group_id=lambda m: m.tenant_id, default_limit=1)
    q: FairQueue = make_queue(retry=NoRetry(), worker_queue=name, concurrency_groups=[group])
    q.enqueue(1, tenant_id="control")
    q.enqueue(2, tenant_id=name, queue_id=name, message_id=name)
    taken = {d.tenant_id: d for d in q.receive(name, max_messages=5)}
    assert (taken[name].queue_id, taken[name].id) == (name, name)
    assert q.groups.usage(name, name) == (1, 1)
    taken[name].fail("x")
    taken["control"].complete()
    [letter] = q.dead_letters.list(name)
    assert (letter.tenant_id, letter.queue_id, letter.message_id) == (name, name, name)
    assert q.dead_letters.redrive(name, name, name)
    assert q.queues.length(name, name) == 1
    assert [m.message_id for m in q.messages.list(name, name)] == [name]
    assert [(i.tenant_id, i.queue_id) for i in q.queues.list(name)] == [(name, name)]
    assert q.tenants.list().items == [name]
    q.queues.pause(name, name)
    assert q.receive(name) == []
    q.queues.resume(name, name)
    q.receive(name)[0].complete()
    assert q.audit() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"tenant_id": ""},
        {"tenant_id": "x" * 257},
        {"tenant_id": 7},
        {"message_id": "\ud800"},
        {"queue_id": None},
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": float("inf")},
        {"delay": True},
        {"not_before": datetime(2030, 1, 1)},  # noqa: DTZ001 - naive on purpose
        {"delay": 1, "not_before": datetime(2030, 1, 1, tzinfo=UTC)},
        {"payload": float("nan")},
        {"payload": object()},
        {"payload": {1: 2}},
        {"payload": "x" * 300_000},
        {"metadata": {"x": "y" * 5000}},
    ],
)
def test_bad_input_is_refused_before_anything_is_written(make_queue, redis_client, namespace, wrong):
    """The error is a ValueError of ours, and no key appears."""
    q = make_queue()
    arguments = {"payload": 1, "tenant_id": "t", **wrong}

    with pytest.raises((InvalidArgument, InvalidId, PayloadError, PayloadTooLarge)) as caught:
        q.enqueue(arguments.pop("payload"), **arguments)
    assert isinstance(caught.value, ValueError)
    assert leftovers(redis_client, namespace) == []


def test_a_list_is_checked_whole_and_a_stream_item_by_item(make_queue):
    """One bad message refuses a list; of another iterable it is told in its receipt and the rest goes in."""
    q = make_queue()
    items = [1, float("nan"), 3]
    with pytest.raises(PayloadError):
        q.enqueue_batch(items, tenant_id="t")
    assert q.queues.length("t") == 0

    receipts = q.enqueue_batch(iter(items), tenant_id="t")
    assert [r.created for r in receipts] == [True, False, True]
    assert isinstance(receipts[1].error, PayloadError)
    assert [d.payload for d in q.receive(max_messages=5)] == [1, 3]


def test_other_settings_on_the_same_namespace_are_refused(make_queue):
    """A different shard count would hide messages: it refuses to start and names the way out."""
    make_queue().enqueue(1, tenant_id="t")

    with pytest.raises(SchemaMismatch, match="shard_count 1"):
        make_queue(shard_count=2).enqueue(1, tenant_id="t")


def test_several_shards_hold_whole_tenants(make_queue):
    """With many shards every message is found and done once."""
    q = make_queue(shard_count=8, concurrency_groups=[TENANT])
    for n in range(40):
        q.enqueue_batch(range(3), tenant_id=f"t{n}")
    done = 0
    while taken := q.receive(max_messages=50):
        done += len(taken)
        for delivery in taken:
            delivery.complete()
    assert done == 120
    assert q.audit() == []
