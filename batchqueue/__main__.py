"""``python -m batchqueue`` is the command ``batchqueue``."""

from batchqueue.cli import main

main(prog_name="batchqueue")
