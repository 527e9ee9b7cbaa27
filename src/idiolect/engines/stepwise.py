"""The obvious engine: one event at a time, each turn computed when it arrives. Slow; it debugs the fast one.

Written apart from the simulator's fold on purpose: a test holds the two to the same bytes.
"""

import jax
import numpy as np

from idiolect.contracts import Clients, Params, PyTree
from idiolect.engines.program import Program, check_finite, open_ledger, training_key
from idiolect.network.timeline import ARRIVAL, OFFER, Timeline, events, staleness


def run_stepwise(program: Program, clients: Clients, table: Timeline, *, seed: int) -> tuple[Params, dict[int, PyTree]]:
    """Fold the protocol over the timeline; the final model of the server, and what stays on the clients."""
    protocol, params = program.protocol, program.init(jax.random.key(seed))
    age = staleness(table, protocol.schedule.updates_per_step).astype(np.float32)
    ledger = open_ledger(program, params, len(clients.participating))
    personal: dict[int, PyTree] = {}
    offers = {}
    for event in events(table):
        client, number = int(table.client[event.turn]), np.int32(event.turn)
        if event.kind == OFFER:
            offers[event.turn] = protocol.server.offer(ledger.server)
        elif event.kind == ARRIVAL:
            shard, offer = clients.train.shard(client), offers.pop(event.turn)
            before = personal[client] if client in personal else program.work.init(offer, client)
            result = program.turn(before, offer, shard, training_key(seed), number)
            personal[client] = result.personal
            ledger = program.absorb(ledger, result, age[event.turn], number)
            check_finite(ledger, program, table)
        else:
            ledger = program.close(ledger)
    return protocol.server.read(ledger.server), personal
