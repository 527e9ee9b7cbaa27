"""What happened in a real network of peers, as the table that the simulator reads: who woke when, what arrived when.

Every peer logs its own wakings with the rounds of the letters that it took in. Together the logs are a table of rounds;
replayed, it gives the same x and y to rounding. What a lost disk forgot cannot be replayed, and is refused.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.deploy.peers.agent_disk import LOG
from idiolect.errors import UserMistake
from idiolect.files import read_whole
from idiolect.network.round_tables import Rounds, rounds
from idiolect.network.topologies import Topology


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The wakings of one peer; a line that was being written when it died is left out."""
    path = folder / LOG
    if not path.exists():
        return []
    lines = read_whole(path).split(b"\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except ValueError:
        raise UserMistake(f"{path} is damaged: line {_first_bad(lines)} is no JSON") from None


def rounds_that_happened(
    graph: Topology, names: Sequence[str], logs: Mapping[str, Sequence[Mapping[str, Any]]], horizon: int
) -> Rounds:
    """The table of all wakings and arrivals, from the logs of all peers after they have stopped."""
    number = {name: place for place, name in enumerate(names)}
    awake, messages = np.zeros((horizon, len(names)), bool), []
    for name in names:
        for entry in logs[name]:
            if "incarnation" in entry:
                raise UserMistake(
                    f"peer {name} came back with an old disk (incarnation {entry['incarnation']}), and what it did "
                    "before is not in its log; such a run cannot be replayed"
                )
            awake[entry["round"], number[name]] = True
            for sender, sent in entry["heard"].items():
                messages += [(number[sender], number[name], one, entry["round"]) for one in sent]
    return rounds(graph, awake, messages)


def _first_bad(lines: list[bytes]) -> int:
    for count, line in enumerate(lines, start=1):
        try:
            json.loads(line)
        except ValueError:
            return count
    return 0
