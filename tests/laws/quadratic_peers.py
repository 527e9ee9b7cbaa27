"""Small networks of quadratics in 64 bits, and one compiled program a protocol for whatever the network does to them.

Their noise comes straight from the key: a generator takes longer to compile than all the rest. Two more networks run
beside every table and fill it up to the shapes that all tables have in common, so that each protocol is compiled once.
"""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Clients, Oracle, Problem
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, PeerProgram, prepare_peers, simulate_peers
from idiolect.engines.snapshot import Snapshot
from idiolect.network.round_tables import Rounds, arrivals, rounds
from idiolect.network.topologies import Topology, complete
from idiolect.network.unreliable_links import Links
from idiolect.objectives import plain
from idiolect.problems.synthetic import quadratics
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres
from idiolect.protocols.gossip_averaging import gossip
from idiolect.protocols.push_sums import push_sum
from idiolect.protocols.running_sums import running_sum

ONE_WORKER = Workers(1)  # more would compile every lane for itself
N, D, T, ETA, MOST = 4, 3, 8, 0.05, 30
START = np.array([0.5, -1.0, 2.0])
PROTOCOLS = {"running_sum": running_sum, "push_sum": push_sum, "gossip": gossip}
ROUGH = Links(wake=0.6, gamma_w="unbounded", loss=0.4, gamma_f="unbounded", least_delay=0, gamma_d=3, duplication=0.3)
ALL_LINKS = complete()(N, np.random.default_rng(0))


def noisy_quadratics(noise: float, seed: int = 0, kind: type = np.float64) -> Problem:
    """Quadratics; a key moves the centre by up to `noise`."""
    drawn = quadratics(clients=N, dimension=D, seed=seed)
    train = drawn.clients.train
    with jax.enable_x64(True):
        rows = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), kind), train.rows)

    def oracle(shard, batch_size) -> Oracle:
        matrix, centre = shard.rows["matrix"][shard.start], shard.rows["centre"][shard.start]

        def at(key):
            moved = centre + noise * (jax.random.key_data(key)[0] / np.float32(2**32)).astype(kind) if noise else centre
            return lambda w: 0.5 * (w - moved) @ matrix @ (w - moved)

        return Oracle(
            value=lambda params, key: at(key)(params),
            gradient=lambda params, key: jax.value_and_grad(at(key))(params),
            hessian_product=lambda params, vector, key: jax.jvp(jax.grad(at(key)), (params,), (vector,))[1],
        )

    clients = drawn.clients._replace(train=train._replace(rows=rows))
    return drawn._replace(init=lambda key: jnp.asarray(START, kind), oracle=oracle, clients=clients)


STILL = noisy_quadratics(noise=0.0)
MATRICES, CENTRES = curvatures_and_centres(STILL.clients)


@functools.cache
def prepared(protocol: str) -> PeerProgram:
    with jax.enable_x64(True):
        return prepare_peers(STILL, Algorithm(protocol, plain(), PROTOCOLS[protocol](), 1, ETA, 1))


def pauses(
    program: PeerProgram, lanes: list[Lane], times: list[int], *, nodes: bool = False, workers: Workers = ONE_WORKER
) -> Iterator[list[Snapshot]]:
    """Run in 64 bits; with `nodes` a snapshot's `model` is all that an agent keeps."""
    with jax.enable_x64(True):
        yield from simulate_peers(
            program._replace(models=lambda state: state.nodes) if nodes else program, lanes, workers, times=times
        )


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
    found = [lane for lane, *_ in pauses(program, lanes, list(range(T + 1)), nodes=True)]
    assert program.advance._cache_size() == 1, "all tables have the shapes of one program"
    return [[snapshot.model(i) for i in range(N)] for snapshot in found], [snapshot.reports for snapshot in found]


def held(node) -> tuple[np.ndarray, float]:
    return (np.asarray(node.mass.x), float(node.mass.y)) if hasattr(node, "mass") else (np.asarray(node.x), 1.0)


def agree(left, right, scale: float = 1.0, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance * scale)
