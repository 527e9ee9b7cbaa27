"""What one server holds: updates a second with the log synced, latency per update, its processor time and memory.

    python benchmarks/serving.py [--seconds 20] [--clients 1000] [--model '5 kB']

A process of its own serves on loopback without TLS; this process is the load. Its clients compute nothing: each has a
session of its own, takes a turn, sends an update of the right shape, and takes the next one when it is taken. It stops
by itself after a few minutes. Load and server share the machine, so what is counted by the clock is a lower bound.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import queue
import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from figures import Figure, Found, Pace, Row, Table, asked, once, write
from idiolect import Choice, Experiment
from idiolect.deploy.access import MESSAGE_BYTES, device_config, needs_zenoh
from idiolect.deploy.assignment import Assignment, assignment
from idiolect.deploy.joining.line import Line
from idiolect.deploy.serving.serving_folder import serve
from idiolect.deploy.serving.turned_away import Rules
from idiolect.deploy.wire import CHUNK_BYTES, MAGIC, chunk, chunks_of, digest_of, pack
from idiolect.trees import as_tensors, names_of

MODELS = {"5 kB": [110], "0.5 MB": [350, 340], "20 MB": [2230, 2230]}  # hidden layers over 8 features, 2 classes
TURNS = {"5 kB": 200, "0.5 MB": 40, "20 MB": 5}  # of a client alone
CROWDS = {"5 kB": (16, None), "0.5 MB": (16, None), "20 MB": (8,)}  # clients at once; None: as many as are asked for
FEATURES, ROWS = 8, 4
TAKEN = ("taken", "taken before")  # the second if an answer came so late that it was asked for again
NO_LIMIT = Rules(rate=1e9, burst=1e9)


class Measured(NamedTuple):
    """What came of a load."""

    updates: float  # a second
    latency: list[float]  # seconds, from the question for a turn to "taken"
    server: float  # seconds of a processor for each update
    load: float


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


class Client:
    """One of a crowd: asks for a turn, fetches the model, sends its update, and begins anew when it is taken."""

    def __init__(self, work: Assignment, endpoint: str, number: int, update: Update, heard: Any, crowd: str) -> None:
        self._session = needs_zenoh().open(device_config(None, endpoint, f"c{number}"))
        self._key, self._number, self._update, self._heard = f"idiolect/{work.run}/c{number}", number, update, heard
        self._name = hashlib.sha256(f"{crowd} {number}".encode()).hexdigest()[:16]
        self._last: int | None = None
        self._turn = self._began = 0.0
        self._said: tuple[str, bytes] = ("", b"")  # the last message
        self._to_send: list[tuple[str, bytes]] = []  # the rest of a turn, in its order

    def ask(self) -> None:
        """Begin a turn."""
        self._began = time.perf_counter()
        self._ask_for_a_turn()

    def _ask_for_a_turn(self) -> None:
        self._send("offer", pack({"incarnation": self._name, "last": self._last, "has": None, "wants": self._number}))

    def answered(self, content: bytes) -> float | None:
        """Take the next step; the seconds that its turn took, if that was the end of it."""
        said = json.loads(content[8 : 8 + int.from_bytes(content[4:8], "little")])
        if said["answer"] == "later":  # there is no room for so many at once: it waits and says it again, as devices do
            self._say_again(float(said["seconds"]))
            return None
        if said["answer"] == "gone":  # the model was replaced before all of it was fetched: it asks for a newer one
            self._ask_for_a_turn()
            return None
        if said["answer"] == "turn":
            self._turn = said["turn"]
            chunks = range(chunks_of(said["size"]) if said["size"] > CHUNK_BYTES else 0)
            fetch = [("model", pack({"model": said["model"], "number": number})) for number in chunks]
            self._to_send = [*fetch, *messages(self._update.of(self._name, said["turn"]))]
        elif said["answer"] in TAKEN:
            self._last = int(self._turn)
            took = time.perf_counter() - self._began
            self.ask()
            return took
        else:
            assert said["answer"] == "chunk", said
        self._send(*self._to_send.pop(0))
        return None

    def close(self) -> None:
        """Hang up."""
        self._session.close()

    def _say_again(self, seconds: float) -> None:
        def again() -> None:
            with suppress(needs_zenoh().ZError):  # the load is over
                self._send(*self._said)

        patience = threading.Timer(seconds, again)
        patience.daemon = True
        patience.start()

    def _send(self, verb: str, content: bytes) -> None:
        self._said = verb, content

        def heard(reply: Any) -> None:
            if reply.ok:
                self._heard.put((self, reply.ok.payload.to_bytes()))
            else:  # it came too late
                self._send(verb, content)

        self._session.get(f"{self._key}/{verb}", heard, payload=content, timeout=120.0)


def crowd(work: Assignment, endpoint: str, clients: int, seconds: float, server: int, repeat: int) -> Measured:
    """Everybody works at once, for a while."""
    update, arrived = Update(work), queue.SimpleQueue[tuple[Client, bytes]]()
    everybody = [Client(work, endpoint, number, update, arrived, f"{clients} {repeat}") for number in range(clients)]

    def step() -> float | None:
        client, content = arrived.get(timeout=120)
        return client.answered(content)

    for client in everybody:
        client.ask()
    for _ in range(clients):  # everybody has a number, and everything is compiled
        while step() is None:
            pass
    latency, before, start = list[float](), (processor(server), time.process_time()), time.perf_counter()
    while time.perf_counter() - start < seconds:
        latency += [took for took in [step()] if took is not None]
    count, elapsed = max(1, len(latency)), time.perf_counter() - start
    spent = processor(server) - before[0], time.process_time() - before[1]
    for client in everybody:
        client.close()
    return Measured(len(latency) / elapsed, latency, spent[0] / count, spent[1] / count)


def alone(work: Assignment, endpoint: str, turns: int, incarnation: str) -> list[float]:
    """One client and nobody else: seconds from its question to "taken", with the model fetched anew each time."""
    line, update, found, last = Line(None, "c0", endpoint), Update(work), list[float](), None
    line.greet(work)
    for turn in range(turns + 2):
        start = time.perf_counter()
        said, tensors = line.ask("offer", pack({"incarnation": incarnation, "last": last, "has": None, "wants": 0}))
        if "model" not in tensors:
            for number in range(chunks_of(said["size"])):
                line.ask("model", pack({"model": said["model"], "number": number}))
        last = said["turn"]
        assert _sent(line, update.of(incarnation, last)) in TAKEN
        if turn >= 2:  # the first ones compile
            found.append(time.perf_counter() - start)
    line.close()
    return found


def _sent(line: Line, content: bytes) -> str:
    *chunks, last = messages(content)
    for verb, part in chunks:
        line.ask(verb, part)
    return str(line.ask(*last).header["answer"])


def messages(content: bytes) -> list[tuple[str, bytes]]:
    """What an update is sent as: one message or, if it is large, its chunks and one that names them."""
    if len(content) + 2**17 <= MESSAGE_BYTES:
        return [("upload", content)]
    whole, found = digest_of(content), list[tuple[str, bytes]]()
    for number in range(chunks_of(len(content))):
        about = {"whole": whole, "size": len(content), "number": number}
        found.append(("chunk", pack(about, {"chunk": np.frombuffer(chunk(content, number), np.uint8)})))
    return [*found, ("upload", pack({"whole": whole}))]


def processor(process: int) -> float:
    """Seconds of a processor that a process has had, in all its threads."""
    spent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: Any) -> float:
    """What the server has taken at most, in MB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def free_endpoint() -> str:
    """Where nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{found.getsockname()[1]}"


def measure(folder: Path, model: str, options: argparse.Namespace) -> list[Row]:
    """One model: a client alone, and crowds of them, in turn."""
    work, endpoint = work_on(folder, model, options.clients), free_endpoint()
    server = multiprocessing.get_context("spawn").Process(
        target=run_server, args=(str(folder), model, options.clients, endpoint), daemon=True
    )
    crowds = [count or options.clients for count in CROWDS[model]]
    singles, loads = list[list[float]](), {count: list[Measured]() for count in crowds}
    server.start()
    try:
        for repeat in range(options.repeats):
            singles.append(alone(work, endpoint, TURNS[model], f"{repeat:016x}"))
            for count in crowds:
                loads[count].append(crowd(work, endpoint, count, options.seconds, server.pid or 0, repeat))
        top = once(memory(server), "MB")
    finally:
        server.kill()
        server.join()
    single = Row(f"{model}, a client alone", {"median": Figure("ms", [1e3 * median(one) for one in singles])})
    rows = [single, *(load_row(f"{model}, {count} clients", found) for count, found in loads.items())]
    for row in rows:
        row.figures["server memory"] = top
        print(f"{row.case}: " + ", ".join(f"{name} {one} {one.unit}" for name, one in row.figures.items()), flush=True)
    return rows


def load_row(case: str, found: list[Measured]) -> Row:
    """What came of a load, repeat by repeat."""
    figures = {
        "updates": Figure("a second", [one.updates for one in found]),
        "median": Figure("ms", [1e3 * median(one.latency) for one in found]),
        "99 of 100 within": Figure("ms", [1e3 * float(np.quantile(one.latency, 0.99)) for one in found]),
        "server's processor": Figure("ms an update", [1e3 * one.server for one in found]),
        "load's processor": Figure("ms an update", [1e3 * one.load for one in found]),
    }
    return Row(case, figures)


def main() -> None:
    """Measure everything, and stop."""
    parser = asked(__doc__, 3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--model", choices=MODELS, help="this one only")
    options, rows = parser.parse_args(), list[Row]()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    chosen = list(MODELS) if options.model is None else [options.model]
    pace = Pace(len(chosen), "models")
    with tempfile.TemporaryDirectory() as folder:
        for model in chosen:
            rows += measure(Path(folder), model, options)
            pace.step()
    write(options.json, Found({"loads": Table("What one server holds, the load on the same machine", rows)}))


if __name__ == "__main__":
    main()
