"""Batches on fairqueue: to come with the next release."""

__all__: list[str] = []
