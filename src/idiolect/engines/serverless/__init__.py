"""The simulator of protocols without a server, round by round."""

from idiolect.engines.serverless.crews import Crew, CrewMaker
from idiolect.engines.serverless.lane_reports import LEAK
from idiolect.engines.serverless.layout import Lane
from idiolect.engines.serverless.peer_program import PeerProgram, prepare_peers
from idiolect.engines.serverless.peer_simulator import simulate_peers

__all__ = ["LEAK", "Crew", "CrewMaker", "Lane", "PeerProgram", "prepare_peers", "simulate_peers"]
