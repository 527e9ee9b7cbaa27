"""The laws of protocols without a server, each a function, and `check_peer`, which checks them all."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Algorithm, Objective, Peer, Problem, PyTree, StepRule
from idiolect.engines import Snapshot, Workers
from idiolect.engines.checkpointing import Checkpoint
from idiolect.engines.serverless import Lane, PeerProgram
from idiolect.engines.serverless.stepwise_peers import Agent, run_peers_stepwise
from idiolect.network.unreliable_links import Links
from idiolect.objectives import plain
from idiolect.testing.comparing import (
    Training,
    agree,
    apart,
    difference,
    made_from,
    require,
    same_bytes,
    works,
)
from idiolect.testing.peer_runs import ONCE, ROUGH, a_lane, pauses, peer_program
from idiolect.testing.small_clients import START, N, noisy_quadratics

ROUNDING = 1e-11  # up to which two orders of adding up agree in 64 bits, after a few rounds
LEAK = 1e-9  # of the mass, up to which it is conserved
_LONG = 200  # rounds in which the agents of a small network come to agree
_ONCE = 1e-13  # all further steps are so much smaller than the first


def check_peer(
    peer: Peer | Callable[..., Peer],
    *,
    objective: Objective | None = None,
    training: Training = Training(local_steps=2, step_size=0.05, batch_size=1),
    **options: Any,
) -> None:
    """Check the laws that every protocol without a server obeys, on small noisy quadratics in 64 bits.

    No waking changes a type; the fast engine does what the stepwise one does, though messages are lost, late, doubled
    and out of order; the same seed has the same bytes and another one others; a run goes on from a checkpoint to the
    same bytes. Sums conserve mass whatever the network does, and shares if every message arrives once; then agents that
    stop learning tend to the average of what they have learned.

    Args:
        peer: One's own protocol, or the factory that makes it.
        objective: What agents minimise meanwhile; by default their own loss.
        training: How agents descend when they wake.
        options: Of the factory.

    Raises:
        AssertionError: A law is broken; the sentence says which, and by how much.
        UserMistake: There is nothing to check, or the objective refuses the problem.

    Example:
        >>> from idiolect import protocols
        >>> from idiolect.testing import check_peer
        >>> check_peer(protocols.running_sum)
    """
    made: Peer = made_from(Peer, peer, options)
    problem = noisy_quadratics(noise=0.5)
    algorithm = Algorithm("yours", objective or plain(), made, *training, StepRule("decreasing", 2.0))
    wakings_keep_their_types(problem, made)
    program = peer_program(problem, algorithm)
    with Workers(1) as workers:
        links = ROUGH if made.carries == "sums" else ONCE
        lanes = [a_lane(problem), *(a_lane(problem, links, draw=draw) for draw in (6, 7))]  # as one compiled program
        engines_agree(problem, program, lanes, workers)
        runs_are_reproducible(program, lanes, workers)
        if made.carries != "copies":
            mass_is_conserved(program, lanes, workers, first=0 if made.carries == "sums" else 1)
            agents_come_to_agree(made, workers)


def wakings_keep_their_types(problem: Problem, peer: Peer) -> None:
    """State, memory and model keep their structure, shapes and types from waking to waking."""
    law = "no waking changes a type"
    with jax.enable_x64(True):
        params, degree = problem.init(jax.random.key(0)), jnp.int32(2)
        state, memory = peer.init(params, degree), peer.remember(params, degree)
        shapes = works(law, "to wake, to hear and to settle", lambda: _shapes_of_waking(peer, state, memory, params))
    before = (state, memory, state, params)
    for what, after, wanted in zip(("emit", "receive", "settle", "read"), shapes, before, strict=True):
        wrong = difference(after, wanted)
        require(not wrong, law, f"what {what} returns {wrong}")


def engines_agree(
    problem: Problem,
    program: PeerProgram,
    lanes: Sequence[Lane],
    workers: Workers,
    *,
    tolerance: float = ROUNDING,
    wide: bool = True,
) -> list[Agent]:
    """The fast engine ends with the numbers of the stepwise one, in what protocol and objective keep.

    The stepwise engine runs the first lane, whose agents are returned. Agents learn in 64 bits, or in 32 unless
    `wide`.
    """
    law, algorithm, lane = "the fast and the stepwise engine agree", program.algorithm, lanes[0]

    def run_fast() -> list[list[Snapshot]]:
        return list(pauses(program, lanes, [lane.table.length], workers, nodes=True, wide=wide))

    ((fast, *_),) = works(law, "a run of the fast engine", run_fast)
    with jax.enable_x64(wide):
        slow = works(law, "a run of the stepwise engine", lambda: run_peers_stepwise(problem, algorithm, lane))
    for i, agent in enumerate(slow):
        for what, ours, theirs in (("state", fast.model(i), agent.state), ("own", fast.own(i), agent.own)):
            wrong = difference(ours, theirs)
            require(not wrong, law, f"{algorithm.name}: on the fast engine the {what} of agent {i} {wrong}")
            gap = apart(ours, theirs)
            require(
                agree(ours, theirs, tolerance),
                law,
                f"{algorithm.name}: the {what} of agent {i} differs by {gap:.3g} after {lane.table.length} rounds",
            )
    return slow


def runs_are_reproducible(program: PeerProgram, lanes: Sequence[Lane], workers: Workers) -> None:
    """Nothing but the seed matters to a run, nor whether it was interrupted."""
    name, times = program.algorithm.name, [lanes[0].table.length // 2, lanes[0].table.length]
    saved: list[Checkpoint] = []

    def tick(time: float, save: Callable[[], Checkpoint]) -> None:
        if time == times[0]:
            saved.append(save())

    def end(lanes: Sequence[Lane], **how: Any) -> PyTree:
        *_, (snapshot, *_) = pauses(program, lanes, times, workers, nodes=True, **how)
        return [(snapshot.model(i), snapshot.own(i)) for i in lanes[0].clients.participating]

    first = end(lanes, tick=tick)
    for law, other in (
        ("same seed, same bytes", end(lanes)),
        ("a checkpoint goes on to the same bytes", end(lanes, saved=saved[0])),
    ):
        require(
            same_bytes(first, other), law, f"{name}: the agents of two runs are up to {apart(first, other):.3g} apart"
        )
    require(
        not same_bytes(first, end([lane._replace(seed=lane.seed + 1) for lane in lanes])),
        "another seed, other bytes",
        f"{name}: two seeds end with the same agents, as if nothing were drawn",
    )


def mass_is_conserved(program: PeerProgram, lanes: Sequence[Lane], workers: Workers, *, first: int = 0) -> None:
    """What agents hold, what is under way and what can be recovered is the start less the steps, after every round.

    Lanes before the `first` are run, but not judged.
    """
    times = list(range(lanes[0].table.length + 1))
    for snapshots in pauses(program, lanes, times, workers, nodes=True):
        for snapshot in snapshots[first:]:
            _conserved(program.algorithm.name, snapshot)


def _conserved(name: str, snapshot: Snapshot) -> None:
    said, law = snapshot.reports, "mass is conserved"
    size = 1 + sum(said[f"x_{where}"] for where in ("with_agents", "under_way", "recoverable"))
    for what, whole in (("y", float(N)), ("x", size)):
        share = abs(said[f"{what}_leaked"]) / whole
        require(
            share <= LEAK,
            law,
            f"{name}: by round {snapshot.time:g}, {share:.3g} of the mass {what} has leaked or come from nowhere",
        )


def agents_come_to_agree(peer: Peer, workers: Workers) -> None:
    """Agents that take one step each, when they first wake, tend to the average of where those steps lead.

    theta(0) is the step and the rest next to nothing. A network that loses messages would be unfair to shares.
    """
    step, problem = 0.05, noisy_quadratics(noise=0.0)
    rule = StepRule("decreasing", _ONCE)
    program = peer_program(problem, Algorithm("yours", plain(), peer, 1, step * _ONCE, 1, rule))
    links = Links() if peer.carries == "sums" else Links(loss=0.0)
    lane = a_lane(problem, links, rounds=_LONG, draw=3)
    ((late,),) = pauses(program, [lane], [_LONG], workers)
    oracles = [problem.oracle(problem.clients.train.shard(i), 1) for i in range(N)]
    with jax.enable_x64(True):
        start, key = jnp.asarray(START), jax.random.key(0)
        slopes = [np.asarray(oracle.gradient(start, key)[1]) for oracle in oracles]
    average = START - step * np.mean(slopes, axis=0)
    for i in range(N):
        gap = apart(late.model(i), average)
        require(
            gap <= LEAK * (1 + np.abs(average).max()),
            "without gradients agents come to agree on their average",
            f"after {_LONG} rounds agent {i} is {gap:.3g} away from it",
        )


def _shapes_of_waking(peer: Peer, state: PyTree, memory: PyTree, params: PyTree) -> tuple[PyTree, ...]:
    """The shapes of what the functions of an agent return: emit, receive, settle and read."""

    def wake(state: PyTree, memory: PyTree, descent: PyTree) -> tuple[PyTree, ...]:
        emitted, message = peer.emit(state, descent, jnp.int32(0))
        heard, gain = peer.receive(memory, message)
        return emitted, heard, peer.settle(emitted, gain), peer.read(state)

    found: tuple[PyTree, ...] = jax.eval_shape(wake, state, memory, optax.tree.zeros_like(params))
    return found
