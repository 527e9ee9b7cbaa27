"""The types on which the axes of the system meet, and nothing else.

A run is a fold over a timeline. A `Problem` gives every client its private loss; an `Objective` turns that loss into
what the client minimises; a `Protocol` (with a server) or a `Peer` (without one) says how finished work is combined.
Objectives never import protocols, protocols never see a loss, data or a derivative, and the network (see
`idiolect.network`) never sees a parameter.

Everything is a small frozen record of pure functions over pytrees: state goes in first and comes out first, randomness
comes from explicit keys, and every function can be compiled. The type of each function says its arguments by name.
"""

from idiolect.contracts.algorithm import Algorithm, LocalOptimizer, Screening, Sharing, TrainOrder
from idiolect.contracts.aliases import Batch, Info, Key, Params, PyTree, Scalar
from idiolect.contracts.client_data import Clients, Scaling, Shard, Split
from idiolect.contracts.constants import Constants, Variation
from idiolect.contracts.objective import (
    Compressed,
    Family,
    Known,
    Objective,
    Oracle,
    PersonalSteps,
    stateless,
    uncompressed,
)
from idiolect.contracts.peer import Mass, Message, Peer, Rebirth
from idiolect.contracts.problem import Classifier, Metric, Origin, Problem, Scene
from idiolect.contracts.protocol import Drift, Learner, Protocol, Schedule, Server, Upload, Work
from idiolect.contracts.step_rules import StepRule

__all__ = [
    "Algorithm",
    "Batch",
    "Classifier",
    "Clients",
    "Compressed",
    "Constants",
    "Drift",
    "Family",
    "Info",
    "Key",
    "Known",
    "Learner",
    "LocalOptimizer",
    "Mass",
    "Message",
    "Metric",
    "Objective",
    "Oracle",
    "Origin",
    "Params",
    "Peer",
    "PersonalSteps",
    "Problem",
    "Protocol",
    "PyTree",
    "Rebirth",
    "Scalar",
    "Scaling",
    "Scene",
    "Schedule",
    "Screening",
    "Server",
    "Shard",
    "Sharing",
    "Split",
    "StepRule",
    "TrainOrder",
    "Upload",
    "Variation",
    "Work",
    "stateless",
    "uncompressed",
]
