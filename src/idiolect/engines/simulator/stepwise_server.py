"""Reference engine with a server: event by event, each turn computed when it arrives. Slow; it debugs the fast one.

Written apart from the simulator's fold on purpose: a test holds the two to the same bytes.
"""

import jax
import numpy as np

from idiolect.contracts import Clients, Params, PyTree
from idiolect.engines.screening import shapes_of
from idiolect.engines.simulator.health import check_health
from idiolect.engines.simulator.server_program import Arrival, Program, open_server, take_in, training_key
from idiolect.network.timelines import ARRIVAL, OFFER, Timeline, events, staleness


def run_stepwise(program: Program, clients: Clients, table: Timeline, *, seed: int) -> tuple[Params, dict[int, PyTree]]:
    """Fold the protocol over the timeline; the final model of the server, and what stays on the clients."""
    key = jax.random.key(seed)
    protocol, params = program.protocol, program.init(key)
    age = staleness(table, protocol.schedule.updates_per_step).astype(np.float32)
    server_state = open_server(program, params, len(clients.participating), clients.total)
    expected = shapes_of(protocol.sends(protocol.server.offer(server_state.server)))
    crowd = len(np.unique(table.client))
    personal: dict[int, PyTree] = {}
    offers = {}
    for event in events(table):
        client, number = int(table.client[event.turn]), np.int32(event.turn)
        if event.kind == OFFER:
            offers[event.turn] = protocol.server.offer(server_state.server)
        elif event.kind == ARRIVAL:
            shard, offer = clients.train.shard(client), offers.pop(event.turn)
            before = personal[client] if client in personal else program.work.init(offer, client, key)
            result = program.turn(before, offer, shard, training_key(seed), number)
            arrival = Arrival(number, np.int32(client), age[event.turn])
            server_state, personal[client] = take_in(program, server_state, before, result, arrival, expected)
            check_health(server_state, program, table, crowd)
        else:
            server_state = program.close(server_state)
    check_health(server_state, program, table, crowd, over=True)
    return protocol.server.read(server_state.server), personal
