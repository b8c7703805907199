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

    def show(self, done: float, text: str, *, total: float | None = None) -> None:
        """Show it; a *total* once given stays."""

    def note(self, text: str) -> None:
        """A line of its own, that stays."""


@contextmanager
def meter(title: str, *, total: float | None = None, err: bool) -> Iterator[Meter]:
    """A meter for the length of a block, on stderr (*err*) or stdout."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        bar = _Bar(printable(title), total, err=err)
        with bar.progress:
            yield bar
    else:
        lines = _Lines(title, err=err)
        yield lines
        lines.flush()


class _Bar:
    """A bar of rich, redrawn in place."""

    def __init__(self, title: str, total: float | None, *, err: bool) -> None:
        from rich.console import Console  # noqa: PLC0415 - an extra
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        words = (TextColumn("{task.description}", markup=False), TextColumn("{task.fields[text]}", markup=False))
        columns = (words[0], BarColumn(bar_width=20), TimeElapsedColumn(), words[1])
        self.progress = Progress(*columns, console=Console(stderr=err))
        self._task = self.progress.add_task(title, total=total, text="")

    def show(self, done: float, text: str, *, total: float | None = None) -> None:
        self.progress.update(self._task, completed=done, total=total, text=printable(text))

    def note(self, text: str) -> None:
        self.progress.console.print(printable(text), markup=False, highlight=False, emoji=False, soft_wrap=True)


class _Lines:
    """The last text, when it is new and a second has passed."""

    def __init__(self, title: str, *, err: bool) -> None:
        self._title, self._err = title, err
        self._shown = self._text = ""
        self._at = time.monotonic()

    def show(self, done: float, text: str, *, total: float | None = None) -> None:  # noqa: ARG002 - a bar's figures
        self._text = text
        if time.monotonic() - self._at >= EVERY:
            self.flush()

    def note(self, text: str) -> None:
        click.echo(printable(text), err=self._err)

    def flush(self) -> None:
        """Show what was not shown yet."""
        if self._text != self._shown:
            self.note(f"{self._title}: {self._text}")
            self._shown, self._at = self._text, time.monotonic()
