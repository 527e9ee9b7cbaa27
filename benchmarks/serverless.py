"""PARS-Push through the engine against the straightforward NumPy loop over agents, on the same rounds and samples.

The loop is Algorithm 1 as one would write it down: a class for an agent, dictionaries for its neighbours, one agent and
one message after the other. Its batches are drawn beforehand; the engine draws its own while it runs.
"""

import resource
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idiolect.contracts import Algorithm, Problem, StepRule
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
from idiolect.network.round_tables import Rounds, accumulated, taken_in
from idiolect.network.topologies import erdos_renyi
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.objectives import maml
from idiolect.problems.synthetic import linear_regression
from idiolect.protocols import running_sum

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


def pars_push(steps: int) -> Algorithm:
    """With so many personal steps."""
    objective = maml(steps=steps, step_size=ALPHA, batches="shared")
    return Algorithm(f"u = {steps}", objective, running_sum(), 1, STEP_SIZE, BATCH, StepRule())


def engine(tasks: list[Problem], tables: list[Rounds], steps: Sequence[int], workers: Workers) -> tuple[float, float]:
    """Seconds per round and run of the engine with all its lanes, and seconds to compile; any number of u at once."""
    chosen, seeds = [pars_push(u) for u in steps], list(enumerate(zip(tasks, tables, strict=True)))
    program, own = prepare_peers(tasks[0], chosen[0]), chosen if len(chosen) > 1 else [None]
    lanes = [Lane(task.clients, table, seed, one) for one in own for seed, (task, table) in seeds]
    times = []
    for _ in range(4):
        began = time.perf_counter()
        list(simulate_peers(program, lanes, workers, times=[tables[0].length]))
        times.append(time.perf_counter() - began)
    best = min(times[1:])
    return best / tables[0].length / len(lanes), times[0] - best


def layout(agents: int, probability: float, samples: int, count: int, seed: int) -> tuple[Problem, Rounds]:
    """The paper's problem and network."""
    task = linear_regression(clients=agents, dimension=DIMENSION, samples=samples, seed=seed)
    graph = erdos_renyi(probability=probability)(agents, np.random.default_rng(seed))
    return task, draw_rounds(Links(), graph, count, seed)


def main() -> None:
    """Print the table."""
    with Workers() as workers:
        few_agents(workers)
        several_steps(workers)
        many_agents(workers)


def few_agents(workers: Workers) -> None:
    """The paper's network, for every number of personal steps."""
    print("PARS-Push, microseconds per round and run (d = 30, batch 20): NumPy loop; engine; 6 seeds at once")
    worlds = [layout(10, 0.15, 1000, 6000, seed) for seed in range(6)]
    tasks, tables = [task for task, _ in worlds], [table for _, table in worlds]
    for steps in range(6):
        slow = min(numpy_loop(tasks[0], tables[0], steps, 300) for _ in range(3))
        alone, compiling = engine(tasks[:1], tables[:1], [steps], workers)
        together, _ = engine(tasks, tables, [steps], workers)
        print(
            f"  10 agents, u = {steps}: {1e6 * slow:8.0f} {1e6 * alone:8.1f} {1e6 * together:8.1f}   "
            f"{slow / alone:5.1f} and {slow / together:5.1f} times faster; compiling took {compiling:.1f} s",
            flush=True,
        )


def several_steps(workers: Workers) -> None:
    """All of u = 1, …, 5 on five seeds each: as programs one after the other, and as one batch."""
    worlds = [layout(10, 0.15, 1000, 6000, seed) for seed in range(5)]
    tasks, tables, every = [task for task, _ in worlds], [table for _, table in worlds], range(1, 6)
    apart = [engine(tasks, tables, [steps], workers) for steps in every]
    batch, compiling = engine(tasks, tables, every, workers)
    mean, compiled = np.mean([run for run, _ in apart]), sum(once for _, once in apart)
    print(
        f"  10 agents, u = 1 to 5, 5 seeds each: {1e6 * mean:.1f} one u after the other, {1e6 * batch:.1f} as one "
        f"batch ({mean / batch:.2f} times faster); compiling took {compiled:.1f} s and {compiling:.1f} s",
        flush=True,
    )


def many_agents(workers: Workers) -> None:
    """A thousand agents with ten neighbours each."""
    worlds = [layout(1000, 0.01, 100, 1000, seed) for seed in range(2)]
    tasks, tables = [task for task, _ in worlds], [table for _, table in worlds]
    for steps in (0, 1):
        slow = numpy_loop(tasks[0], tables[0], steps, 20)
        alone, compiling = engine(tasks[:1], tables[:1], [steps], workers)
        together, _ = engine(tasks, tables, [steps], workers)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(
            f"  1,000 agents, {tables[0].graph.links} links, u = {steps}: {1e6 * slow:.0f} {1e6 * alone:.0f} "
            f"{1e6 * together:.0f} (2 seeds)   {slow / alone:.1f} and {slow / together:.1f} times faster; 1,000 rounds "
            f"take {1000 * alone:.1f} s, compiling {compiling:.1f} s, peak memory so far {memory:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
