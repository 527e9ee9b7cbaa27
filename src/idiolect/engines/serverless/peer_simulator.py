"""The simulator of protocols without a server: rounds in virtual time, several seeds side by side.

Lanes, one a seed (and algorithm, if there are several), are spread over the workers; those of one worker run as one
network whose parts are not linked.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Params, PyTree
from idiolect.engines.checkpointing import Checkpoint, Tick
from idiolect.engines.serverless.crews import CrewMaker
from idiolect.engines.serverless.lane_reports import consensus_gap, leak_of, mass_report
from idiolect.engines.serverless.layout import Lane, State, build_layout, first_models, first_own
from idiolect.engines.serverless.link_screening import by_lane, by_link
from idiolect.engines.serverless.mass_ledger import Stock, joined, pending_messages
from idiolect.engines.serverless.peer_program import PeerProgram
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.workers import Workers
from idiolect.network.round_tables import oldest, taken_in
from idiolect.trees import fill, names_of

SECONDS = 1.0  # between two ticks, about
_TINY = 1e-200  # a weight below this will soon be zero, and x / y nonsense


def simulate_peers(
    program: PeerProgram,
    lanes: Sequence[Lane],
    workers: Workers,
    *,
    times: Sequence[float],
    tick: Tick = lambda time, save: None,
    saved: Checkpoint | None = None,
    crew: CrewMaker | None = None,
) -> Iterator[list[Snapshot]]:
    """Run the program over every lane's rounds and pause at each of the `times`, with a snapshot of each lane.

    A pause at time t shows the agents after t rounds. Agents sum in 64 bits, whatever floats they learn in. How lanes
    are spread over workers may show in the last digits, and nowhere else.

    Args:
        program: From `prepare_peers`.
        lanes: One for each seed: who holds what, and what the network does.
        workers: Threads over which the lanes are spread.
        times: When to pause, in rounds.
        tick: Hears of every second or so, and can ask for what would have to be saved to go on from then.
        saved: A checkpoint to go on from. Who goes on is first shown the last pause again.
        crew: Makes those who play the rounds, if the workers shall not.

    Returns:
        An iterator that runs until the next pause, and gives a snapshot of each lane.

    Example:
        >>> import inspect
        >>> from idiolect import Algorithm, objectives, protocols
        >>> from idiolect.engines import Workers
        >>> from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
        >>> from idiolect.network import Links, draw_rounds, topology
        >>> from idiolect.problems.synthetic import quadratics
        >>> problem = quadratics(clients=2, dimension=2)
        >>> program = prepare_peers(problem, Algorithm("mine", objectives.plain(), protocols.push_sum(), local_steps=1))
        >>> table = draw_rounds(Links(wake=1.0), topology(2, [(0, 1), (1, 0)]), 4, seed=0)
        >>> with Workers(1) as workers:
        ...     snapshots = simulate_peers(program, [Lane(problem.clients, table, seed=0)], workers, times=[2.0, 4.0])
        >>> inspect.isgenerator(snapshots)  # agents begin when the first is asked for
        True
    """
    # A crew is told of every round by itself, so all lanes are one network to it.
    width = -(-len(lanes) // (1 if crew else workers.count)) if saved is None else saved.facts["width"]
    groups = [lanes[k : k + width] for k in range(0, len(lanes), width)]
    starts = [[first_models(lane, _first_model(program, lane)) for lane in group] for group in groups]
    owns = [first_own(program.algorithm, group, start) for group, start in zip(groups, starts, strict=True)]
    parts = zip(groups, starts, owns, strict=True)
    runs = _together(workers, [partial(_Run, program, crew, *part) for part in parts])
    pauses, done, pace = sorted(times), 0, _Pace()
    if saved is not None:
        done, pauses = saved.facts["rounds"], pauses[saved.facts["pauses"] :]
        _together(workers, [partial(run.restore, saved, f"group{k}") for k, run in enumerate(runs)])
        if saved.facts["pauses"]:
            yield [snapshot for run in runs for snapshot in run.shown()]
    while pauses:
        last = min(int(pauses[0]), lanes[0].table.length)
        while done < last:
            facts = {"width": width, "rounds": done, "pauses": len(times) - len(pauses)}
            moment = partial(tick, done, partial(_save, runs, facts))
            done = min(last, done + pace.rounds(max(run.seconds for run in runs)))
            states = [run.played(done, moment) for run in runs]  # nobody moves on before all are there
            _together(workers, [partial(run.advance, done, state) for run, state in zip(runs, states, strict=True)])
            tick(done, partial(_save, runs, {**facts, "rounds": done}))
        now = pauses.pop(0)
        snapshots = _together(workers, [partial(run.look, now) for run in runs])
        yield [snapshot for group in snapshots for snapshot in group]


def _first_model(program: PeerProgram, lane: Lane) -> Params:
    return (
        program.init(jax.random.key(lane.seed))
        if lane.start is None
        else program.algorithm.objective.shared(lane.start)
    )


class _Pace:
    """How many rounds to go between two ticks: as many as take about so long."""

    def __init__(self) -> None:
        self._rounds, self._asked = 1, time.perf_counter()

    def rounds(self, seconds: float) -> int:
        now = time.perf_counter()
        # At most ten times as many as before: the first rounds wait for the compiler.
        self._rounds = max(1, int(self._rounds * min(10.0, seconds / max(now - self._asked, 1e-9))))
        self._asked = now
        return self._rounds


def _save(runs: list["_Run"], facts: dict[str, Any]) -> Checkpoint:
    tensors: dict[str, np.ndarray] = {}
    for number, run in enumerate(runs):
        tensors |= run.saved(f"group{number}")
    return Checkpoint(facts, tensors)


def _together(workers: Workers, tasks: list[Callable[[], Any]]) -> list[Any]:
    """What the tasks return, each done by a worker."""

    def in_64_bits(task: Callable[[], Any]) -> Any:
        with jax.enable_x64(True):  # a setting of the thread
            return task()

    futures = [workers.run(in_64_bits, task) for task in tasks]
    return [future.result() for future in futures]


class _Shown(NamedTuple):
    """What a look showed of all agents, lane by lane: models, what objectives keep, what was refused, and when."""

    models: Params
    own: PyTree
    refused: np.ndarray  # over every link
    time: np.ndarray


class _Run:
    """Some lanes, as far as they have come."""

    def __init__(
        self, program: PeerProgram, crew: CrewMaker | None, lanes: Sequence[Lane], params: list[Params], own: PyTree
    ) -> None:
        self._program, self._lanes = program, lanes
        self._start = jax.tree.map(lambda *leaves: np.concatenate(leaves), *params)
        self._layout = build_layout(program.algorithm, lanes, params[0], program.peer.carries == "sums")
        self._taken_in = [taken_in(lane.table) for lane in lanes]
        self._ring = 1 + max(oldest(lane.table, when) for lane, when in zip(lanes, self._taken_in, strict=True))
        self._state = program.open(self._start, own, self._layout, self._ring)
        self._done, self._counted = 0, np.zeros(len(lanes), int)
        self._shown = self._look(0.0)
        self._crew = None if crew is None else crew(program, lanes, self._layout, self._ring)
        self.seconds = SECONDS

    def played(self, until: int, moment: Callable[[], None]) -> State | None:
        """All agents after so many rounds, if a crew plays them; at every moment, they are still as they were."""
        if self._crew is None:
            return None
        state = self._crew.play(self._state, self._done, until, moment)
        self.seconds = max(SECONDS, self._crew.seconds)
        return state

    def advance(self, until: int, played: State | None) -> None:
        """Go on until so many rounds are done."""
        if played is None:
            played = self._program.advance(self._state, self._layout, np.int32(self._done), np.int32(until))
            jax.tree.leaves(played)[-1].block_until_ready()  # so that a tick comes when the rounds are done
        self._state, self._done = played, until

    def look(self, time: float) -> list[Snapshot]:
        """Show every lane, with what was reported since the last look."""
        agents, before = self._lanes[0].table.graph.agents, self._counted
        totals = {name: _by_lane(total, agents).sum(1) for name, total in self._state.totals.items()}
        self._counted = np.array([int(lane.table.awake[: self._done].sum()) for lane in self._lanes])
        earlier, self._shown = self._shown, self._look(time)
        stock, snapshots = jax.tree.map(np.asarray, self._take_stock()), []
        for number, snapshot in enumerate(self.shown()):
            count = max(int(self._counted[number] - before[number]), 1)
            reports = {name: float(total[number]) / count for name, total in totals.items()} if self._done else {}
            reports |= mass_report(_lane(stock, number))
            reports |= {
                "consensus_gap": consensus_gap(_lane(self._shown.models, number)),
                "smallest_y": float(self._lowest(number).min()),
            }
            leak = leak_of(reports["y_leaked"] / agents)
            ended, withdraw = self._fault(number, leak), partial(self._withdraw, number, earlier)
            snapshots.append(snapshot._replace(reports=reports, ended=ended, excused=leak, withdraw=withdraw))
        self._state = self._state._replace(totals=jax.tree.map(jnp.zeros_like, self._state.totals))
        return snapshots

    def _withdraw(self, number: int, earlier: "_Shown") -> None:
        """A lane could not be scored as it was shown: it stays as it was shown before."""

        def put_back(now: np.ndarray, before: np.ndarray) -> None:
            now[number] = before[number]

        jax.tree.map(put_back, self._shown, earlier)

    def shown(self) -> list[Snapshot]:
        """What the last look showed that counts, without what was reported."""
        return [
            self._snapshot(lane, _lane(self._shown, number), int(self._counted[number]))
            for number, lane in enumerate(self._lanes)
        ]

    def saved(self, name: str) -> dict[str, np.ndarray]:
        """The agents as they are, and as they were last shown."""
        leaves = names_of(f"{name}.state", self._state) | names_of(f"{name}.shown", self._shown)
        leaves |= {f"{name}.counted": self._counted}
        return {name: np.array(leaf) for name, leaf in leaves.items()}  # copies: the state's memory is used again

    def restore(self, saved: Checkpoint, name: str) -> None:
        """Go on from there."""
        tensors = saved.tensors
        self._state, self._done = fill(f"{name}.state", self._state, tensors), saved.facts["rounds"]
        self._shown = jax.tree.map(np.array, fill(f"{name}.shown", self._shown, tensors))
        self._counted = tensors[f"{name}.counted"]

    def _look(self, time: float) -> "_Shown":
        agents = self._lanes[0].table.graph.agents
        seen = (self._program.models(self._state), self._state.own)
        # Copies, as the state is overwritten.
        models, own = jax.tree.map(lambda leaf: np.array(_by_lane(leaf, agents)), seen)
        refused = by_lane(self._state.refused, [lane.table.graph.links for lane in self._lanes])
        return _Shown(models, own, refused, np.full(len(self._lanes), time))

    def _snapshot(self, lane: Lane, shown: "_Shown", wakings: int) -> Snapshot:
        """Every agent's own model, and what its objective keeps; a client that is no agent begins with the average."""
        average = jax.tree.map(lambda leaf: leaf.mean(0, dtype=np.float64).astype(leaf.dtype), shown.models)
        place = {client: agent for agent, client in enumerate(lane.clients.participating)}
        begin, key = (lane.algorithm or self._program.algorithm).objective.begin, jax.random.key(lane.seed)

        def model(client: int) -> Params:
            return _lane(shown.models, place[client]) if client in place else average

        def own(client: int) -> PyTree:
            return _lane(shown.own, place[client]) if client in place else begin(average, client, key)

        kept = {client: own(client) for client in place} if jax.tree.leaves(shown.own) else {}
        refused = by_link(shown.refused, lane.table.graph, lane.clients.participating)
        return Snapshot(float(shown.time), wakings, average, model, kept, own, {}, refused_messages=refused)

    def _take_stock(self) -> Stock:
        last, peer = self._done - 1, self._program.peer
        pending = [
            pending_messages(lane.table, when, last, peer, self._ring)
            for lane, when in zip(self._lanes, self._taken_in, strict=True)
        ]
        under_way = jnp.asarray(joined(pending, peer))
        return self._program.take_stock(self._state, self._layout, self._start, under_way, jnp.int32(last))

    def _lowest(self, number: int) -> np.ndarray:
        return _by_lane(self._state.lowest, self._lanes[0].table.graph.agents)[number]

    def _fault(self, number: int, leak: str) -> str:
        """What broke a lane, if anything did, and what explains it: a leak of mass, or else a step that is too long."""
        lane = self._lanes[number]
        name = (lane.algorithm or self._program.algorithm).name
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
        hint = "a smaller step size may help" if (broken >= 0).any() else "it wakes and sends, but hears from nobody"
        return f"{what}; {leak or hint}"


def _lane(tree: PyTree, number: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[number], tree)


def _by_lane(leaf: Any, agents: int) -> np.ndarray:
    values = np.asarray(leaf)
    return values.reshape(-1, agents, *values.shape[1:])
