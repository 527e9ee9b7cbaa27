"""Client work on Ray: actors hold the clients' training data and compute turns, or rounds; only parameters travel.

Nothing here imports Ray until a backend is opened, so that the package works without it.
"""

from idiolect.engines.ray.actor_pool import ActorPool
from idiolect.engines.ray.agent_actor import AgentActor
from idiolect.engines.ray.agent_crew import RayCrew
from idiolect.engines.ray.connection import connected
from idiolect.engines.ray.turn_backend import RayBackend

__all__ = ["ActorPool", "AgentActor", "RayBackend", "RayCrew", "connected"]
