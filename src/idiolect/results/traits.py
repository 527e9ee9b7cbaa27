"""Client traits noted when a run begins, seed by seed: how much a client holds, and how unlike the others'."""

import math
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.contracts import Clients
from idiolect.errors import UserMistake
from idiolect.files import write_atomically
from idiolect.problems.data.label_counts import label_counts, label_skew
from idiolect.results.folder import RunFolder
from idiolect.results.seals import sealed, unsealed


class ClientTraits(NamedTuple):
    """How many samples a client has, all parts together, how unlike everybody's its classes are, and its name."""

    samples: int
    label_skew: float | None  # None where samples have no classes
    name: str = ""  # as the data has it, if it has one


def knows_traits(folder: RunFolder, seed: int) -> bool:
    """Were they noted, and can they still be read?"""
    try:
        return bool(read_traits(folder, seed))
    except UserMistake:
        return False


def write_traits(folder: RunFolder, seed: int, clients: Clients) -> None:
    """Note the traits of every client."""
    counts = label_counts(clients)
    skews = [math.nan] * clients.total if counts is None else label_skew(counts).tolist()
    sizes = clients.train.sizes + clients.adapt.sizes + clients.validation.sizes + clients.test.sizes
    names = clients.names or [""] * clients.total
    record = {
        str(client): ClientTraits(int(size), None if math.isnan(skew) else skew, name)._asdict()
        for client, (size, skew, name) in enumerate(zip(sizes, skews, names, strict=True))
    }
    write_atomically(_file(folder, seed), sealed({"clients": record}, folder.owner("traits", "clients", seed)))


def read_traits(folder: RunFolder, seed: int) -> dict[int, ClientTraits]:
    """What was noted, by client; empty where nothing was."""

    def read(record: dict[str, Any]) -> dict[int, ClientTraits]:
        return {int(client): ClientTraits(**traits) for client, traits in record["clients"].items()}

    path = _file(folder, seed)
    return unsealed(path, folder.owner("traits", "clients", seed), read) if path.exists() else {}


def _file(folder: RunFolder, seed: int) -> Path:
    return folder.path / "traits" / f"seed{seed}.json"
