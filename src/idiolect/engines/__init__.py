"""What folds a protocol over a timeline."""

from idiolect.engines.crew import Crew, Threads
from idiolect.engines.live import live
from idiolect.engines.program import Program, prepare
from idiolect.engines.simulator import simulate
from idiolect.engines.snapshot import Snapshot
from idiolect.engines.workers import Workers

__all__ = ["Crew", "Program", "Snapshot", "Threads", "Workers", "live", "prepare", "simulate"]
