"""Small networks of quadratics in 64 bits, and one compiled program a protocol for whatever the network does to them.

Two more networks run beside every table and fill it up to the shapes that all tables have in common, so that each
protocol is compiled once.
"""

import functools

import numpy as np

from idiolect.contracts import Algorithm, Clients
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, PeerProgram
from idiolect.network.round_tables import Rounds, arrivals, rounds
from idiolect.network.topologies import Topology, complete
from idiolect.objectives import plain
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres
from idiolect.protocols import gossip, push_sum, running_sum
from idiolect.testing.peer_runs import pauses, peer_program
from idiolect.testing.small_clients import N, noisy_quadratics

ONE_WORKER = Workers(1)  # more would compile every lane for itself
T, ETA, MOST = 8, 0.05, 30
PROTOCOLS = {"running_sum": running_sum, "push_sum": push_sum, "gossip": gossip}
ALL_LINKS = complete()(N, np.random.default_rng(0))


STILL = noisy_quadratics(noise=0.0)
MATRICES, CENTRES = curvatures_and_centres(STILL.clients)


@functools.cache
def prepared(protocol: str) -> PeerProgram:
    return peer_program(STILL, Algorithm(protocol, plain(), PROTOCOLS[protocol](), 1, ETA, 1))


def fillers(table: Rounds) -> list[Rounds]:
    """Two networks that make up for what this one lacks of links, wakings, messages, age and the fullest inbox.

    In all there are twice as many links as can be, twice as many wakings in each round, as many messages at once in one
    round as there can be links, MOST of them over one link, and one message as old as the run.
    """
    came = np.bincount(arrivals(table, newest_only=True).round, minlength=T)
    quiet = int(came.argmin())
    pairs = list(zip(ALL_LINKS.sources.tolist(), ALL_LINKS.targets.tolist(), strict=True))
    missing = [(j, i, quiet, quiet) for j, i in pairs[came[quiet] :]]
    oldest = (*pairs[0], 0, T)
    busy = rounds(ALL_LINKS, np.ones((T, N), bool), [oldest, *missing[:1] * (MOST - 1), *missing])
    rest = Topology(N, ALL_LINKS.sources[table.graph.links :], ALL_LINKS.targets[table.graph.links :])
    return [busy, rounds(rest, np.arange(N) >= table.awake.sum(1)[:, None], [])]


def history(
    protocol: str, table: Rounds, *, step_size: float = ETA, clients: Clients = STILL.clients
) -> tuple[list, list]:
    """What the agents hold after 0, 1, … T rounds, and the reports then."""
    program = prepared(protocol)
    program = program._replace(algorithm=program.algorithm._replace(step_size=step_size))
    lanes = [Lane(clients, table, 0), *(Lane(STILL.clients, filler, 0) for filler in fillers(table))]
    found = [lane for lane, *_ in pauses(program, lanes, list(range(T + 1)), ONE_WORKER, nodes=True)]
    assert program.advance._cache_size() == 1, "all tables have the shapes of one program"
    return [[snapshot.model(i) for i in range(N)] for snapshot in found], [snapshot.reports for snapshot in found]


def held(node) -> tuple[np.ndarray, float]:
    return (np.asarray(node.mass.x), float(node.mass.y)) if hasattr(node, "mass") else (np.asarray(node.x), 1.0)


def agree(left, right, scale: float = 1.0, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance * scale)
