"""A server and its devices in one process, on real disks: messages are function calls, and anybody may die anywhere.

Who dies raises `Killed`, loses all that was in memory, and begins anew from its folder; a message that was under way is
lost with whoever would have answered it.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jax
import numpy as np

from idiolect import Choice, Experiment, NamedAlgorithm
from idiolect.deploy.assignment import Assignment, assignment
from idiolect.deploy.joining.device import Device
from idiolect.deploy.joining.device_record import RecordFile
from idiolect.deploy.joining.own_data import own_data, own_scores
from idiolect.deploy.serving.reception import Reception
from idiolect.deploy.serving.turned_away import Rules
from idiolect.deploy.wire import Message, pack, unpack
from idiolect.engines.simulator.stepwise_server import run_stepwise

NAMES = ("alice", "bob", "carol")
LIMIT = 2**30


class Killed(BaseException):
    """kill -9: nothing catches it, and nothing is tidied up."""


@cache
def small_work(algorithm: str = "asynchronous") -> Assignment:
    return assignment(small_experiment(algorithm), None)


def small_experiment(algorithm: str = "asynchronous") -> Experiment:
    name, _, own = algorithm.partition(" ")
    whole = f"plain+{name}" if name in ("asynchronous", "buffered", "synchronous") else name
    line = NamedAlgorithm(name=whole, **({"private": [own]} if own else {}))
    problem = Choice("quadratics", {"clients": 3, "dimension": 3, "samples": 12})
    if own or name.startswith("qupel"):
        problem = Choice("digits", {"clients": 3, "model": {"name": "mlp", "hidden": [4, 4]}})
    training = {"local_steps": 2, "step_size": 0.05, "batch_size": 2}
    return Experiment(problem, [line], training=training)


class World:
    """One server and some devices."""

    def __init__(self, folder: Path, work: Assignment | None = None, rules: Rules = Rules(checkpoint_every=7)) -> None:
        self.folder, self.work, self.rules = folder, work or small_work(), rules
        self.dies: Callable[[str], bool] = lambda moment: False  # asked at every moment of anybody
        self.loses: Callable[[str], bool] = lambda verb: False  # whether an answer is lost on its way
        self.said: list[str] = []
        self.sent: list[bytes] = []  # all that devices have sent
        self.deaths: Counter[str] = Counter()
        self.moments: Counter[str] = Counter()
        self.server: Reception | None = None
        self.devices: dict[str, Device] = {}

    def moment(self, name: str) -> None:
        self.moments[name] += 1
        if self.dies(name):
            self.deaths[name] += 1
            raise Killed

    def open_server(self) -> Reception:
        if self.server is None:
            self.server = Reception(
                self.work, self.folder / "server", rules=self.rules, moment=self.moment, notice=self.said.append
            )
        return self.server

    def ask(self, name: str, verb: str, content: bytes) -> Message:
        """A message until it is answered; if the server dies over it, or the answer is lost, it is sent again."""
        self.sent.append(content)
        while True:
            try:
                server = self.open_server()
                answer = server.answer(name, verb, content)
                server.commit()
                self.moment("before reply")
            except Killed:
                self.server = None
                continue
            if not self.loses(verb):
                return unpack(answer, limit=LIMIT)

    def device(self, name: str) -> Device:
        if name not in self.devices:
            data, wants = own_data(f"recipe:{NAMES.index(name)}", self.work)
            self.devices[name] = Device(
                self.work,
                data,
                RecordFile(self.folder / name),
                lambda verb, content: self.ask(name, verb, content),
                wants=wants,
                score=own_scores(self.work) if self.rules.score_every else None,
                moment=self.moment,
                notice=self.said.append,
            )
        return self.devices[name]

    def step(self, name: str) -> None:
        """A device does what comes next, or dies over it."""
        try:
            self.device(name).step()
        except Killed:
            self.devices.pop(name, None)

    def work_on(self, updates: int, seed: int = 0) -> None:
        """Devices work in a random order until so many updates are there."""
        rng = np.random.default_rng(seed)
        while self.open_server().desk.updates < updates:
            self.step(str(rng.choice(NAMES)))

    def finish(self) -> None:
        """Nobody dies any more; whoever has something to send sends it, and hears whether it counts."""
        self.dies = self.loses = lambda name: False
        for name in NAMES:
            while self.device(name).record.stage != "idle":
                stage = self.device(name).record.stage
                self.step(name)
                if stage == "taken":
                    break  # it has begun another turn, and was settled before

    def params(self):
        return self.open_server().desk.model()

    def replayed(self):
        """What the simulator makes of the timeline that was written down, and what clients keep there."""
        desk = self.open_server().desk
        return run_stepwise(self.work.program, self.work.problem.clients, desk.timeline(), seed=self.work.seed)


def same(one, other, **tolerance) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(a, b, **tolerance) if tolerance else np.array_equal(a, b) for a, b in pairs)


def ask_raw(world: World, name: str, verb: str, header, tensors=()) -> dict:
    return world.ask(name, verb, pack(header, dict(tensors))).header
