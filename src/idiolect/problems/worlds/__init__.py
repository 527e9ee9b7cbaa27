"""Environments, policies, and clients that learn to act: reinforcement learning as one more f_i."""

from idiolect.problems.worlds.acting import acting_problem
from idiolect.problems.worlds.gymnasium_environments import gymnasium_environment
from idiolect.problems.worlds.navigation_tasks import navigation, point_navigation
from idiolect.problems.worlds.poles import cartpole

__all__ = ["acting_problem", "cartpole", "gymnasium_environment", "navigation", "point_navigation"]
