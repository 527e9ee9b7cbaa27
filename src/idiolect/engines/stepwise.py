"""The obvious engine: one event at a time, each turn computed when it arrives. Slow; it debugs the fast one.

Written apart from the simulator's fold on purpose: a test holds the two to the same bytes.
"""

import jax
import numpy as np

from idiolect.contracts import Clients, Params, PyTree
from idiolect.engines.program import Program, check_finite, training_key
from idiolect.network.timeline import ARRIVAL, OFFER, Timeline, events, staleness


def run_stepwise(program: Program, clients: Clients, table: Timeline, *, seed: int) -> tuple[Params, dict[int, PyTree]]:
    """Fold the protocol over the timeline; the final model of the server, and what stays on the clients."""
    protocol, params = program.algorithm.protocol, program.init(jax.random.key(seed))
    age = staleness(table, protocol.schedule.updates_per_step).astype(np.float32)
    state = protocol.server.init(params, len(clients.participating))
    personal = {client: program.work.init(params) for client in clients.participating}
    offers = {}
    for event in events(table):
        client = int(table.client[event.turn])
        if event.kind == OFFER:
            offers[event.turn] = protocol.server.offer(state)
        elif event.kind == ARRIVAL:
            shard, offer = clients.train.shard(client), offers.pop(event.turn)
            result = program.turn(personal[client], offer, shard, training_key(seed), np.int32(event.turn))
            check_finite(result, program.algorithm, client, event.turn, event.time)
            personal[client] = result.personal
            state = program.absorb(state, result.upload, age[event.turn])
        else:
            state = program.close(state)
    return protocol.server.read(state), personal
