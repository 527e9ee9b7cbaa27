"""Personalized learning across devices that share no data, wait for nobody and trust no network.

The pieces are in `idiolect.problems`, `idiolect.objectives`, `idiolect.protocols` and `idiolect.network`; the functions
here join them.
"""

from idiolect.contracts import Problem, Screening
from idiolect.errors import Diverged, Refused, UserMistake
from idiolect.evaluation.scoring import Budget
from idiolect.experiments.places import Place
from idiolect.interface import learn, run
from idiolect.network import Delay, Network, Timeline, timeline
from idiolect.problems.supervised import problem
from idiolect.protocols.attacks import Attack

__version__ = "0.1.0"

__all__ = [
    "Attack",
    "Budget",
    "Delay",
    "Diverged",
    "Network",
    "Place",
    "Problem",
    "Refused",
    "Screening",
    "Timeline",
    "UserMistake",
    "learn",
    "problem",
    "run",
    "timeline",
]
