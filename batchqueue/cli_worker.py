"""``batchqueue worker``: a process that works off batches until it is told to stop."""

from __future__ import annotations

import importlib
import signal
import sys

import click
import structlog

from batchqueue.batch_queue import BatchQueue
from batchqueue.cli_command import printable


@click.command
@click.argument("target", metavar="MODULE:NAME")
def worker(target: str) -> None:
    """Work off batches.

    Runs the BatchQueue NAME of MODULE, or the one that calling NAME gives, until SIGTERM or SIGINT; then drains, and
    a second signal hurries. The current directory is searched first. Where the server is, is MODULE's business.
    """
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # MODULE may do it otherwise
    b = load(target)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # until run() has its own
    try:
        b.start()
        click.echo(printable(f"{target} runs in namespace {b.options.namespace}; SIGTERM or Ctrl-C ends it"), err=True)
        b.run()
    finally:
        b.stop()
        b.close()


def load(target: str) -> BatchQueue:
    """The BatchQueue that ``MODULE:NAME`` names, or makes.

    Raises:
        click.UsageError: there is none.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise click.UsageError(f"{target!r} is not MODULE:NAME, such as app:batches")
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks another
        raise click.UsageError(f"there is no module {error.name!r} in the current directory or installed") from None
    except (TypeError, ValueError) as error:
        raise click.UsageError(f"{module_name!r} is not the name of a module: {error}") from None
    found = getattr(module, name, None)
    if found is None:
        raise click.UsageError(f"module {module_name!r} has no {name!r}")
    made = found() if callable(found) else found
    if not isinstance(made, BatchQueue):
        raise click.UsageError(f"{target!r} is a {type(made).__name__}, and no BatchQueue or function that makes one")
    return made
