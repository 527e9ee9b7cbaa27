"""Updates that are absorbed several at a time: one compiled call, in the order of the log.

To call a compiled function costs more than the arithmetic of a small model. So updates wait in arrays of a fixed size
until somebody wants to see what they come to. The call is a loop, and each update goes through the same compiled steps
wherever it stands: how updates fall into batches, which is another way after a restart, changes no bit of the result.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import PyTree, Upload
from idiolect.engines import Program
from idiolect.engines.screening import FINE
from idiolect.engines.simulator.server_program import Arrival, ServerState, Turn
from idiolect.engines.workers import compile_for_clients
from idiolect.trees import bytes_of, norm

_MOST, _BYTES = 64, 2**22  # updates in a batch, and their bytes; at least one fits in any case
_SOUND: Any = np.array([-1.0, 0.0], np.float32)  # of a turn in which every number was finite


class Batch:
    """Updates that have come and are not absorbed yet. `expected` are the shapes and dtypes of one."""

    def __init__(self, program: Program, expected: PyTree) -> None:
        self.room = max(1, min(_MOST, _BYTES // max(1, bytes_of(expected))))
        self.count = 0
        leaves = jax.tree.leaves(expected)
        self._leaves = [np.zeros((self.room, *leaf.shape), leaf.dtype) for leaf in leaves]
        self._deltas = jax.tree.unflatten(jax.tree.structure(expected), self._leaves)
        self._weights, self._turns, self._clients = (np.zeros(self.room, np.int32) for _ in range(3))
        self._ages = np.zeros(self.room, np.float32)
        self._absorb = _compiled(program)

    def add(self, leaves: Sequence[np.ndarray], weight: int, turn: int, client: int, age: int) -> None:
        """Take in an update; there must be room."""
        for all_of_them, leaf in zip(self._leaves, leaves, strict=True):
            all_of_them[self.count] = leaf
        self._weights[self.count], self._turns[self.count] = weight, turn
        self._clients[self.count], self._ages[self.count] = client, age
        self.count += 1

    def absorb(self, state: ServerState) -> tuple[ServerState, list[int]]:
        """The state after all of them, and for each the number of the reason why it was refused or cut down, or FINE.

        What `state` remembers of clients is overwritten.
        """
        apart: Any = None
        came = (self._deltas, self._weights, Arrival(self._turns, self._clients, self._ages), np.int32(self.count))
        state, found = self._absorb(state.watch, state._replace(watch=apart), *came)
        # Reading the reasons waits for the call, which may look at the arrays until then.
        reasons = np.asarray(found)[: self.count].tolist()
        self.count = 0
        return state, reasons


def _compiled(program: Program) -> Any:
    def absorb(
        watch: Any, rest: ServerState, deltas: PyTree, weights: jax.Array, arrivals: Arrival, count: jax.Array
    ) -> tuple[ServerState, jax.Array]:
        def step(place: jax.Array, carried: tuple[ServerState, jax.Array]) -> tuple[ServerState, jax.Array]:
            state, found = carried
            delta, weight, arrival = jax.tree.map(
                lambda leaf: jax.lax.dynamic_index_in_dim(leaf, place, keepdims=False), (deltas, weights, arrivals)
            )
            came = Turn((), Upload(delta, weight), norm(delta), {}, _SOUND)
            before = state.watch.counts[arrival.client]
            state, _ = program.absorbing(state, (), came, arrival)
            counted = state.watch.counts[arrival.client] - before
            return state, found.at[place].set(jnp.where(counted.any(), jnp.argmax(counted), FINE))

        begun = rest._replace(watch=watch), jnp.full(weights.shape, FINE, jnp.int32)
        ended: tuple[ServerState, jax.Array] = jax.lax.fori_loop(0, count, step, begun)
        return ended

    return compile_for_clients(absorb, donate=(0,))
