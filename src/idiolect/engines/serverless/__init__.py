"""What folds a protocol without a server over its rounds."""

from idiolect.engines.serverless.program import PeerProgram, prepare_peers
from idiolect.engines.serverless.simulator import LEAK, simulate_peers
from idiolect.engines.serverless.world import Lane

__all__ = ["LEAK", "Lane", "PeerProgram", "prepare_peers", "simulate_peers"]
