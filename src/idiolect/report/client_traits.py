"""Client traits that a gain may depend on: what a client holds, and how the network treats it."""

from typing import NamedTuple

import numpy as np

from idiolect.experiments.records import CellRecord
from idiolect.network.round_tables import Rounds, taken_in
from idiolect.network.timelines import Timeline, staleness
from idiolect.results.traits import ClientTraits

TRAITS = {  # the fields of `Traits`, in words
    "samples": "samples of the client",
    "label_skew": "label skew (0: as everybody, 1: disjoint)",
    "staleness": "mean staleness of its updates",
    "participation": "turns delivered, or rounds awake",
}


class Traits(NamedTuple):
    """Of one client in one cell; None where it is not known or has no meaning."""

    samples: float | None = None
    label_skew: float | None = None
    staleness: float | None = None
    participation: float | None = None


def traits_of(cell: CellRecord, table: Timeline | Rounds, noted: dict[int, ClientTraits]) -> dict[int, Traits]:
    """The traits of every participating client that was scored; `noted` is what was known when the run began."""
    mine = {client.client: client.samples for client in cell.participating}
    turns = _in_rounds(table, sorted(mine)) if isinstance(table, Rounds) else _with_a_server(table)
    found = {}
    for client, scored in mine.items():
        age, count = turns.get(client, (None, None if isinstance(table, Rounds) else 0))
        samples, skew, _ = noted.get(client, ClientTraits(scored, None))
        found[client] = Traits(samples, skew, age if cell.shares else None, count)  # who shares no model has no old one
    return found


def _with_a_server(table: Timeline) -> dict[int, tuple[float | None, int]]:
    """For every client that delivered something: the mean staleness of its updates, and how many there are."""
    clients, ages = table.client[table.delivered], staleness(table)[table.delivered]
    counts, means = _by_owner(clients, ages, int(clients.max(initial=-1)) + 1)
    return {client: (means[client], int(counts[client])) for client in np.flatnonzero(counts).tolist()}


def _in_rounds(table: Rounds, clients: list[int]) -> dict[int, tuple[float | None, int]]:
    """For every agent: how old what it heard was, on the average, and how many rounds it was awake."""
    if len(clients) != table.graph.agents:  # some were not scored, and nobody knows which agent is which client
        return {}
    when = taken_in(table)
    heard = when < table.length
    receivers, ages = table.graph.targets[table.link][heard], (when - table.sent)[heard]
    _, means = _by_owner(receivers, ages, table.graph.agents)
    awake = table.awake.sum(axis=0)
    return {client: (means[agent], int(awake[agent])) for agent, client in enumerate(clients)}


def _by_owner(owners: np.ndarray, values: np.ndarray, count: int) -> tuple[np.ndarray, list[float | None]]:
    """How many values each owner has, and their means."""
    counts = np.bincount(owners, minlength=count)
    sums = np.bincount(owners, weights=values, minlength=count)
    return counts, [float(total / n) if n else None for total, n in zip(sums, counts, strict=True)]
