"""The bounds of the scheduler: each test on the model and on the server (FT numbers as in the design)."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from tests.fairness.drivers import ModelDriver, RedisDriver, release_all


@pytest.fixture(params=["model", pytest.param("server", marks=pytest.mark.server)])
def driver(request, make_queue):
    """A driver on demand."""
    if request.param == "model":
        return ModelDriver
    return lambda **options: RedisDriver(make_queue, **options)


def serve(d, total, batch, *, hold=False):
    """Dispatch *total* messages in calls of *batch*; tenants in order."""
    order = []
    while len(order) < total:
        got = d.dispatch(min(batch, total - len(order)))
        if not got:
            break
        order += [tenant for tenant, _ in got]
        if not hold:
            release_all(d, got)
    return order


def jain(counts):
    return sum(counts) ** 2 / (len(counts) * sum(c * c for c in counts))


def worst_lag(order, a, b, wa=1.0, wb=1.0, *, skip=0):
    """The greatest change of normalised service between two tenants over any interval of the sequence."""
    diff, low, high, worst = 0.0, 0.0, 0.0, 0.0
    for tenant in order[skip:]:
        diff += (tenant == a) / wa - (tenant == b) / wb
        worst = max(worst, diff - low, high - diff)
        low, high = min(low, diff), max(high, diff)
    return worst


@pytest.mark.parametrize("batch", [1, 7, 10, 64])
def test_ft1_every_window_is_even(driver, batch):
    """FT1: ten equal tenants share every window of 200 dispatches within 2, Jain 0.99 and better."""
    d = driver()
    for t in range(10):
        d.enqueue(f"t{t}", 100)
    order = serve(d, 800, batch)
    for start in range(0, 601, 20):
        counts = Counter(order[start : start + 200])
        assert all(abs(counts[f"t{t}"] - 20) <= 2 for t in range(10))
        assert jain([counts[f"t{t}"] for t in range(10)]) >= 0.99


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 1, 2, 4)])
def test_ft2_pairwise_lag_is_bounded(driver, weights):
    """FT2: over any interval two tenants differ by at most the sum of their quanta, one more around the lane."""
    d = driver()
    for i, weight in enumerate(weights):
        d.set_weight(f"t{i}", weight)
        d.enqueue(f"t{i}", 40 * weight)
    order = serve(d, 38 * sum(weights), 7)
    for i, wi in enumerate(weights):
        for j, wj in enumerate(weights[:i]):
            bound = 1 / wi + 1 / wj
            assert worst_lag(order, f"t{i}", f"t{j}", wi, wj, skip=2 * len(weights)) <= bound + 1e-9
            assert worst_lag(order, f"t{i}", f"t{j}", wi, wj) <= bound + max(1 / wi, 1 / wj) + 1e-9


def test_ft3_a_light_tenant_does_not_feel_the_backlog(driver):
    """FT3: one message every 50 dispatches waits for at most one other, the same behind 200 and 2,000 each."""
    positions = []
    for backlog in (200, 2000):
        d = driver()
        for t in range(5):
            d.enqueue(f"h{backlog}-{t}", backlog)
        waits = []
        for _ in range(10):
            serve(d, 50, 10)
            d.enqueue("light", 1)
            order = serve(d, 3, 1)
            waits.append(order.index("light"))
        assert max(waits) <= 1
        positions.append(waits)
        serve(d, 10**6, 500)
    assert positions[0] == positions[1]


def test_ft4_a_call_that_asks_gets_what_can_run(driver):
    """FT4: whatever the limits and delays, a call returns fewer than asked only when nothing due has room."""
    rng = random.Random(4)
    orgs = {f"t{i}": f"o{i % 3}" for i in range(12)}
    d = driver(tenant_limit=3, org_limit=5, org=orgs)
    due, running = [], []
    now = 0
    for _ in range(250):
        what = rng.random()
        tenant = rng.choice(list(orgs))
        if what < 0.5:
            delay = rng.choice([0, 0, 0, 500])
            d.enqueue(tenant, 1, delay_ms=delay, queue=rng.choice("ab"))
            due.append((tenant, now + delay))
        elif what < 0.8:
            n = rng.randint(1, 6)
            got = d.dispatch(n)
            running += got
            for t, _ in got:
                due.remove(min((entry for entry in due if entry[0] == t), key=lambda entry: entry[1]))
            if len(got) < n:
                per_tenant, per_org = Counter(t for t, _ in running), Counter(orgs[t] for t, _ in running)
                for t, at in due:
                    assert at > now or per_tenant[t] >= 3 or per_org[orgs[t]] >= 5, f"{t} could run"
        elif what < 0.95 and running:
            assert d.release(running.pop(rng.randrange(len(running))))
        else:
            d.advance(100)
            now += 100
        d.check()


@pytest.mark.parametrize("blocked", [50, 1001])
def test_ft5_blocked_tenants_stand_outside(driver, blocked):
    """FT5: however many tenants are blocked with older work, a free one is served by the next call."""
    d = driver(tenant_limit=1)
    for t in range(blocked):
        d.enqueue(f"b{t:05d}", 2)
    assert len(serve(d, blocked, 500, hold=True)) == blocked
    while d.dispatch(100):
        pass
    d.enqueue("x", 1)
    assert [t for t, _ in d.dispatch(5)] == ["x"]


def test_ft5_commands_do_not_grow_with_the_blocked(make_queue):
    """FT5: the call that serves a free tenant costs the same commands beside 10 and 1,500 blocked ones, at most 30."""
    costs = []
    d = RedisDriver(make_queue, tenant_limit=1)

    def commands():
        stats = d.q.client.info("commandstats")
        return sum(s["calls"] for name, s in stats.items() if name not in {"cmdstat_evalsha", "cmdstat_info"})

    made = 0
    for blocked in (10, 1500):
        while made < blocked:
            d.enqueue(f"b{made:05d}", 2)
            made += 1
        serve(d, blocked, 500, hold=True)
        while d.dispatch(100):
            pass
        d.enqueue("x", 1)
        before = commands()
        [message] = d.dispatch(5)
        costs.append(commands() - before)
        d.release(message)
    assert max(costs) <= 30
    assert abs(costs[0] - costs[1]) <= 2


@pytest.mark.parametrize(("weights", "total"), [((1, 2, 4), 700), ((1, 100), 1010)])
def test_ft6_weights_are_exact(driver, weights, total):
    """FT6: backlogged tenants are served in proportion to their weights, within 3."""
    d = driver()
    for i, weight in enumerate(weights):
        d.set_weight(f"t{i}", weight)
        d.enqueue(f"t{i}", total)
    counts = Counter(serve(d, total, 50))
    for i, weight in enumerate(weights):
        assert abs(counts[f"t{i}"] - total * weight / sum(weights)) <= 3


@pytest.mark.parametrize("how", ["idle", "parked"])
def test_ft8_ft9_no_hoarding_and_no_penalty(driver, how):
    """FT8, FT9: back from idleness or from its limit a tenant gets its share at once, and no more."""
    d = driver(tenant_limit=2000)
    for t in range(9):
        d.enqueue(f"busy{t}", 300)
    d.enqueue("t", 3)
    serve(d, 20, 10)
    if how == "parked":
        d.set_limit("tenant", "t", 0)
        d.enqueue("t", 100)
    order = serve(d, 1000, 50)
    assert order.count("t") <= 3
    if how == "parked":
        d.set_limit("tenant", "t", 2000)
    else:
        d.enqueue("t", 100)
    order = serve(d, 100, 10)
    assert order.index("t") <= 1
    assert order.count("t") <= 12


def test_ft10_a_stream_of_new_identities_starves_nobody(driver):
    """FT10: three new one-message tenants always wait; the backlogged one is served at least every 30th time."""
    d = driver()
    d.enqueue("zz", 300)
    order, fresh = [], 0
    for _ in range(600):
        while fresh < len(order) - order.count("zz") + 3:
            d.enqueue(f"n{fresh:05d}", 1)
            fresh += 1
        order += serve(d, 1, 1)
    places = [i for i, tenant in enumerate(order) if tenant == "zz"]
    assert len(places) >= 90
    assert max(b - a for a, b in itertools.pairwise(places)) <= 30


def test_ft11_draining_and_refilling_gains_nothing(driver):
    """FT11: five tenants that refill on each service do not push the backlogged one below its share."""
    d = driver()
    d.enqueue("backlogged", 200)
    for t in range(5):
        d.enqueue(f"r{t}", 1)
    order = []
    for _ in range(600):
        order += (served := serve(d, 1, 1))
        if served[0] != "backlogged":
            d.enqueue(served[0], 1)
    assert abs(order.count("backlogged") - 100) <= 3


def test_ft12_nothing_starts_before_it_is_due(driver):
    """FT12: due work of a queue comes, work due in an hour does not, however much is asked for."""
    d = driver()
    d.enqueue("t", 100, delay_ms=3_600_000)
    d.enqueue("t", 5)
    assert len(serve(d, 50, 10)) == 5
    d.advance(3_599_999)
    assert d.dispatch(10) == []
    d.advance(1)
    assert len(serve(d, 200, 50)) == 100


def test_ft13_a_full_organisation_stops_only_itself(driver):
    """FT13: with an organisation at its limit a stranger is served at once; one release wakes exactly one waiter."""
    d = driver(org_limit=3, org={"a": "o", "b": "o", "c": "o", "x": "p"})
    for tenant in "abc":
        d.enqueue(tenant, 10)
    held = d.dispatch(10)
    assert len(held) == 3
    d.enqueue("x", 1)
    assert [t for t, _ in d.dispatch(10)] == ["x"]
    d.release(held[0])
    assert len(d.dispatch(10)) == 1
    d.check()


def test_ft15_many_queues_gain_nothing(driver):
    """FT15: a tenant of 50 queues and one of a single queue get the same."""
    d = driver()
    for i in range(50):
        d.enqueue("many", 12, queue=f"q{i}")
    d.enqueue("one", 600)
    counts = Counter(serve(d, 500, 20))
    assert abs(counts["many"] - 250) <= 2


def test_ft16_drained_tenants_do_not_stand_in_the_way(driver):
    """FT16: two hundred tenants are drained and all running; a new one is served by the next call."""
    d = driver()
    for t in range(200):
        d.enqueue(f"t{t}", 1)
    assert len(serve(d, 200, 50, hold=True)) == 200
    d.enqueue("new", 1)
    assert [t for t, _ in d.dispatch(1)] == ["new"]


def test_ft20_a_second_release_does_nothing(driver):
    """FT20: releasing twice frees one slot and wakes one waiter."""
    d = driver(tenant_limit=1)
    d.enqueue("t", 3)
    [first] = d.dispatch(5)
    assert d.release(first)
    assert not d.release(first)
    assert len(d.dispatch(5)) == 1
    d.check()


@pytest.mark.parametrize("seed", range(60))
def test_ft19_the_server_does_what_the_model_says(make_queue, seed):
    """FT19, FT21: random work with limits, weights and delays: the same messages in the same order, v bit for bit."""
    rng = random.Random(seed)
    tenants = [f"t{i}" for i in range(rng.randint(2, 10))]
    options = {
        "tenant_limit": rng.randint(1, 5) if rng.random() < 0.7 else None,
        "org_limit": rng.randint(1, 7) if rng.random() < 0.7 else None,
        "org": {t: f"o{rng.randint(0, 2)}" for t in tenants},
    }
    model, server = ModelDriver(**options), RedisDriver(make_queue, **options)
    both = model, server
    for t in tenants:
        weight = rng.choice([0.5, 1, 1, 2, 3])
        for d in both:
            d.set_weight(t, weight)
    running = []
    for step in range(150):
        what = rng.random()
        if what < 0.45:
            t, queue, n = rng.choice(tenants), rng.choice("abc"), rng.randint(1, 3)
            delay = rng.choice([0, 0, 0, rng.randint(1, 4000)])
            for d in both:
                d.enqueue(t, n, queue=queue, delay_ms=delay)
        elif what < 0.75:
            n = rng.randint(1, 8)
            expected, got = (d.dispatch(n) for d in both)
            assert got == expected, (seed, step)
            running += got
        elif what < 0.92 and running:
            message = running.pop(rng.randrange(len(running)))
            for d in both:
                assert d.release(message)
        elif what < 0.96 and options["org_limit"] is not None:
            limit = rng.choice([0, 1, 3, 6])
            for d in both:
                d.set_limit("org", f"o{step % 3}", limit)
        else:
            ms = rng.randint(1, 1500)
            for d in both:
                d.advance(ms)
        model.check()
        assert server.virtual_time() == model.virtual_time(), (seed, step)
    assert server.q.audit() == []
