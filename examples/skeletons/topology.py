"""A topology of your own: who can send to whom, for any number of agents.

idiolect run parspush-digits --with examples/skeletons/topology.py --set 'topology={name="two_rings"}'
"""

import numpy as np

import idiolect
from idiolect.network import Topology, topology
from idiolect.network.topologies import Wire


@idiolect.topology
def two_rings(*, bridges: int = 1) -> Wire:
    """Two rings of agents, joined by `bridges` pairs of links."""

    def wire(agents: int, rng: np.random.Generator) -> Topology:
        half = agents // 2
        rings = [list(range(half)), list(range(half, agents))]
        edges = {(ring[k], ring[(k + 1) % len(ring)]) for ring in rings if len(ring) > 1 for k in range(len(ring))}
        for bridge in range(min(bridges, half)):
            edges |= {(bridge, half + bridge), (half + bridge, bridge)}
        return topology(agents, sorted(edges))

    return wire
