"""A TCP proxy that loses what it is told to lose."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """Forwards to a server; cuts the next request or the next reply on demand.

    Only data that holds *match* (bytes) is cut; the first connection it meets is closed with it.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._cut: tuple[str, bytes] | None = None
        self._frozen = False
        self._freezes = 0
        self._swaps: list[tuple[bytes, bytes]] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._sockets: set[socket.socket] = set()
        self._threads[0].start()

    def cut_request(self, match: bytes = b"") -> None:
        """Drop the next request and close its connection."""
        with self._lock:
            self._cut = ("request", match)

    def cut_reply(self, match: bytes = b"") -> None:
        """Forward the next request, drop its reply and close the connection."""
        with self._lock:
            self._cut = ("reply", match)

    def swap(self, old: bytes, new: bytes) -> None:
        """In replies put *new* in the place of *old*, which is as long."""
        assert len(old) == len(new)
        self._swaps.append((old, new))

    def freeze(self) -> None:
        """Forward nothing any more on any connection, new ones included, and close none."""
        self._frozen = True
        self._freezes += 1

    def thaw(self) -> None:
        """Serve new connections; those of before stay open and dead (half-open)."""
        self._frozen = False
        self._freezes = 0

    def refuse(self) -> None:
        """Close everything and take no more connections."""
        self._listener.close()
        self.drop_all()

    def forward_to(self, upstream: str) -> None:
        """Another server from now on."""
        self._upstream = urlsplit(upstream)

    def drop_all(self) -> None:
        """Close every connection."""
        with self._lock:
            for one in self._sockets:
                _shut(one)

    def close(self) -> None:
        self._stop.set()
        self._listener.close()
        self.drop_all()
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        if self._upstream.scheme == "unix":
            upstream = socket.socket(socket.AF_UNIX)
            try:
                upstream.connect(self._upstream.path)
            except OSError:
                upstream.close()
                raise
            return upstream
        return socket.create_connection((self._upstream.hostname or "localhost", self._upstream.port or 6379))

    def _accept(self) -> None:
        self._listener.settimeout(0.1)
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            client.setblocking(True)
            try:
                upstream = self._connect()
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets |= {client, upstream}
            thread = threading.Thread(target=self._serve, args=(client, upstream), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket, upstream: socket.socket) -> None:
        lose_reply, born = False, self._freezes
        with selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, upstream)
            ready.register(upstream, selectors.EVENT_READ, client)
            try:
                while True:
                    for key, _ in ready.select(0.5):
                        data = key.fileobj.recv(1 << 20)
                        if data and (self._frozen or self._freezes > born):
                            continue
                        if not data or (key.fileobj is upstream and lose_reply):
                            return
                        if key.fileobj is client:
                            with self._lock:
                                cut = self._cut if self._cut and self._cut[1] in data else None
                                self._cut = None if cut else self._cut
                            if cut and cut[0] == "request":
                                return
                            lose_reply = lose_reply or bool(cut)
                        else:
                            for old, new in self._swaps:
                                data = data.replace(old, new)
                        key.data.sendall(data)
                    if self._stop.is_set():
                        return
            except OSError:
                return
            finally:
                with self._lock:
                    self._sockets -= {client, upstream}
                _shut(client)
                _shut(upstream)
                client.close()
                upstream.close()


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
