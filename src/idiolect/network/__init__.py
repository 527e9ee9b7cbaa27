"""Who is awake when, and whose message arrives when: timelines, made before any learning."""

from idiolect.network.delays import Delay, Network
from idiolect.network.schedules import draw_timeline
from idiolect.network.timeline import Timeline, active_share, read_timeline, staleness, timeline

__all__ = ["Delay", "Network", "Timeline", "active_share", "draw_timeline", "read_timeline", "staleness", "timeline"]
