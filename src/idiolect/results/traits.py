"""What is noted of every client when a run begins, seed by seed: how much it holds, and how unlike the others'."""

import json
import math
from pathlib import Path
from typing import Any

from idiolect.contracts import Clients
from idiolect.files import write_atomically
from idiolect.problems.data.label_counts import label_counts, label_skew


def write_traits(run: Path, seed: int, clients: Clients) -> None:
    """Note samples (of all parts together) and label skew of every client, unless that was done before."""
    path = _file(run, seed)
    if path.is_file():
        return
    counts = label_counts(clients)
    skews = [math.nan] * clients.total if counts is None else label_skew(counts).tolist()
    sizes = clients.train.sizes + clients.adapt.sizes + clients.validation.sizes + clients.test.sizes
    record = {
        str(client): {"samples": int(size), "label_skew": None if math.isnan(skew) else skew}
        for client, (size, skew) in enumerate(zip(sizes, skews, strict=True))
    }
    write_atomically(path, json.dumps(record).encode())


def read_traits(run: Path, seed: int) -> dict[int, dict[str, Any]]:
    """What was noted, by client; empty for runs from before this was done."""
    path = _file(run, seed)
    record = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return {int(client): traits for client, traits in record.items()}


def _file(run: Path, seed: int) -> Path:
    return run / "traits" / f"seed{seed}.json"
