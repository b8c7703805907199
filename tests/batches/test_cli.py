"""The command `batchqueue`."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchqueue import BatchQueue, ItemFailed
from batchqueue.cli import main
from batchqueue.cli_command import printable
from batchqueue.cli_intake import LONGEST, read_lines
from batchqueue.cli_meter import meter
from batchqueue.stream import CHUNK
from fairqueue import ImmediateRetry
from tests.batches.conftest import Recorder

ROOT = Path(__file__).resolve().parents[2]
EVIL = "b\x1b[31m\u202e\x9b"


@pytest.fixture
def b(make_batches):
    return make_batches(clock=None)


@pytest.fixture
def command(server_url, namespace, b):
    """Runs a command in this process; *code* is the exit code it must give."""

    def run(*args, code=0, data=None):
        where = {"BATCHQUEUE_URL": server_url, "BATCHQUEUE_NAMESPACE": namespace}
        done = CliRunner().invoke(main, list(args), input=data, env=where)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        return done

    return run


@pytest.fixture
def process(server_url, namespace, tmp_path):
    """Starts a command in a process of its own; what is left at the end is killed."""
    started = []

    def start(*args, stdin=subprocess.DEVNULL, **env):
        where = {**os.environ, "BATCHQUEUE_URL": server_url, "BATCHQUEUE_NAMESPACE": namespace, **env}
        started.append(
            subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "batchqueue", *args],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env=where | {"PYTHONPATH": str(ROOT)},
            )
        )
        return started[-1]

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


def until(condition):
    """Wait for what other processes do."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def ndjson(*values):
    return "".join(f"{json.dumps(value)}\n" for value in values)


# -- one after the other


def test_a_batch_from_a_file_to_its_end(command, b, tmp_path):
    """init, add, status, watch: the items of a file run, the exit code of watch says that all succeeded."""
    record = Recorder(b)
    (tmp_path / "items.ndjson").write_text(ndjson(*range(1200)))
    made = json.loads(command("init", "b1", "--tenant", "t", "--metadata", '{"a": 1}', "--json").stdout)
    assert (made["status"], made["metadata"], made["next_index"]) == ("filling", {"a": 1}, 0)
    done = command("add", "b1", "--tenant", "t", str(tmp_path / "items.ndjson"))
    assert done.stdout == "batch b1 is sealed; enqueued 1,200, already in 0, refused 0\n"
    record.drain()
    assert [item.payload for item in record.items] == list(range(1200))
    assert "completed: 1,200 of 1,200 in, 1,200 succeeded" in command("status", "b1", "--tenant", "t").stdout
    assert "completed, 1,200 succeeded" in command("watch", "b1", "--tenant", "t").stdout
    assert json.loads(command("watch", "b1", "--tenant", "t", "--json").stdout)["succeeded"] == 1200


def test_adding_again_sends_nothing(command):
    """What is in already is skipped, also when the batch has ended."""
    command("init", "b1", "--tenant", "t")
    command("add", "b1", "--tenant", "t", data=ndjson(1, 2))
    again = command("add", "b1", "--tenant", "t", "--json", data=ndjson(1, 2))
    assert json.loads(again.stdout) == {
        "tenant_id": "t", "batch_id": "b1", "status": "sealed", "enqueued": 0, "already_in": 2, "refused": 0,
    }  # fmt: skip


def test_bad_lines_keep_their_index(command, b):
    """Blank lines take none; a bad line is told with its number and reason, and goes in once it is mended."""
    record = Recorder(b)
    command("init", "b1", "--tenant", "t")
    lines = ['\ufeff"zero"', "", "{oops", "   ", '"two"\r', "[1e999]", f'"{"x" * 300_000}"', '"five"']
    done = command("add", "b1", "--tenant", "t", data="\n".join(lines), code=1)
    told = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in told[:3]] == [
        "line 3 (item 1) refused", "line 6 (item 3) refused", "line 7 (item 4) refused",
    ]  # fmt: skip
    assert "not JSON" in told[0]
    assert "max_payload_bytes" in told[2]
    assert "mend them and run the same command again" in told[-1]
    assert done.stdout.splitlines()[-1] == "batch b1 is filling; enqueued 3, already in 0, refused 3"
    lines[2], lines[5], lines[6] = "1", "3", "4"
    done = command("add", "b1", "--tenant", "t", data="\n".join(lines))
    assert done.stdout == "batch b1 is sealed; enqueued 3, already in 3, refused 0\n"
    record.drain()
    assert [(item.index, item.payload) for item in record.items] == [
        (0, "zero"), (1, 1), (2, "two"), (3, 3), (4, 4), (5, "five"),
    ]  # fmt: skip


def test_sealing_in_spite_of_bad_lines(command, b):
    """With --seal the batch ends without what was refused; the exit code still tells."""
    Recorder(b)
    command("init", "b1", "--tenant", "t")
    done = command("add", "b1", "--tenant", "t", "--seal", data="1\nx\n3\n", code=1)
    assert done.stdout.splitlines()[-1] == "batch b1 is sealed; enqueued 2, already in 0, refused 1"
    assert "it is sealed without them" in done.stderr


@pytest.mark.parametrize("bad", ["oops", f'"{"x" * 300_000}"'], ids=["not JSON", "refused payload"])
def test_stop_on_bad(command, b, bad):
    """What came before is in, nothing after it, and the batch is not sealed, whatever was asked."""
    command("init", "b1", "--tenant", "t")
    done = command("add", "b1", "--tenant", "t", "--stop-on-bad", "--seal", data=f"0\n1\n{bad}\n3\nworse\n", code=1)
    assert done.stdout.splitlines()[-1] == "batch b1 is filling; enqueued 2, already in 0, refused 1"
    assert "line 3 (item 2)" in done.stderr
    assert "line 5" not in done.stderr


def test_parts_and_a_declared_count(command, b):
    """--start places a part; a batch with a declared count seals itself, and --seal says what is missing."""
    command("init", "b1", "--tenant", "t", "--items", "5")
    assert "is filling" in command("add", "b1", "--tenant", "t", "--start", "3", data="3\n4\n").stdout
    done = command("add", "b1", "--tenant", "t", "--seal", data="0\n1\n", code=1)
    assert "the first missing is 2" in done.stderr
    assert done.stdout.splitlines()[-1] == "batch b1 is filling; enqueued 2, already in 0, refused 0"
    done = command("add", "b1", "--tenant", "t", "--start", "2", data="2\n33\n44\n55\n", code=1)
    assert "line 4 (item 5) refused: index 5 is not below the item count" in done.stderr
    assert done.stdout.splitlines()[-1] == "batch b1 is sealed; enqueued 1, already in 2, refused 1"


def test_a_closed_batch_ends_the_reading(command, b):
    """Only the first line is told, and nothing more is read."""
    command("init", "b1", "--tenant", "t")
    command("cancel", "b1", "--tenant", "t", "--yes")
    done = command("add", "b1", "--tenant", "t", data=ndjson(*range(3 * CHUNK)), code=1)
    assert len(done.stderr.splitlines()) <= 3
    assert "it is cancelled without them" in done.stderr
    assert f"refused {CHUNK:,}\n" in done.stdout


def test_an_endless_line_is_refused_and_skipped():
    """A line is never held beyond 4 MiB; what follows it is read as ever."""
    source = io.BytesIO(b"1\n" + b" " * (3 * LONGEST) + b"2\n3\n" + b"4" * (LONGEST - 1) + b"\n" + b"5" * LONGEST)
    lines = list(read_lines(source, 10))
    assert [(line.number, line.index, line.text is None) for line in lines] == [
        (1, 10, False), (2, 11, True), (3, 12, False), (4, 13, False), (5, 14, False),
    ]  # fmt: skip


def test_init_again(command):
    """The same call finds the batch, another is refused, an idempotency key answers with what it made."""
    command("init", "b1", "--tenant", "t", "--items", "3", "--concurrency", "2", "--fill-timeout", "60")
    command("init", "b1", "--tenant", "t", "--items", "3", "--concurrency", "2", "--fill-timeout", "60")
    assert "nothing was changed" in command("init", "b1", "--tenant", "t", "--items", "4", code=1).stderr
    for name in ("k1", "k2"):
        made = json.loads(command("init", name, "--tenant", "t", "--idempotency-key", "key", "--json").stdout)
        assert made["batch_id"] == "k1"


def test_failures_and_running_them_again(command, b):
    """All are listed, page after page; retry-failed takes them back; watch then ends with 0."""
    record = Recorder(b, behave=lambda _: (_ for _ in ()).throw(ItemFailed(f"bad {EVIL}", code="E1")))
    command("init", "b1", "--tenant", "t")
    command("add", "b1", "--tenant", "t", data=ndjson(*range(600)))
    record.drain()
    command("watch", "b1", "--tenant", "t", code=1)
    rows = [json.loads(line) for line in command("failures", "b1", "--tenant", "t", "--json").stdout.splitlines()]
    assert [(row["index"], row["code"], row["payload"]) for row in rows] == [(n, "E1", n) for n in range(600)]
    plain = command("failures", "b1", "--tenant", "t").stdout
    assert len(plain.splitlines()) == 600
    assert "\x1b" not in plain
    record.behave = lambda _: None
    assert "600 items run again" in command("retry-failed", "b1", "--tenant", "t").stdout
    record.drain()
    command("watch", "b1", "--tenant", "t")
    assert json.loads(command("retry-failed", "b1", "--tenant", "t", "--json").stdout)["retried"] == 0


def test_a_callback_that_was_given_up_on_is_called_again(command, make_batches):
    """retry-callback: refused with the state it is in, until the callback has failed for good."""
    record = Recorder(make_batches(clock=None, callback_retry=ImmediateRetry(1)))
    record.on_end = lambda result: 1 / 0
    command("init", "b1", "--tenant", "t", "--items", "1")
    assert "is filling: only a batch" in command("retry-callback", "b1", "--tenant", "t", code=1).stderr
    command("add", "b1", "--tenant", "t", data="1\n")
    record.drain()
    assert "is callback_failed" in command("status", "b1", "--tenant", "t").stdout
    record.on_end = lambda result: None
    shown = json.loads(command("retry-callback", "b1", "--tenant", "t", "--json").stdout)
    assert shown["status"] == "completing"
    record.drain()
    assert len(record.results) == 2
    assert "is completed: only a batch" in command("retry-callback", "b1", "--tenant", "t", code=1).stderr


def test_seal_and_cancel(command):
    """Sealing ends the filling; cancel asks, does it once, and says when there is nothing to cancel."""
    command("init", "b1", "--tenant", "t")
    command("add", "b1", "--tenant", "t", "--no-seal", data="1\n")
    assert "filling" in command("status", "b1", "--tenant", "t").stdout
    assert "is sealed" in command("seal", "b1", "--tenant", "t").stdout
    command("cancel", "b1", "--tenant", "t", data="n\n", code=1)
    assert "is sealed" in command("status", "b1", "--tenant", "t").stdout
    assert "is cancelled" in command("cancel", "b1", "--tenant", "t", data="y\n").stdout
    assert "first" not in command("seal", "b1", "--tenant", "t", code=1).stdout


def test_cancelling_what_ended(command, b):
    """It is refused, with the state it is in."""
    record = Recorder(b)
    command("init", "b1", "--tenant", "t", "--items", "0")
    record.drain()
    assert "is completed: nothing to cancel" in command("cancel", "b1", "--tenant", "t", "--yes", code=1).stderr


def test_list(command, b):
    """All batches, or one tenant's, or those in a state."""
    for tenant in ("t1", "t2"):
        for name in ("a", "b"):
            command("init", name, "--tenant", tenant)
    command("cancel", "b", "--tenant", "t2", "--yes")
    assert len(command("list").stdout.splitlines()) == 4
    [row] = command("list", "--tenant", "t2", "--status", "cancelled", "--json").stdout.splitlines()
    assert (json.loads(row)["tenant_id"], json.loads(row)["batch_id"]) == ("t2", "b")


def test_nothing_steers_the_terminal(command, b):
    """Ids are written with escapes, in output, errors and JSON."""
    command("init", EVIL, "--tenant", EVIL)
    outputs = [
        command("status", EVIL, "--tenant", EVIL).stdout,
        command("list").stdout,
        command("list", "--json").stdout,
        command("watch", EVIL, "--tenant", "nobody", code=1).stderr,
        command("init", EVIL, "--tenant", EVIL, "--items", "1", code=1).stderr,
    ]
    for text in outputs:
        assert text.replace("\n", "").isprintable()
    assert printable("é雪 \x1b[0m\n") == "é雪 \\x1b[0m\\n"


# -- errors


def test_expected_errors_are_one_line(command):
    """What, which id and what to do; exit code 1, no traceback."""
    for name in ("status", "seal", "add", "watch", "failures", "retry-failed", "retry-callback"):
        done = command(name, "nothing", "--tenant", "t", code=1)
        assert done.stderr.count("\n") == 1
        assert "there is no batch 'nothing' of tenant 't'" in done.stderr
        assert "batchqueue init" in done.stderr
    assert "256 bytes" in command("init", "x" * 300, "--tenant", "t", code=1).stderr


def test_wrong_usage(command, namespace):
    """Exit code 2."""
    command("init", "b1", code=2)
    command("init", "b1", "--tenant", "t", "--items", "-1", code=2)
    command("init", "b1", "--tenant", "t", "--metadata", "[1]", code=2)
    command("init", "b1", "--tenant", "t", "--metadata", "{", code=2)
    command("add", "b1", "--tenant", "t", "/no/such/file", code=2)
    command("list", "--status", "odd", code=2)
    done = CliRunner().invoke(main, ["list"], env={"BATCHQUEUE_URL": None, "FAIRQUEUE_URL": None})
    assert done.exit_code == 2
    assert "BATCHQUEUE_URL" in done.stderr


def test_the_server_of_fairqueue_will_do(server_url, namespace):
    """FAIRQUEUE_URL is asked after BATCHQUEUE_URL."""
    where = {"BATCHQUEUE_URL": None, "FAIRQUEUE_URL": server_url}
    assert CliRunner().invoke(main, ["list", "--namespace", namespace], env=where).exit_code == 0


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:s3cret@127.0.0.1:1/0",
        "http://u:s3cret@h",
        "redis://u:s3cret@h:port",
        "redis://u:s3cret@[::1/0",
        "redis://u:s3cret@h/0?bogus=1",
    ],
)
def test_a_url_that_does_not_work(command, url):
    """One line, without the password."""
    done = command("list", "--url", url, code=1)
    assert done.stderr.count("\n") == 1
    assert "s3cret" not in done.output


def test_another_shard_count(command):
    """The text says what the namespace was made with."""
    command("init", "b1", "--tenant", "t")
    assert "shard_count 1" in command("list", "--shards", "4", code=1).stderr


# -- processes

APP = """
import os, time
from batchqueue import BatchQueue
batches = BatchQueue.connect(os.environ["BATCHQUEUE_URL"], namespace=os.environ["BATCHQUEUE_NAMESPACE"])

@batches.on_process_item
def process(item):
    time.sleep(item.payload)
    return item.index

def make():
    return batches

other = 1
def broken():
    import not_there
"""


def test_an_ingest_killed_midway(process, command, b, tmp_path):
    """Run again, the same command puts in the rest: every item once, in its place."""
    record, total = Recorder(b), 3000
    command("init", "b1", "--tenant", "t")
    batch = b.get("t", "b1")
    first = process("add", "b1", "--tenant", "t", stdin=subprocess.PIPE)
    for n in range(total // 2):
        first.stdin.write(f"{n}\n")
    first.stdin.flush()
    until(lambda: batch.next_index() >= CHUNK)
    first.kill()
    assert first.wait() == -signal.SIGKILL
    there = batch.next_index()
    assert 0 < there < total
    (tmp_path / "items.ndjson").write_text(ndjson(*range(total)))
    second = process("add", "b1", "--tenant", "t", "items.ndjson", "--json")
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    told = json.loads(out)
    assert (told["enqueued"], told["already_in"], told["status"]) == (total - there, there, "sealed")
    record.drain()
    assert [(item.index, item.payload) for item in record.items] == [(n, n) for n in range(total)]
    assert batch.progress().status == "completed"


@pytest.mark.faults
def test_memory_stays_flat(process, command, tmp_path):
    """A file of 150,000 items takes no more of it than one of 1,000."""
    peaks = []
    for name, total in (("small", 1000), ("large", 150_000)):
        with (tmp_path / name).open("w") as file:
            file.writelines(f'{{"n": {n}, "text": "{"x" * 40}"}}\n' for n in range(total))
        command("init", name, "--tenant", "t")
        child = process("add", name, "--tenant", "t", name)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        peaks.append(usage.ru_maxrss)
    assert peaks[1] < peaks[0] + 8192  # KiB; the large file has 9 MiB


@pytest.mark.parametrize("name", ["batches", "make"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_drains(process, command, b, tmp_path, name, number):
    """On a signal it ends what it has begun, gives the rest back, and exits with 0."""
    (tmp_path / "app.py").write_text(APP)
    command("init", "b1", "--tenant", "t")
    command("add", "b1", "--tenant", "t", data=ndjson(*[0] * 20, *[1] * 20))
    child = process("worker", f"app:{name}")
    batch = b.get("t", "b1")
    until(lambda: batch.progress().succeeded >= 20 and b.queue.inflight.count())
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    assert "app:" in err
    assert "Traceback" not in out + err
    assert b.queue.inflight.count() == 0
    assert 20 < batch.progress().succeeded < 40
    assert batch.progress().failed == 0


def test_a_signal_at_once(process, tmp_path):
    """A worker that is told to stop as soon as it says that it runs exits with 0."""
    (tmp_path / "app.py").write_text(APP)
    child = process("worker", "app:make")
    assert "app:make runs" in child.stderr.readline()
    child.terminate()
    assert child.wait(30) == 0


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("app", "is not MODULE:NAME"),
        ("app:", "is not MODULE:NAME"),
        ("apq:make", "there is no module 'apq'"),
        ("..:make", "is not the name of a module"),
        ("app:nothing", "has no 'nothing'"),
        ("app:other", "is a int, and no BatchQueue"),
    ],
)
def test_a_worker_of_nothing(process, tmp_path, target, why):
    """Wrong usage, said in a line."""
    (tmp_path / "app.py").write_text(APP)
    _, err = (child := process("worker", target)).communicate(timeout=30)
    assert child.returncode == 2
    assert why in err
    assert "Traceback" not in err


def test_a_worker_without_a_callback(process, tmp_path):
    """It says what to register."""
    (tmp_path / "bare.py").write_text(APP.replace("@batches.on_process_item", ""))
    _, err = (child := process("worker", "bare:batches")).communicate(timeout=30)
    assert child.returncode == 1
    assert "on_process_item" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_worker_without_a_server(process, tmp_path):
    """It says so and ends."""
    (tmp_path / "app.py").write_text(APP)
    child = process("worker", "app:batches", BATCHQUEUE_URL="redis://u:s3cret@127.0.0.1:1/0")
    _, err = child.communicate(timeout=30)
    assert child.returncode == 1
    assert "could not be reached" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert "s3cret" not in err


def test_a_mistake_in_the_users_module_is_shown(process, tmp_path):
    """What the user's own code raises keeps its traceback."""
    (tmp_path / "app.py").write_text(APP)
    _, err = (child := process("worker", "app:broken")).communicate(timeout=30)
    assert child.returncode == 1
    assert "import not_there" in err


def test_a_pipe_gets_plain_lines(process, command):
    """No bar and no escapes where no terminal is."""
    command("init", "b1", "--tenant", "t")
    child = process("add", "b1", "--tenant", "t", stdin=subprocess.PIPE)
    out, err = child.communicate(ndjson(1, 2, 3), timeout=30)
    assert (child.returncode, out) == (0, "batch b1 is sealed; enqueued 3, already in 0, refused 0\n")
    assert err == "adding to b1: 3 lines, 0 refused\n"


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self):
        return True


@pytest.mark.parametrize("rich", [True, False])
def test_a_terminal_gets_a_bar(monkeypatch, rich):
    """With rich a bar, redrawn; without it the same text in plain lines."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    with meter(f"adding [red] {EVIL}", total=10, err=True) as shown:
        shown.note("line [red] 1")
        shown.show(5, "5 lines [bold]")
    text = sys.stderr.getvalue()
    assert ("\x1b[?25l" in text) == rich
    assert "\x1b[31m" not in text
    assert "5 lines [bold]" in text
    assert "line [red] 1\n" in text
    assert "adding [red] b\\x1b[31m\\u202e\\x9b" in text


def test_a_reader_that_goes_away(process, command):
    """`batchqueue list | head` ends quietly."""
    for n in range(3):
        command("init", f"b{n}", "--tenant", "t")
    child = process("list")
    child.stdout.close()
    child.stdout = None
    _, err = child.communicate(timeout=30)
    assert err == ""


def test_watch_follows_to_the_end(process, command, b, tmp_path):
    """In another process: lines as it goes, exit 0 when completed."""
    record = Recorder(b)
    command("init", "b1", "--tenant", "t")
    child = process("watch", "b1", "--tenant", "t", "--json", "--interval", "0.05")
    assert json.loads(child.stdout.readline())["status"] == "filling"
    command("add", "b1", "--tenant", "t", data=ndjson(1, 2))
    record.drain()
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["status"] == "completed"


def test_a_queue_opened_by_url(server_url, namespace):
    """The command sees what a program made with the same namespace, and the other way round."""
    with BatchQueue.connect(server_url, namespace=namespace) as b:
        b.initialize("b1", tenant_id="t").add(0, "x")
    done = CliRunner().invoke(main, ["status", "b1", "--tenant", "t", "--url", server_url, "--namespace", namespace])
    assert "1 in" in done.stdout
