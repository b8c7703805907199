"""The Flask extension: apps, requests, handlers, and the command in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from flask import Flask, current_app, request

from fairqueue import ConfigurationError, InvalidArgument
from fairqueue.contrib.flask import FlaskFairQueue
from fairqueue.tenancy import current_tenant, tenant_context

pytestmark = pytest.mark.server


@pytest.fixture
def make_app(server_url, namespace):
    apps = []

    def make(extension, name="shop", **config):
        app = Flask(name)
        app.config.update({"FAIRQUEUE_URL": server_url, "FAIRQUEUE_NAMESPACE": namespace, **config})
        extension.init_app(app)
        apps.append((extension, app))
        return app

    yield make
    for extension, app in apps:
        extension.close(app)


def test_a_request_enqueues_and_a_handler_has_the_app(make_app):
    """The tenant comes from the request; tasks and handlers run inside an app context, for that tenant."""
    fq, seen = FlaskFairQueue(), []
    app = make_app(fq, FAIRQUEUE_TENANT_FROM_REQUEST=lambda r: r.headers.get("X-Tenant"))

    @fq.task("report.build")
    def build(number):
        seen.append(("task", number, current_app.name, current_tenant()))

    @fq.handles("mail")
    def mail(delivery):
        seen.append(("mail", delivery.payload, current_app.name, current_tenant()))

    @app.post("/")
    def index():
        build.enqueue(1)
        fq.enqueue("hello", queue_id="mail", tenant_id=request.args.get("tenant"))
        return "", 202

    client = app.test_client()
    assert client.post("/", headers={"X-Tenant": "acme"}).status_code == 202
    assert client.post("/?tenant=zeta", headers={"X-Tenant": "acme"}).status_code == 202
    worker = fq.worker(app)
    while worker.run_once():
        pass

    assert sorted(seen) == [
        ("mail", "hello", "shop", "acme"),
        ("mail", "hello", "shop", "zeta"),
        ("task", 1, "shop", "acme"),
        ("task", 1, "shop", "acme"),
    ]


def test_without_a_tenant_nothing_is_enqueued(make_app):
    """Outside a request, or where the request has none, tenant_id or tenant_context is needed."""
    fq = FlaskFairQueue()
    app = make_app(fq, FAIRQUEUE_TENANT_FROM_REQUEST=lambda _: None)
    with app.app_context(), pytest.raises(InvalidArgument, match="tenant_context"):
        fq.enqueue(1)
    with app.test_request_context(), pytest.raises(InvalidArgument, match="tenant_context"):
        fq.enqueue(1)
    with app.app_context(), tenant_context("acme"):
        assert fq.enqueue(1).tenant_id == "acme"
        assert fq.queue.queues.length("acme", "default") == 1


def test_apps_of_one_process_have_queues_of_their_own(make_app, namespace):
    """One extension serves two apps; each has its own settings and messages."""
    fq = FlaskFairQueue()
    one = make_app(fq, "one")
    two = make_app(fq, "two", FAIRQUEUE_NAMESPACE=f"{namespace}-two", FAIRQUEUE_VISIBILITY_TIMEOUT=7)
    with one.app_context():
        fq.enqueue("first", tenant_id="t")
        assert fq.queue.options.visibility_timeout == 30
    with two.app_context():
        assert fq.queue.queues.count() == 0
        assert fq.queue.options.visibility_timeout == 7


def test_nothing_is_open_until_it_is_used():
    """init_app connects to nothing, so a server may preload the app; a missing URL is told when it is needed."""
    app, fq = Flask("shop"), FlaskFairQueue()
    before = threading.active_count()
    fq.init_app(app)
    assert app.extensions["fairqueue"].opened == {}
    assert threading.active_count() == before
    with app.app_context(), pytest.raises(ConfigurationError, match="FAIRQUEUE_URL"):
        _ = fq.queue


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"FAIRQUEUE_COLOR": 1}, "FAIRQUEUE_COLOR"),
        ({"FAIRQUEUE_SHARD_COUNT": 0}, "shard_count"),
        ({"FAIRQUEUE_TENANT_FROM_REQUEST": "x"}, "TENANT_FROM_REQUEST"),
    ],
)
def test_wrong_settings_are_refused(config, says):
    """An unknown or wrong setting is told by init_app."""
    app = Flask("shop")
    app.config.update(config)
    with pytest.raises(ConfigurationError, match=says):
        FlaskFairQueue(app)


def test_an_app_without_the_extension_is_told():
    """So is one that has it twice."""
    app = Flask("shop")
    with app.app_context(), pytest.raises(ConfigurationError, match="init_app"):
        _ = FlaskFairQueue().queue
    FlaskFairQueue(app)
    with pytest.raises(ConfigurationError, match="already"):
        FlaskFairQueue(app)


APP = """
import os
from flask import Flask
from fairqueue.contrib.flask import FlaskFairQueue

app = Flask("shop")
app.config.from_prefixed_env()
fq = FlaskFairQueue(app)


@fq.task("say")
def say(text):
    print("said", text, flush=True)
"""


def test_the_command_works_until_it_is_told_to_stop(make_app, server_url, namespace, tmp_path):
    """`flask fairqueue worker` handles messages, drains on SIGTERM and ends with 0."""
    (tmp_path / "shop.py").write_text(APP)
    fq = FlaskFairQueue()
    with make_app(fq).app_context():
        fq.enqueue({"task": "say", "args": ["hello"], "kwargs": {}}, tenant_id="acme")
    where = {"FLASK_FAIRQUEUE_URL": server_url, "FLASK_FAIRQUEUE_NAMESPACE": namespace}
    child = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "shop", "fairqueue", "worker", "--threads", "2"],
        cwd=tmp_path,
        env=os.environ | where,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "said hello\n"
        child.send_signal(signal.SIGTERM)
        _, errors = child.communicate(timeout=20)
    finally:
        child.kill()
    assert child.returncode == 0, errors
    assert "Traceback" not in errors
