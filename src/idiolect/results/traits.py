"""Client traits noted when a run begins, seed by seed: how much a client holds, and how unlike the others'."""

import json
import math
from pathlib import Path
from typing import NamedTuple

from idiolect.contracts import Clients
from idiolect.files import write_atomically
from idiolect.problems.data.label_counts import label_counts, label_skew


class ClientTraits(NamedTuple):
    """How many samples a client has, all parts together, and how unlike everybody's its classes are."""

    samples: int
    label_skew: float | None  # None where samples have no classes


def write_traits(run: Path, seed: int, clients: Clients) -> None:
    """Note the traits of every client, unless that was done before."""
    path = _file(run, seed)
    if path.is_file():
        return
    counts = label_counts(clients)
    skews = [math.nan] * clients.total if counts is None else label_skew(counts).tolist()
    sizes = clients.train.sizes + clients.adapt.sizes + clients.validation.sizes + clients.test.sizes
    record = {
        str(client): ClientTraits(int(size), None if math.isnan(skew) else skew)._asdict()
        for client, (size, skew) in enumerate(zip(sizes, skews, strict=True))
    }
    write_atomically(path, json.dumps(record).encode())


def read_traits(run: Path, seed: int) -> dict[int, ClientTraits]:
    """What was noted, by client; empty where nothing was, or it cannot be read."""
    try:
        record = json.loads(_file(run, seed).read_text("utf-8"))
        return {int(client): ClientTraits(**traits) for client, traits in record.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _file(run: Path, seed: int) -> Path:
    return run / "traits" / f"seed{seed}.json"
