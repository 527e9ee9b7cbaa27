"""What the library's agents keep, for tests that compute the same from the paper's text in NumPy.

Everything runs in 64 bits, so the two must agree to rounding.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Problem
from idiolect.engines import Workers
from idiolect.engines.serverless import Lane, prepare_peers, simulate_peers
from idiolect.network.round_tables import Rounds
from idiolect.network.unreliable_links import Links

ONE_WORKER = Workers(1)  # more would compile every lane for itself
N, D = 6, 4
PAPER = Links(gamma_w=2, gamma_d=2, gamma_f=1)


def in_64_bits(given: Problem, start: np.ndarray) -> Problem:
    """The problem with its rows and its parameters in 64 bits, and this start."""
    train = given.clients.train
    with jax.enable_x64(True):
        rows = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), train.rows)
    clients = given.clients._replace(train=train._replace(rows=rows))
    return given._replace(init=lambda key: jnp.asarray(start), clients=clients)


def nodes_after(
    given: Problem,
    algorithm: Algorithm,
    tables: list[Rounds],
    times: list[int],
    seed: int = 0,
    own: Sequence[Algorithm | None] = (),
) -> list[list[list]]:
    """What the library's agents keep after some numbers of rounds, by table, time and agent.

    `own` has an algorithm for each of the tables, in the program of `algorithm`.
    """
    with jax.enable_x64(True):
        program = prepare_peers(given, algorithm)._replace(models=lambda state: state.nodes)
        pairs = zip(tables, own or [None] * len(tables), strict=True)
        lanes = [Lane(given.clients, table, seed, one) for table, one in pairs]
        pauses = list(simulate_peers(program, lanes, ONE_WORKER, times=times))
    return [[[pause[k].model(i) for i in range(N)] for pause in pauses] for k in range(len(tables))]


def decreasing(scale: float, offset: float, count: int) -> np.ndarray:
    return np.array([scale / (t + offset) for t in range(count)])
