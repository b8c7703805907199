"""A meter: a progress bar on a terminal, else a line a second."""

from __future__ import annotations

import importlib.util
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from batchqueue.cli_command import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY = 1.0  # seconds between two plain lines


class Meter(Protocol):
    """Shows how far something is."""

    def __call__(self, done: float, text: str, *, total: float | None = None) -> None:
        """Show it; *total*, once known, stays."""


@contextmanager
def meter(title: str, *, total: float | None = None, err: bool) -> Iterator[Meter]:
    """A meter for the length of a block, on stderr (*err*) or stdout."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        with _bar(printable(title), total, err=err) as show:
            yield show
    else:
        lines = _Lines(title, err=err)
        yield lines
        lines.flush()


@contextmanager
def _bar(title: str, total: float | None, *, err: bool) -> Iterator[Meter]:
    from rich.console import Console  # noqa: PLC0415 - an extra
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    words = (TextColumn("{task.description}", markup=False), TextColumn("{task.fields[text]}", markup=False))
    columns = (words[0], BarColumn(bar_width=24), TimeElapsedColumn(), words[1])
    with Progress(*columns, console=Console(stderr=err)) as progress:
        task = progress.add_task(title, total=total, text="")

        def show(done: float, text: str, *, total: float | None = None) -> None:
            progress.update(task, completed=done, total=total, text=printable(text))

        yield show


class _Lines:
    """The last text, when it is new and a second has passed."""

    def __init__(self, title: str, *, err: bool) -> None:
        self._title, self._err = title, err
        self._shown = self._text = ""
        self._at = time.monotonic()

    def __call__(self, done: float, text: str, *, total: float | None = None) -> None:  # noqa: ARG002 - a bar's figures
        self._text = text
        if time.monotonic() - self._at >= EVERY:
            self.flush()

    def flush(self) -> None:
        """Show what was not shown yet."""
        if self._text != self._shown:
            click.echo(printable(f"{self._title}: {self._text}"), err=self._err)
            self._shown, self._at = self._text, time.monotonic()
