"""The flights that both demos work on, by airport."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

FLIGHTS = Path(__file__).resolve().parent.parent / "examples" / "flights.ndjson"
Flight = dict[str, Any]


def read(path: Path) -> dict[str, list[Flight]]:
    """Flights by airport, the largest first; each is numbered."""
    flights: dict[str, list[Flight]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            flight = json.loads(line)
            flights[flight["origin"]].append({**flight, "number": number})
    return dict(sorted(flights.items(), key=lambda item: -len(item[1])))
