"""PARS-Push through the engine against the straightforward NumPy loop over agents, on the same rounds and samples.

The loop is `numpy_agents.py`. Its batches are drawn beforehand; the engine draws its own while it runs. At 1,000 agents
and more, a copy of the arrays that a round must move is timed beside them: the rows of memories and messages that it
takes in, the agents that wake, and their batches, each read and written once, by one core. *XLA's moving* is what a
compiled program takes that does nothing but take the rows of memories and messages, put the newer ones in place, and
add up what is new at every agent: as few passes as a round can have that is written in JAX.

python benchmarks/serverless.py --rounds 1000        so many rounds, where there are many agents
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from figures import Figure, Found, Pace, Row, Table, asked, interleaved, once, ratio, write
from idiolect.contracts import Algorithm, Problem, StepRule
from idiolect.engines import Workers
from idiolect.engines.checkpointing import Checkpoint
from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
from idiolect.network import topology
from idiolect.network.round_tables import Rounds, arrivals
from idiolect.network.topologies import erdos_renyi
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.objectives import maml
from idiolect.problems.synthetic import linear_regression
from idiolect.protocols import running_sum
from numpy_agents import ALPHA, BATCH, DIMENSION, STEP_SIZE, numpy_loop
from tasks import wait_for
from yardsticks import copy_seconds

World = tuple[Problem, Rounds]
COPY, MOVING = "the copy", "XLA's moving"
FEW, MANY, MOST, NEIGHBOURS = 10, 1_000, 10_000, 10


def pars_push(steps: int) -> Algorithm:
    """With so many personal steps."""
    objective = maml(steps=steps, step_size=ALPHA, batches="shared")
    return Algorithm(f"u = {steps}", objective, running_sum(), 1, STEP_SIZE, BATCH, StepRule())


def engine(worlds: Sequence[World], steps: Sequence[int], workers: Workers) -> Callable[[], float]:
    """Seconds per round and run of the engine with all its lanes; any number of u at once. The first call compiles."""
    chosen = [pars_push(u) for u in steps]
    program, own = prepare_peers(worlds[0][0], chosen[0]), chosen if len(chosen) > 1 else [None]
    lanes = [Lane(task.clients, table, seed, one) for one in own for seed, (task, table) in enumerate(worlds)]
    length = worlds[0][1].length

    def timed() -> float:
        began = time.perf_counter()
        list(simulate_peers(program, lanes, workers, times=[length]))
        return (time.perf_counter() - began) / length / len(lanes)

    return timed


def moved(world: World, steps: int, workers: Workers) -> list[np.ndarray]:
    """What a round moves, as arrays of the engine's types: as many rows as it has messages and wakers on average."""
    (task, table), saved = world, list[Checkpoint]()
    lane, program = Lane(task.clients, table, 0), prepare_peers(task, pars_push(steps))
    list(simulate_peers(program, [lane], workers, times=[1], tick=lambda time, save: saved.append(save())))
    messages, wakers = (int(n / table.length) for n in (len(arrivals(table, True).link), table.awake.sum()))
    found = []
    for name, leaf in saved[-1].tensors.items():
        if ".state.memories" in name:
            found.append(leaf[:messages])
        elif ".state.spoken" in name:
            found.append(np.resize(leaf, (messages, *leaf.shape[2:])))
        elif ".state.nodes" in name:
            found.append(leaf[:wakers])
    drawn = wakers * BATCH * (steps + 1)
    batches = [np.resize(np.asarray(rows), (drawn, *rows.shape[1:])) for rows in task.clients.train.rows.values()]
    return [np.array(leaf) for leaf in (*found, *batches)]


def moving(world: World, length: int) -> Callable[[], float]:
    """Seconds per round of taking in the messages by their rows alone, whatever they say. The first call compiles."""
    import jax
    import jax.numpy as jnp

    graph, came = world[1].graph, arrivals(world[1], True)
    width = int(np.bincount(came.round, minlength=length).max())
    links = np.full((length, width), graph.links, np.int32)  # lists end with a link that leads to nobody
    for t in range(length):
        there = np.sort(came.link[came.round == t])
        links[t, : len(there)] = there
    sources, targets = np.append(graph.sources, 0), np.append(graph.targets, graph.agents)
    ordered: dict[str, Any] = {"indices_are_sorted": True, "mode": "promise_in_bounds"}

    def play(memories: jax.Array, said: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one_round(t: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            memories, sums = state
            link = jnp.asarray(links)[t]
            new, old = said[jnp.asarray(sources)[link]], memories[link]
            sums = sums.at[jnp.asarray(targets)[link]].add(new - old, **ordered)
            # The links as they are, once the sums are there: else XLA copies all memories before it writes any.
            link = jnp.maximum(link, -jnp.isnan(sums[0, 0]).astype(link.dtype))
            return memories.at[link].set(new, **ordered), sums

        sums = jnp.zeros((graph.agents + 1, DIMENSION))
        return jax.lax.fori_loop(0, length, one_round, (memories, sums))

    compiled = jax.jit(play, donate_argnums=0)

    def timed() -> float:
        with jax.enable_x64(True):
            memories, said = (np.ones((count, DIMENSION)) for count in (graph.links + 1, graph.agents))
            given = jax.device_put((memories, said))
            began = time.perf_counter()
            wait_for(compiled(*given))
            return (time.perf_counter() - began) / length

    return timed


def layout(agents: int, probability: float, samples: int, count: int, seed: int) -> World:
    """The paper's problem and network."""
    task = linear_regression(clients=agents, dimension=DIMENSION, samples=samples, seed=seed)
    graph = erdos_renyi(probability=probability)(agents, np.random.default_rng(seed))
    return task, draw_rounds(Links(), graph, count, seed)


def micro(seconds: Sequence[float]) -> Figure:
    """Microseconds, from seconds."""
    return Figure("us", [1e6 * one for one in seconds])


def compared(sides: dict[str, Callable[[], float]], repeats: int, pace: Pace) -> dict[str, Figure]:
    """Microseconds of every side, in turn; ratios of NumPy's; and seconds to compile what is run alone."""
    began = time.perf_counter()
    first = sides["idiolect"]()
    compiling = time.perf_counter() - began
    found = {name: micro(seconds) for name, seconds in interleaved(sides, repeats, pace).items()}
    for name in ("idiolect", "together"):
        if name in found:
            found[f"{name} ratio"] = ratio(found["NumPy"], found[name])
    for bound in (COPY, MOVING):
        if bound in found:
            found[f"times {bound}"] = ratio(found["idiolect"], found[bound])
    compiling *= max(0.0, 1 - found["idiolect"].median / (1e6 * first))
    return {**found, "compiling": once(compiling, "s")}


def few_agents(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """The paper's network, for every number of personal steps."""
    print("PARS-Push, microseconds per round and run (d = 30, batch 20): NumPy loop; engine; 6 seeds at once")
    worlds, rows = [layout(FEW, 0.15, 1000, 6000, seed) for seed in range(6)], []
    for steps in options.steps:
        sides: dict[str, Callable[[], float]] = {
            "NumPy": partial(numpy_loop, *worlds[0], steps, 300),
            "idiolect": engine(worlds[:1], [steps], workers),
            "together": engine(worlds, [steps], workers),
        }
        rows.append(Row(f"{FEW} agents, u = {steps}", compared(sides, options.repeats, pace)))
        show(rows[-1])
    return rows


def several_steps(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """All of u = 1, …, 5 on five seeds each: as programs one after the other, and as one batch."""
    worlds, every = [layout(FEW, 0.15, 1000, 6000, seed) for seed in range(5)], range(1, 6)
    singles, batch = [engine(worlds, [steps], workers) for steps in every], engine(worlds, every, workers)
    began = time.perf_counter()
    for one in singles:
        one()
    between = time.perf_counter()
    batch()
    compiled = {
        "apart compiling": once(between - began, "s"),
        "batch compiling": once(time.perf_counter() - between, "s"),
    }
    sides = {"apart": lambda: sum(one() for one in singles) / len(singles), "batch": batch}
    found = {name: micro(seconds) for name, seconds in interleaved(sides, options.repeats, pace).items()}
    row = Row("u = 1 to 5, 5 seeds each", {**found, "ratio": ratio(found["apart"], found["batch"]), **compiled})
    print(f"  {row.case}: {found['apart']} one u after the other, {found['batch']} as one batch", flush=True)
    return [row]


def many_agents(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """A thousand agents with ten neighbours each, beside a copy of what a round moves."""
    worlds, rows = [layout(MANY, NEIGHBOURS / MANY, 100, options.rounds, seed) for seed in range(2)], []
    for steps in sorted({0, 1} & set(options.steps)):
        arrays = moved(worlds[0], steps, workers)
        targets = [np.empty_like(leaf) for leaf in arrays]
        sides: dict[str, Callable[[], float]] = {
            "NumPy": partial(numpy_loop, *worlds[0], steps, min(20, options.rounds)),
            "idiolect": engine(worlds[:1], [steps], workers),
            "together": engine(worlds, [steps], workers),
            COPY: partial(copy_seconds, arrays, targets, 50),
            MOVING: moving(worlds[0], options.rounds),
        }
        facts = {"links": once(worlds[0][1].graph.links), "moved": once(sum(a.nbytes for a in arrays) / 1e6, "MB")}
        rows.append(Row(f"{MANY:,} agents, u = {steps}", {**compared(sides, options.repeats, pace), **facts}))
        show(rows[-1])
    return rows


def most_agents(rounds: int, workers: Workers) -> dict[str, float]:
    """Ten thousand agents with ten neighbours each: seconds per round, compiled and not, and the most memory."""
    offsets = [1, *np.random.default_rng(0).choice(np.arange(2, MOST), NEIGHBOURS - 1, replace=False).tolist()]
    graph = topology(MOST, [(agent, (agent + step) % MOST) for agent in range(MOST) for step in offsets])
    task = linear_regression(clients=MOST, dimension=DIMENSION, samples=50, seed=0)
    run = engine([(task, draw_rounds(Links(), graph, rounds, 0))], [0], workers)
    found = {"first": run(), "seconds": run(), "links": graph.links, "rounds": rounds}
    return {**found, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10}


def most_agents_apart(rounds: int, repeats: int, pace: Pace) -> list[Row]:
    """The same, each time in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--most", str(rounds)]
    found = []
    for _ in range(repeats):
        found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        pace.step()
    whole = Figure("s", [one["seconds"] * rounds for one in found])
    figures = {
        "idiolect": micro([one["seconds"] for one in found]),
        "all rounds": whole,
        "1,000 rounds": Figure("s", [1_000 * one["seconds"] for one in found]),
        "rounds": once(rounds),
        "links": once(found[0]["links"]),
        "memory": Figure("MB", [one["memory"] for one in found]),
    }
    row = Row(f"{MOST:,} agents, u = 0", figures)
    print(
        f"  {row.case}, {found[0]['links']:,} links: {rounds} rounds in {whole} s, peak memory {figures['memory']} MB"
    )
    return [row]


def show(row: Row) -> None:
    """A line of text."""
    found = row.figures
    cells = "  ".join(
        f"{name} {found[name]}" for name in ("NumPy", "idiolect", "together", COPY, MOVING) if name in found
    )
    more = "".join(f"; {found[f'times {bound}']} times {bound}" for bound in (COPY, MOVING) if bound in found)
    faster = f"{found['idiolect ratio'].median:.1f} and {found['together ratio'].median:.1f} times faster"
    print(f"  {row.case}: {cells}   {faster}; compiling took {found['compiling']} s{more}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = asked(__doc__, 3)
    parser.add_argument("--steps", type=int, nargs="+", default=list(range(6)), help="numbers of personal steps u")
    parser.add_argument("--rounds", type=int, default=1000, help="where there are many agents")
    parser.add_argument("--no-batch", action="store_true", help="leave out all u as one batch, which compiles for long")
    parser.add_argument("--most", type=int, help="so many rounds of 10,000 agents alone, as JSON")
    options = parser.parse_args()
    few = max(1, options.repeats // 3)  # of the largest, which take long
    cases = len(options.steps) + len({0, 1} & set(options.steps)) + (not options.no_batch)
    pace = Pace(options.repeats * cases + few)
    with Workers() as workers:
        if options.most:
            print(json.dumps(most_agents(options.most, workers)))
            return
        rows, says = few_agents(workers, options, pace), "Microseconds per round and run, beside the NumPy loop"
        batch = [] if options.no_batch else several_steps(workers, options, pace)
        many = many_agents(workers, options, pace)
    most = most_agents_apart(options.rounds, few, pace)
    tables = {"agents": Table(says, [*rows, *many]), "most": Table("Ten thousand agents", most)}
    if batch:
        tables["batch"] = Table("All u as one batch", batch)
    write(options.json, Found(tables))


if __name__ == "__main__":
    main()
