"""The yardstick without a server: Algorithm 1 of PARS-Push as one would write it down.

A class for an agent, dictionaries for its neighbours, one agent and one message after the other. Batches are drawn
beforehand.
"""

import time
from typing import NamedTuple

import numpy as np

from idiolect.contracts import Problem
from idiolect.network.round_tables import Rounds, accumulated, taken_in

DIMENSION, BATCH, ALPHA, STEP_SIZE = 30, 20, 0.01, 0.005


class Data(NamedTuple):
    """An agent's samples and, for every round and step, the rows of its batch."""

    inputs: np.ndarray
    targets: np.ndarray
    batches: np.ndarray  # rounds x (u + 1) x batch
    ridge: float

    def gradient(self, z: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Of the regularized squared error on these rows."""
        a, b = self.inputs[rows], self.targets[rows]
        return 2 * a.T @ (a @ z - b) / len(rows) + self.ridge * z

    def hessian_product(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The Hessian on these rows, times a vector."""
        a = self.inputs[rows]
        return 2 * a.T @ (a @ vector) / len(rows) + self.ridge * vector


class Agent:
    """One node of Algorithm 1."""

    def __init__(self, data: Data, out_degree: int, neighbours: list[int]) -> None:
        self.data, self.shares = data, out_degree + 1
        self.x, self.y = np.zeros(DIMENSION), 1.0
        self.z = self.x.copy()
        self.sum_x, self.sum_y = np.zeros(DIMENSION), 0.0
        self.heard = {j: (np.zeros(DIMENSION), 0.0, -1) for j in neighbours}

    def speak(self, t: int, step_size: float) -> tuple[np.ndarray, float, int]:
        """Lines 4-15."""
        batches, path = self.data.batches[t], [self.z]
        for rows in batches[:-1]:
            path.append(path[-1] - ALPHA * self.data.gradient(path[-1], rows))
        gradient = self.data.gradient(path[-1], batches[-1])
        for rows in batches[-2::-1]:
            gradient = gradient - ALPHA * self.data.hessian_product(gradient, rows)
        self.x = (self.x - step_size * gradient) / self.shares
        self.y /= self.shares
        self.sum_x, self.sum_y = self.sum_x + self.x, self.sum_y + self.y
        return self.sum_x, self.sum_y, t

    def hear(self, inbox: list[tuple[int, tuple[np.ndarray, float, int]]]) -> None:
        """Lines 16-24."""
        for sender, (sum_x, sum_y, sent) in inbox:
            old_x, old_y, newest = self.heard[sender]
            if sent > newest:
                self.x = self.x + sum_x - old_x
                self.y += sum_y - old_y
                self.heard[sender] = (sum_x, sum_y, sent)
        self.z = self.x / self.y


def numpy_loop(task: Problem, table: Rounds, steps: int, count: int) -> float:
    """Seconds per round of the loop over the first `count` rounds."""
    graph, train, rng = table.graph, task.clients.train, np.random.default_rng(0)
    agents = []
    for i in range(graph.agents):
        rows = slice(train.starts[i], train.starts[i] + train.sizes[i])
        batches = rng.integers(0, train.sizes[i], (count, steps + 1, BATCH))
        inputs, targets = (np.asarray(train.rows[name][rows], np.float64) for name in ("a", "b"))
        data = Data(inputs, targets, batches, 1 / graph.agents)
        agents.append(Agent(data, int(graph.out_degrees[i]), graph.sources[graph.targets == i].tolist()))
    when, arrivals = taken_in(table), dict[tuple[int, int], list[tuple[int, int]]]()
    for k in np.flatnonzero(when < count):
        place = (int(when[k]), int(graph.targets[table.link[k]]))
        arrivals.setdefault(place, []).append((int(graph.sources[table.link[k]]), int(table.sent[k])))
    step_sizes = accumulated(np.full(table.length, STEP_SIZE), table.awake)
    awake = [np.flatnonzero(row).tolist() for row in table.awake]
    sent: dict[tuple[int, int], tuple[np.ndarray, float, int]] = {}
    began = time.perf_counter()
    for t in range(count):
        for i in awake[t]:
            sent[i, t] = agents[i].speak(t, step_sizes[t, i])
        for i in awake[t]:
            agents[i].hear([(j, sent[j, s]) for j, s in arrivals.get((t, i), [])])
    return (time.perf_counter() - began) / count
