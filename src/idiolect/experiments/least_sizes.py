"""Sizes of an experiment before anything is built: what cannot fit is refused, what is long must be asked for.

Lower bounds, from numbers that the experiment names; `idiolect inspect` watches real turns and knows better. So what is
refused here is hopeless, and what passes may still be large.
"""

import os
from typing import NamedTuple

from idiolect.contracts import Problem
from idiolect.errors import UserMistake
from idiolect.experiments.building import is_serverless
from idiolect.experiments.value import Experiment
from idiolect.registry import Choice

LONGEST = 24 * 3600.0  # seconds that a run may take at least, unless it is asked for
_TURN = 2e-5  # seconds of a client's turn at least, on any machine
_TURN_TIME = 100.0  # of virtual time between two turns of a client, at most, as delay laws usually are
_TURN_BYTES, _ROUND_BYTES, _SCORE_BYTES = 40, 9, 100  # of a line of a timeline; of an agent's round; of a score as JSON


class Size(NamedTuple):
    """What an experiment comes to at least."""

    clients: int
    data_bytes: int
    table_bytes: int
    score_bytes: int
    turns: float  # of all algorithms on all seeds

    @property
    def bytes(self) -> int:
        """All that must be in memory together."""
        return self.data_bytes + self.table_bytes + self.score_bytes

    @property
    def seconds(self) -> float:
        """On all cores."""
        return self.turns * _TURN / (os.cpu_count() or 1)


def reckon(experiment: Experiment) -> Size:
    """What an experiment comes to at least."""
    problem, points = experiment.problem, len(experiment.evaluation.times or ()) or experiment.evaluation.points
    options = problem.options if isinstance(problem, Choice) else {}
    clients = problem.clients.total if isinstance(problem, Problem) else _whole(options.get("clients"))
    data = 4 * clients * _whole(options.get("samples")) * _whole(options.get("dimension"))
    serverless = [is_serverless(line) for line in experiment.lines]
    visits = experiment.rounds or clients * max(1.0, experiment.horizon / _TURN_TIME)  # a round has one turn at least
    table = max(experiment.horizon * clients * _ROUND_BYTES if peers else visits * _TURN_BYTES for peers in serverless)
    each = sum(experiment.horizon * clients if peers else visits for peers in serverless)
    return Size(
        clients,
        data if isinstance(problem, Choice) else 0,
        int(min(table, 1e30)),
        points * clients * _SCORE_BYTES,
        each * len(experiment.seeds),
    )


def check_size(experiment: Experiment, *, yes: bool = False) -> None:
    """Refuse what cannot fit into this machine's memory, and what takes very long unless it is asked for."""
    size, memory = reckon(experiment), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size.bytes > memory:
        parts = {
            "data (problem.clients, problem.samples)": size.data_bytes,
            "timelines (horizon, problem.clients)": size.table_bytes,
            "scores (evaluation.points, problem.clients)": size.score_bytes,
        }
        what, most = max(parts.items(), key=lambda part: part[1])
        raise UserMistake(
            f"this experiment needs at least {size.bytes / 2**30:.3g} GiB of memory, and this machine has "
            f"{memory / 2**30:.3g}; {most / 2**30:.3g} of it are {what}: make them smaller"
        )
    if size.seconds > LONGEST and not yes:
        raise UserMistake(
            f"this experiment takes at least {size.seconds / 3600:.3g} hours for {size.turns:.3g} turns of clients; "
            f"run it with --yes, or make horizon ({experiment.horizon:g}) or problem.clients ({size.clients}) smaller"
        )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1
