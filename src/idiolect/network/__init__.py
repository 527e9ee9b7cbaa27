"""Network models, timelines, topologies and unreliable links: tables of who works when, made before any learning."""

from idiolect.network.delays import Delay, Network
from idiolect.network.drawn_timelines import draw_counted, draw_timeline
from idiolect.network.round_tables import Rounds, rounds
from idiolect.network.timelines import Timeline, active_share, read_timeline, staleness, timeline
from idiolect.network.topologies import Topology, topology
from idiolect.network.unreliable_links import Links, draw_rounds

__all__ = [
    "Delay",
    "Links",
    "Network",
    "Rounds",
    "Timeline",
    "Topology",
    "active_share",
    "draw_counted",
    "draw_rounds",
    "draw_timeline",
    "read_timeline",
    "rounds",
    "staleness",
    "timeline",
    "topology",
]
