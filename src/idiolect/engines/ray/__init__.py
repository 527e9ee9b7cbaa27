"""Client work on Ray: actors hold the clients' training data and compute their turns; only parameters travel.

Nothing here imports Ray until a crew is opened, so that the package works without it.
"""

from idiolect.engines.ray.connection import connected
from idiolect.engines.ray.staff import RayCrew, Staff

__all__ = ["RayCrew", "Staff", "connected"]
