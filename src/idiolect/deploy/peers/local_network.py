"""All peers of a graph as processes of this machine, for a first try: started, looked at, ended.

STATE/network.json   the processes, each with the moment it began, so that no other one is ever ended in its place
STATE/a3/            what peer a3 keeps, with its status and what it said (peer.log)
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.deploy.peers.graph_files import PeerGraph
from idiolect.deploy.peers.peer_process import STATUS
from idiolect.errors import UserMistake
from idiolect.files import make_folder, read_whole, write_atomically

PROCESSES, SAID = "network.json", "peer.log"
_ENDING_SECONDS = 20.0


class PeerStatus(NamedTuple):
    """A peer as `status` shows it; `told` is what it last wrote of itself."""

    name: str
    lives: bool
    told: Mapping[str, Any]


def start_network(graph: PeerGraph, state: Path, arguments: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Start every peer that does not run, with these arguments of `idiolect`; the process of each."""
    make_folder(state)
    known = _processes(state)
    running = {name: one for name, one in known.items() if _lives(*one)}
    for name in graph.names:
        if name not in running:
            make_folder(state / name)
            with (state / name / SAID).open("ab") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", "idiolect", *arguments[name]],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            running[name] = (process.pid, _began(process.pid))
            write_atomically(state / PROCESSES, json.dumps(running).encode())
    return {name: pid for name, (pid, _) in running.items()}


def network_status(graph: PeerGraph, state: Path) -> list[PeerStatus]:
    """Who lives, and what each last said of itself."""
    known, found = _processes(state), []
    for name in graph.names:
        path = state / name / STATUS
        told = json.loads(read_whole(path)) if path.exists() else {}
        found.append(PeerStatus(name, name in known and _lives(*known[name]), told))
    return found


def stop_network(state: Path) -> list[str]:
    """Ask every peer to end, and end those that do not; who had to be ended."""
    known = {name: one for name, one in _processes(state).items() if _lives(*one)}
    for pid, _ in known.values():
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + _ENDING_SECONDS
    while any(_lives(*one) for one in known.values()) and time.monotonic() < end:
        time.sleep(0.05)
    stubborn = [name for name, one in known.items() if _lives(*one)]
    for name in stubborn:
        os.kill(known[name][0], signal.SIGKILL)
    return stubborn


def _processes(state: Path) -> dict[str, tuple[int, float]]:
    path = state / PROCESSES
    if not path.exists():
        return {}
    try:
        return {str(name): (int(pid), float(began)) for name, (pid, began) in json.loads(read_whole(path)).items()}
    except (ValueError, TypeError, AttributeError):
        raise UserMistake(f"{path} is damaged: it is no table of processes") from None


def _lives(pid: int, began: float) -> bool:
    """Is this process still there, and not another that got its number?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" and float(fields[19]) == began


def _began(pid: int) -> float:
    """When a process began, in ticks since the machine did."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return float(stat.read().rpartition(")")[2].split()[19])
