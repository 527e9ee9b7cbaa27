"""Clients spread over all local devices, and the server's pass over a large model sharded among them.

Everyone's training rows lie on one device, its home, and its turns are computed there: what was offered and what the
client keeps go there, what comes of it goes to the server. Every device has a program of its own that is the same to
the letter, so that a turn gives what it would give on any of them, and results do not depend on how many there are.

The server works on the first device. A model of many bytes is split among all of them instead, by the first axis of its
leaves, so that each device absorbs its part of an update. Sums over the whole model are then added up in another order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from idiolect.contracts import Clients, PyTree
from idiolect.engines.backend import Backend, Job, Pending, dealt
from idiolect.engines.ray.actor import only
from idiolect.engines.simulator.server_program import Arrival, Program, ServerState, Turn
from idiolect.trees import bytes_of

LARGE = 2**26  # bytes of a model from which on the server's pass is split among devices; not measured on accelerators
_AXIS = "part"


class SeveralDevices:
    """A backend on each device; every turn is computed where its client's rows are."""

    def __init__(self, backends: Sequence[Backend], homes: Sequence[Sequence[int]]) -> None:
        self._backends = backends
        self._place = {client: number for number, members in enumerate(homes) for client in members}
        self.count, self.ahead = backends[0].count, sum(backend.ahead for backend in backends)

    def submit(self, job: Job) -> Pending:
        """Begin a turn at its client's home."""
        return self._backends[self._place[job.client]].submit(job)

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        """Which of these can be had at once; turns of all devices are alike, and any backend can wait for them."""
        return self._backends[0].ready(pending, seconds)


def homes_of(clients: Clients, devices: Sequence[jax.Device]) -> list[list[int]]:
    """Whose rows lie on which device."""
    return dealt(clients.participating, len(devices))


def clients_at(clients: Clients, members: list[int], device: jax.Device) -> Clients:
    """The clients, with the training rows of these and of no others, on a device."""
    own = only(clients.train, members)
    return clients._replace(train=own._replace(rows=jax.device_put(own.rows, device)))


def program_at(program: Program, device: jax.Device, server: jax.Device) -> Program:
    """The program with its turns on a device; what comes of them goes to where the server is."""

    def turn(personal: PyTree, offer: PyTree, *rest: Any) -> Turn:
        found: Turn = jax.device_put(program.turn(*jax.device_put((personal, offer), device), *rest), server)
        return found

    def turns(personals: list[PyTree], offers: list[PyTree], *rest: Any) -> list[Turn]:
        found: list[Turn] = jax.device_put(program.turns(*jax.device_put((personals, offers), device), *rest), server)
        return found

    return program._replace(turn=turn, turns=turns)


def with_sharded_server(program: Program, devices: Sequence[jax.Device], *, large: int = LARGE) -> Program:
    """The program with its server's state split among devices, if the model is large; else as it is.

    What the server offers and shows is whole, and on the first device.
    """
    model = jax.eval_shape(program.init, jax.random.key(0))
    if len(devices) == 1 or bytes_of(model) < large:
        return program
    mesh = Mesh(np.array(devices), (_AXIS,))
    split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((_AXIS,), ()))  # type: ignore[no-untyped-call]

    def placed(tree: PyTree) -> PyTree:
        return jax.device_put(tree, jax.tree.map(lambda leaf: split if _divides(leaf, len(devices)) else whole, tree))

    def state_placed(state: ServerState) -> ServerState:
        rest: ServerState = jax.device_put(state._replace(server=()), whole)
        return rest._replace(server=placed(state.server))

    def absorb(server_state: ServerState, before: PyTree, turn: Turn, arrival: Arrival) -> tuple[ServerState, PyTree]:
        state, kept = program.absorb(state_placed(server_state), placed(before), placed(turn), arrival)
        return state, jax.device_put(kept, devices[0])

    def close(server_state: ServerState) -> ServerState:
        return program.close(state_placed(server_state))

    server = program.protocol.server
    shown = server._replace(
        offer=lambda state: jax.device_put(server.offer(state), devices[0]),
        read=lambda state: jax.device_put(server.read(state), devices[0]),
    )
    protocol = program.protocol._replace(server=shown)
    return program._replace(protocol=protocol, absorb=absorb, close=close, init=lambda key: placed(program.init(key)))


def _divides(leaf: Any, devices: int) -> bool:
    """Whether a leaf can be split evenly along its first axis."""
    shape = np.shape(leaf)
    return len(shape) > 0 and shape[0] > 0 and shape[0] % devices == 0
