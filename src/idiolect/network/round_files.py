"""Rounds on disk: as NumPy arrays, complete and small; or by hand, as a CSV table of wake-ups and arrivals."""

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.errors import UserMistake
from idiolect.network.round_tables import Rounds, ordered, rounds
from idiolect.network.topologies import Topology, topology

COLUMNS = ("round", "agent", "to", "arrives")


def write_rounds(table: Rounds) -> bytes:
    """The table and its graph as an `.npz` archive, without any pickle."""
    packed = io.BytesIO()
    edges = np.stack([table.graph.sources, table.graph.targets])
    changes: dict[str, Any] = {} if table.graph.present is None else {"present": table.graph.present}
    columns: dict[str, Any] = {"link": table.link, "sent": table.sent, "arrives": table.arrives}
    np.savez_compressed(packed, awake=table.awake, edges=edges, **columns, **changes)
    return packed.getvalue()


def read_rounds(path: Path, graph: Topology, count: int) -> Rounds:
    """A table written by `write_rounds`, with its own graph; or a CSV of `count` rounds on the given graph.

    In the CSV a row with `round` and `agent` says that the agent wakes; with `to` and `arrives` as well, that what it
    sends then arrives there in that round. What is not listed sleeps, or is lost.
    """
    if not path.is_file():
        raise UserMistake(f"timeline {path} does not exist")
    table = load_rounds(path) if path.suffix == ".npz" else _read_csv(path, graph, count)
    if table.length < count or table.graph.agents != graph.agents:
        raise UserMistake(
            f"timeline {path} has {table.length} rounds of {table.graph.agents} agents, but this run needs {count} "
            f"rounds of {graph.agents}"
        )
    return table


def load_rounds(path: Path) -> Rounds:
    """A table written by `write_rounds`."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            awake, edges = arrays["awake"].astype(bool), arrays["edges"]
            graph = topology(awake.shape[1], [(int(a), int(b)) for a, b in edges.T])
            if "present" in arrays:
                present = arrays["present"].astype(bool)
                graph = graph._replace(present=present.reshape(len(present), graph.links))
            return ordered(Rounds(graph, awake, arrays["link"], arrays["sent"], arrays["arrives"]))
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as reason:
        raise UserMistake(f"timeline {path} is not a table of rounds: {reason}") from None


def _read_csv(path: Path, graph: Topology, count: int) -> Rounds:
    awake, messages = np.zeros((count, graph.agents), bool), []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserMistake(f"timeline {path} has columns {reader.fieldnames}, but must have {', '.join(COLUMNS)}")
        for number, row in enumerate(reader, start=2):
            try:
                when, agent = int(row["round"]), int(row["agent"])
                message = (agent, int(row["to"]), when, int(row["arrives"])) if row["to"] else None
            except (TypeError, ValueError):
                raise UserMistake(
                    f"timeline {path}, line {number} is {list(row.values())}, not whole numbers"
                ) from None
            if not (0 <= when < count and 0 <= agent < graph.agents):
                raise UserMistake(
                    f"timeline {path}, line {number} has agent {agent} in round {when}, but there are {graph.agents} "
                    f"agents and {count} rounds, both numbered from 0"
                )
            awake[when, agent] = True
            if message:
                messages.append(message)
    return rounds(graph, awake, messages)
