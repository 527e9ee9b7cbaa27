"""Engines that run a protocol over a timeline: the simulator, the engine with a real clock, and their backends."""

from idiolect.engines.backend import LOOK_AHEAD, Backend, ThreadBackend
from idiolect.engines.simulator.real_time import run_in_real_time
from idiolect.engines.simulator.server_program import Program, prepare
from idiolect.engines.simulator.server_simulator import simulate
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.workers import Workers

__all__ = [
    "LOOK_AHEAD",
    "Backend",
    "Program",
    "Snapshot",
    "ThreadBackend",
    "Workers",
    "prepare",
    "run_in_real_time",
    "simulate",
]
