"""The embedded engine for protocols without a server: rounds in virtual time, several seeds side by side.

Lanes, one a seed, are spread over the workers; those of one worker run as one network whose parts are not linked.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Params
from idiolect.engines.serverless.ledger import Stock, joined, pending_messages
from idiolect.engines.serverless.program import PeerProgram
from idiolect.engines.serverless.world import Lane, build_world
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.workers import Workers
from idiolect.errors import Diverged
from idiolect.network.rounds import oldest, taken_in

LEAK = 1e-6  # a share of the mass that no rounding explains
_TINY = 1e-200  # a weight below this will soon be zero, and x / y nonsense


def simulate_peers(
    program: PeerProgram,
    lanes: Sequence[Lane],
    workers: Workers,
    *,
    times: Sequence[float],
) -> Iterator[list[Snapshot]]:
    """Run the program over every lane's rounds and pause at each of the `times`, with a snapshot of each lane.

    A pause at time t shows the agents after t rounds. Agents sum in 64 bits, whatever floats they learn in.
    How lanes are spread over workers may show in the last digits, and nowhere else.
    """
    width = -(-len(lanes) // workers.count)
    groups = [lanes[k : k + width] for k in range(0, len(lanes), width)]
    starts = [[program.init(jax.random.key(lane.seed)) for lane in group] for group in groups]
    runs = _together(workers, [partial(_Run, program, *both) for both in zip(groups, starts, strict=True)])
    for time in sorted(times):
        snapshots = _together(workers, [partial(run.until, time) for run in runs])
        yield [snapshot for group in snapshots for snapshot in group]


def _together(workers: Workers, tasks: list[Callable[[], Any]]) -> list[Any]:
    """What the tasks return, each done by a worker."""

    def in_64_bits(task: Callable[[], Any]) -> Any:
        with jax.enable_x64(True):  # a setting of the thread
            return task()

    futures = [workers.run(in_64_bits, task) for task in tasks]
    return [future.result() for future in futures]


class _Run:
    """Some lanes, as far as they have come."""

    def __init__(self, program: PeerProgram, lanes: Sequence[Lane], params: list[Params]) -> None:
        self._program, self._lanes = program, lanes
        self._start = jax.tree.map(lambda *leaves: np.stack(leaves), *params)
        self._world = build_world(program.algorithm, lanes, params[0], program.peer.carries == "sums")
        self._ring = 1 + max(oldest(lane.table) for lane in lanes)
        self._taken_in = [taken_in(lane.table) for lane in lanes]
        self._state = program.open(self._start, self._world, self._ring)
        self._done, self._counted = 0, np.zeros(len(lanes), int)

    def until(self, time: float) -> list[Snapshot]:
        """Go on until this time, and look."""
        until = min(int(time), self._lanes[0].table.length)
        self._state = self._program.advance(self._state, self._world, np.int32(self._done), np.int32(until))
        self._done = until
        agents = self._lanes[0].table.graph.agents
        models = jax.tree.map(lambda leaf: _by_lane(leaf, agents), self._program.models(self._state))
        totals = {name: _by_lane(total, agents).sum(1) for name, total in self._state.totals.items()}
        stock = jax.tree.map(np.asarray, self._take_stock())
        wakings = np.array([int(lane.table.awake[:until].sum()) for lane in self._lanes])
        snapshots = []
        for number, lane in enumerate(self._lanes):
            mine = jax.tree.map(lambda leaf, lane=number: leaf[lane], models)
            count = max(int(wakings[number] - self._counted[number]), 1)
            reports = {name: float(total[number]) / count for name, total in totals.items()} if until else {}
            reports |= _mass_report(jax.tree.map(lambda leaf, lane=number: leaf[lane], stock))
            reports |= {"consensus_gap": _gap(mine), "smallest_y": float(self._lowest(number).min())}
            leak = _leak(reports["y_leaked"] / agents)
            snapshot = _snapshot(lane, mine, time, int(wakings[number]), reports)
            snapshots.append(snapshot._replace(ended=self._fault(number, leak), excused=leak))
        self._state = self._state._replace(totals=jax.tree.map(jnp.zeros_like, self._state.totals))
        self._counted = wakings
        return snapshots

    def _take_stock(self) -> Stock:
        last, peer = self._done - 1, self._program.peer
        pending = [
            pending_messages(lane.table, when, last, peer, self._ring)
            for lane, when in zip(self._lanes, self._taken_in, strict=True)
        ]
        under_way = jnp.asarray(joined(pending, peer))
        return self._program.take_stock(self._state, self._world, self._start, under_way, jnp.int32(last))

    def _lowest(self, number: int) -> np.ndarray:
        return _by_lane(self._state.lowest, self._lanes[0].table.graph.agents)[number]

    def _fault(self, number: int, leak: str) -> str:
        """What broke a lane, if anything did. That is an error, unless a leak of mass explains it: then a result."""
        lane, name = self._lanes[number], self._program.algorithm.name
        broken, lowest = _by_lane(self._state.broken, lane.table.graph.agents)[number], self._lowest(number)
        if (broken >= 0).any():
            first = int(np.argmin(np.where(broken >= 0, broken, np.iinfo(np.int32).max)))
            client = lane.clients.participating[first]
            what = f"{name} diverged: the loss of client {client} was not finite in round {broken[first]}"
        elif (lowest < _TINY).any():
            client = lane.clients.participating[int(lowest.argmin())]
            what = f"{name}: the weight y of client {client} has fallen to {lowest.min():.3g} by round {self._done}"
        else:
            return ""
        if leak:
            return f"{what}; {leak}"
        hint = "a smaller step size may help" if (broken >= 0).any() else "it wakes and sends, but hears from nobody"
        raise Diverged(f"{what}; {hint}")


def _by_lane(leaf: Any, agents: int) -> np.ndarray:
    values = np.asarray(leaf)
    return values.reshape(-1, agents, *values.shape[1:])


def _snapshot(lane: Lane, models: Params, time: float, wakings: int, reports: dict[str, float]) -> Snapshot:
    average = jax.tree.map(lambda leaf: leaf.mean(0, dtype=np.float64).astype(leaf.dtype), models)
    place = {client: agent for agent, client in enumerate(lane.clients.participating)}

    def model(client: int) -> Params:
        """An agent's own model; a client that is no agent gets the average."""
        return jax.tree.map(lambda leaf: leaf[place[client]], models) if client in place else average

    return Snapshot(time, wakings, average, model, {}, lambda client: (), reports)


def _mass_report(stock: Stock) -> dict[str, float]:
    report = {}
    for where, mass in stock._asdict().items():
        report[f"y_{where}"] = float(mass.y)
        report[f"x_{where}"] = float(np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(mass.x))))
    return report


def _gap(models: Params) -> float:
    """The root mean square distance of the agents from their average."""
    with np.errstate(all="ignore"):  # a run that has left the numbers is told of elsewhere
        squares = [((leaf - leaf.mean(0, dtype=np.float64)) ** 2).sum() / len(leaf) for leaf in jax.tree.leaves(models)]
        return float(np.sqrt(sum(squares)))


def _leak(share: float) -> str:
    """A leak of mass that no rounding explains, in words; empty if there is none."""
    if abs(share) <= LEAK:
        return ""
    return f"{share:.3%} of the mass has leaked" if share > 0 else f"{-share:.3%} of the mass came from nowhere"
