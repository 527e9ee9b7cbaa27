"""What folds a protocol over a timeline."""

from idiolect.engines.program import Program, prepare
from idiolect.engines.simulator import Snapshot, simulate
from idiolect.engines.workers import Workers

__all__ = ["Program", "Snapshot", "Workers", "prepare", "simulate"]
