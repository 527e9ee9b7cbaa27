"""One algorithm without a server on small agents, ready to be run over any rounds."""

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from idiolect.contracts import Algorithm, Problem
from idiolect.engines import Snapshot, Workers
from idiolect.engines.checkpointing import Checkpoint, Tick
from idiolect.engines.serverless import Lane, PeerProgram, prepare_peers, simulate_peers
from idiolect.network.topologies import erdos_renyi
from idiolect.network.unreliable_links import Links, draw_rounds
from idiolect.testing.small_clients import N

ROUNDS = 10
ROUGH = Links(wake=0.6, gamma_w="unbounded", loss=0.4, gamma_f="unbounded", least_delay=0, gamma_d=3, duplication=0.3)
BOUNDED = Links(wake=0.6, gamma_w=2, loss=0.3, gamma_f=1, least_delay=0, gamma_d=2, duplication=0.3)
ONCE = ROUGH._replace(loss=0.0, duplication=0.0)  # every message arrives once, late and out of order


def peer_program(problem: Problem, algorithm: Algorithm) -> PeerProgram:
    """Compile (on first call) an algorithm in 64 bits."""
    with jax.enable_x64(True):
        return prepare_peers(problem, algorithm)


def a_lane(problem: Problem, links: Links = ROUGH, *, rounds: int = ROUNDS, draw: int = 5, seed: int = 6) -> Lane:
    """A random graph on which messages are lost, late and doubled, as the links have it."""
    graph = erdos_renyi(probability=0.5)(N, np.random.default_rng(draw - 1))
    return Lane(problem.clients, draw_rounds(links, graph, rounds, draw), seed)


def pauses(
    program: PeerProgram,
    lanes: Sequence[Lane],
    times: Sequence[float],
    workers: Workers,
    *,
    nodes: bool = False,
    tick: Tick = lambda time, save: None,
    saved: Checkpoint | None = None,
    wide: bool = True,
) -> Iterator[list[Snapshot]]:
    """Run agents that learn in 64 bits, or, unless `wide`, in 32.

    With `nodes` a snapshot's `model` is all that an agent keeps for its protocol.
    """
    with jax.enable_x64(wide):
        told = program._replace(models=lambda state: state.nodes) if nodes else program
        for snapshots in simulate_peers(told, lanes, workers, times=times, tick=tick, saved=saved):
            for snapshot in snapshots:
                snapshot.check()
            yield snapshots
