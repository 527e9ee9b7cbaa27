"""What one server holds: updates a second with the log synced, latency per update, many clients, memory.

    python benchmarks/serving.py [--seconds 20] [--clients 1000]

A process of its own serves on loopback without TLS; this process is the load. Its clients compute nothing: each takes
a turn, sends an update of the right shape, and takes the next one when it is taken. They share a few sessions. It stops
by itself. Load and server share the machine, so all numbers are lower bounds.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import queue
import socket
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from idiolect import Choice, Experiment
from idiolect.deploy.access import MESSAGE_BYTES, device_config, needs_zenoh
from idiolect.deploy.assignment import Assignment, assignment
from idiolect.deploy.joining.line import Line
from idiolect.deploy.serving.serving_folder import serve
from idiolect.deploy.serving.turned_away import Rules
from idiolect.deploy.wire import MAGIC, chunk, chunks_of, digest_of, pack
from idiolect.trees import as_tensors, names_of

MODELS = {"5 kB": [110], "0.5 MB": [350, 340], "20 MB": [2230, 2230]}  # hidden layers over 8 features, 2 classes
TURNS = {"5 kB": 200, "0.5 MB": 40, "20 MB": 5}
SESSIONS, FEATURES, ROWS = 16, 8, 4
NO_LIMIT = Rules(rate=1e9, burst=1e9)


class Measured(NamedTuple):
    """What came of a load."""

    updates: float  # a second
    latency: list[float]  # seconds, from the question for a turn to "taken"


def work_on(folder: Path, model: str, clients: int) -> Assignment:
    """An asynchronous algorithm for so many clients; what their rows hold does not matter."""
    table = folder / "rows.csv"
    if not table.exists():
        names = [f"x{place}" for place in range(FEATURES)]
        cells = np.random.default_rng(0).normal(size=(ROWS * clients, FEATURES)).round(3)
        lines = [",".join([*map(str, row), str(place % 2)]) for place, row in enumerate(cells)]
        table.write_text("\n".join([",".join([*names, "label"]), *lines]) + "\n")
    mlp = {"name": "mlp", "hidden": MODELS[model]}
    problem = Choice("table", {"file": str(table), "target": "label", "clients": clients, "model": mlp})
    return assignment(Experiment(problem, ["plain+asynchronous"]), None)


def run_server(folder: str, model: str, clients: int, endpoint: str) -> None:
    """The other process, until it is ended."""
    where = Path(folder)
    serve(work_on(where, model, clients), where / f"out-{model}", endpoint, None, rules=NO_LIMIT)


class Update:
    """An upload whose arrays are packed once; only what is said with them changes."""

    def __init__(self, work: Assignment) -> None:
        import jax

        server = work.program.protocol.server
        offer = server.offer(server.init(work.program.init(jax.random.key(0)), len(work.problem.clients.participating)))
        tiny = jax.tree.map(lambda leaf: np.full(leaf.shape, 1e-6, leaf.dtype), offer)
        whole = pack({}, as_tensors(names_of("delta", tiny)))
        self._body = whole[8 + int.from_bytes(whole[4:8], "little") :]
        self._digest = hashlib.sha256(self._body).hexdigest()

    def of(self, incarnation: str, turn: int) -> bytes:
        """The message of one turn."""
        said = {"incarnation": incarnation, "turn": turn, "weight": 3, "fault": False, "digest": self._digest}
        text = json.dumps(said).encode()
        return b"".join([MAGIC, len(text).to_bytes(4, "little"), text, self._body])


def crowd(work: Assignment, endpoint: str, clients: int, seconds: float) -> Measured:
    """Everybody works at once, for a while."""
    zenoh, update, arrived = needs_zenoh(), Update(work), queue.SimpleQueue[tuple[int, bytes]]()
    sessions = [zenoh.open(device_config(None, endpoint, f"load{place}")) for place in range(SESSIONS)]
    names = [hashlib.sha256(f"{clients} {client}".encode()).hexdigest()[:16] for client in range(clients)]
    began, last, latency = [0.0] * clients, [None] * clients, list[float]()
    turns: list[Any] = [None] * clients  # under way

    def send(client: int, verb: str, content: bytes) -> None:
        def heard(reply: Any) -> None:
            arrived.put((client, reply.ok.payload.to_bytes() if reply.ok else b""))

        sessions[client % SESSIONS].get(f"idiolect/{work.run}/c{client}/{verb}", heard, payload=content, timeout=60.0)

    def ask(client: int) -> None:
        began[client] = time.perf_counter()
        asked = {"incarnation": names[client], "last": last[client], "has": None, "wants": client}
        send(client, "offer", pack(asked))

    def answered(client: int, content: bytes) -> bool:
        """Take the next step; whether that was an update."""
        said = json.loads(content[8 : 8 + int.from_bytes(content[4:8], "little")])
        if said["answer"] == "turn":
            turns[client] = said["turn"]
            send(client, "upload", update.of(names[client], said["turn"]))
            return False
        assert said["answer"] == "taken", said
        last[client] = turns[client]
        latency.append(time.perf_counter() - began[client])
        ask(client)
        return True

    for client in range(clients):
        ask(client)
    for _ in range(2 * clients):  # everybody has a number, and everything is compiled
        answered(*arrived.get(timeout=120))
    latency.clear()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        count += answered(*arrived.get(timeout=60))
    found = Measured(count / (time.perf_counter() - start), latency)
    for session in sessions:
        session.close()
    return found


def alone(work: Assignment, endpoint: str, turns: int) -> list[float]:
    """One client and nobody else: seconds from its question to "taken", with the model fetched anew each time."""
    line, update, found, last = Line(None, "c0", endpoint), Update(work), list[float](), None
    line.greet(work)
    incarnation = "0" * 16
    for turn in range(turns + 2):
        start = time.perf_counter()
        said, tensors = line.ask("offer", pack({"incarnation": incarnation, "last": last, "has": None, "wants": 0}))
        if "model" not in tensors:
            for number in range(chunks_of(said["size"])):
                line.ask("model", pack({"model": said["model"], "number": number}))
        last = said["turn"]
        assert _sent(line, update.of(incarnation, last)) == "taken"
        if turn >= 2:  # the first ones compile
            found.append(time.perf_counter() - start)
    line.close()
    return found


def _sent(line: Line, content: bytes) -> str:
    if len(content) + 2**17 <= MESSAGE_BYTES:
        return str(line.ask("upload", content).header["answer"])
    whole = digest_of(content)
    for number in range(chunks_of(len(content))):
        about = {"whole": whole, "size": len(content), "number": number}
        line.ask("chunk", pack(about, {"chunk": np.frombuffer(chunk(content, number), np.uint8)}))
    return str(line.ask("upload", pack({"whole": whole})).header["answer"])


def memory(process: Any) -> str:
    """What the server has taken at most."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(f"{int(line.split()[1]) / 1024:.0f} MB" for line in lines if line.startswith("VmHWM"))


def free_endpoint() -> str:
    """Where nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{found.getsockname()[1]}"


def measure(folder: Path, model: str, clients: int, seconds: float) -> None:
    """One model: a client alone and, for the smallest, a crowd."""
    work, endpoint = work_on(folder, model, clients), free_endpoint()
    server = multiprocessing.get_context("spawn").Process(
        target=run_server, args=(str(folder), model, clients, endpoint), daemon=True
    )
    server.start()
    try:
        found = alone(work, endpoint, TURNS[model])
        print(f"{model}: one client, {1000 * median(found):.1f} ms an update; server {memory(server)}", flush=True)
        for count in (16, clients) if model == "5 kB" else ():
            rate, latency = crowd(work, endpoint, count, seconds)
            worst = np.quantile(latency, 0.99)
            print(
                f"{model}: {count} clients over {SESSIONS} sessions, {rate:.0f} updates a second, median "
                f"{1000 * median(latency):.0f} ms, 99 of 100 within {1000 * worst:.0f} ms; server {memory(server)}",
                flush=True,
            )
    finally:
        server.kill()
        server.join()


def main() -> None:
    """Measure everything, and stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--model", choices=MODELS, help="this one only")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS if options.model is None else [options.model]:
            measure(Path(folder), model, options.clients, options.seconds)


if __name__ == "__main__":
    main()
