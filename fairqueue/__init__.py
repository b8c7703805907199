"""A fair message queue for multi-tenant Python, on Redis or Valkey."""

from __future__ import annotations

from fairqueue.delivery import Delivery
from fairqueue.errors import (
    AccessDenied,
    Bury,
    ConfigurationError,
    FairQueueError,
    InvalidArgument,
    InvalidId,
    LeaseExpired,
    LeaseLost,
    OutcomeUnknown,
    PayloadError,
    PayloadTooLarge,
    QueueFull,
    Retry,
    SchemaMismatch,
    ServerFull,
    StoreError,
    Unavailable,
    UnsupportedServer,
)
from fairqueue.fair_queue import FairQueue
from fairqueue.message import DeadLetter, MessageInfo, NewMessage, Receipt
from fairqueue.options import ConcurrencyGroup, FairQueueOptions
from fairqueue.retry import CustomRetry, ExponentialBackoff, FixedDelay, ImmediateRetry, LinearBackoff, NoRetry
from fairqueue.scheduler import Fair
from fairqueue.worker import Worker

__all__ = [
    "AccessDenied",
    "Bury",
    "ConcurrencyGroup",
    "ConfigurationError",
    "CustomRetry",
    "DeadLetter",
    "Delivery",
    "ExponentialBackoff",
    "Fair",
    "FairQueue",
    "FairQueueError",
    "FairQueueOptions",
    "FixedDelay",
    "ImmediateRetry",
    "InvalidArgument",
    "InvalidId",
    "LeaseExpired",
    "LeaseLost",
    "LinearBackoff",
    "MessageInfo",
    "NewMessage",
    "NoRetry",
    "OutcomeUnknown",
    "PayloadError",
    "PayloadTooLarge",
    "QueueFull",
    "Receipt",
    "Retry",
    "SchemaMismatch",
    "ServerFull",
    "StoreError",
    "Unavailable",
    "UnsupportedServer",
    "Worker",
]


def __getattr__(name: str) -> str:
    """``__version__``, read from the installed package when asked."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - only when asked

        return version("fairqueue")
    raise AttributeError(name)
