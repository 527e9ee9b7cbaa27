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

from idiolect.deploy.peers.graph_files import PeerGraph
from idiolect.deploy.peers.peer_process import STATUS
from idiolect.deploy.peers.peer_status import PeerStatus, read_peer_status
from idiolect.errors import UserMistake
from idiolect.files import make_folder, read_whole, write_atomically
from idiolect.processes import began, lives

PROCESSES, SAID = "network.json", "peer.log"
_ENDING_SECONDS = 20.0


def start_processes(state: Path, arguments: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Start everyone who does not run, with these arguments of `idiolect`; the process of each."""
    make_folder(state)
    known = _processes(state)
    running = {name: one for name, one in known.items() if lives(*one)}
    for name, words in arguments.items():
        if name not in running:
            make_folder(state / name)
            with (state / name / SAID).open("ab") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", "idiolect", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            running[name] = (process.pid, began(process.pid))
            write_atomically(state / PROCESSES, json.dumps(running).encode())
    return {name: pid for name, (pid, _) in running.items()}


def living(state: Path) -> dict[str, bool]:
    """Who was started, and whether it lives."""
    return {name: bool(lives(*one)) for name, one in _processes(state).items()}


def network_status(graph: PeerGraph, state: Path) -> list[PeerStatus]:
    """Who lives, and what each last said of itself."""
    return peers_in(state, graph.names)


def peers_in(state: Path, names: Sequence[str] = ()) -> list[PeerStatus]:
    """The same of peers by their names; without any, of all that were ever started here."""
    known = _processes(state)
    return [
        PeerStatus(name, name in known and bool(lives(*known[name])), read_peer_status(state / name / STATUS))
        for name in names or known
    ]


def stop_network(state: Path) -> list[str]:
    """Ask every peer to end, and end those that do not; who had to be ended."""
    known = {name: one for name, one in _processes(state).items() if lives(*one)}
    for pid, _ in known.values():
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + _ENDING_SECONDS
    while any(lives(*one) for one in known.values()) and time.monotonic() < end:
        time.sleep(0.05)
    stubborn = [name for name, one in known.items() if lives(*one)]
    for name in stubborn:
        os.kill(known[name][0], signal.SIGKILL)
    return stubborn


def _processes(state: Path) -> dict[str, tuple[int, float]]:
    path = state / PROCESSES
    if not path.exists():
        return {}
    try:
        return {str(name): (int(pid), float(since)) for name, (pid, since) in json.loads(read_whole(path)).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise UserMistake(f"{path} is damaged: it is no table of processes") from None
