"""Inspection of a problem before training: who holds what, and how different clients are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idiolect.contracts import Clients, Problem
from idiolect.inspection.distances import (
    CLIENTS,
    Transport,
    distributions,
    to_average,
    total_variation,
    transport,
)
from idiolect.inspection.diversity import Diversity, diversity
from idiolect.inspection.local_losses import acts
from idiolect.problems.data.client_splits import PARTS
from idiolect.problems.data.label_counts import label_counts

SHOWN = 200  # clients whose classes are compared with each other, at most


class Classes(NamedTuple):
    """Who holds which classes, in all parts together, and how far apart that is."""

    counts: np.ndarray  # of every client
    to_average: np.ndarray  # of every participating client: total variation to the average of them
    compared: list[int]  # with each other
    between: np.ndarray  # total variation


class Bound(NamedTuple):
    """What the paper proves of gamma_G or gamma_H, for all models, from constants that the problem knows."""

    of: str
    value: float
    why: str


class Inspection(NamedTuple):
    """A problem before training."""

    problem: str
    metric: str
    sizes: dict[str, np.ndarray]  # of every client's part
    participating: list[int]
    classes: Classes | None
    samples: Transport | None
    diversity: Diversity
    bounds: list[Bound]
    notes: list[str]


def inspect_problem(problem: Problem, *, batch_size: int, seed: int) -> Inspection:
    """Look at a problem made with this seed; batches of this size count where a loss has no rows to go through."""
    clients = problem.clients
    members = clients.participating
    drawn = np.random.default_rng([seed, 3]).permutation(members).tolist()  # of many, the first ones
    notes = list(problem.notes)
    if acts(problem):
        samples = None
        notes.append(
            "Clients learn to act: their samples are episodes of whatever policy they follow, so that before training "
            "there is no distribution of samples, and no distance between two of them; sizes are of episodes to be "
            "scored."
        )
    else:
        samples = transport(clients, sorted(drawn[:CLIENTS]), seed)
    classes = _classes(clients, drawn)
    return Inspection(
        problem.name,
        problem.metric.name,
        {name: getattr(clients, name).sizes for name in PARTS},
        members,
        classes,
        samples,
        diversity(problem, drawn, batch_size=batch_size, seed=seed),
        bounds(problem),
        notes,
    )


def _classes(clients: Clients, drawn: Sequence[int]) -> Classes | None:
    counts = label_counts(clients)
    if counts is None:
        return None
    compared = sorted(drawn[:SHOWN])
    shares = distributions(counts)
    return Classes(counts, to_average(shares[clients.participating]), compared, total_variation(shares[compared]))


def bounds(problem: Problem) -> list[Bound]:
    """The paper's bounds, where the problem knows the constants. Clients share no sample, so TV is 1 - 1/n."""
    found, known, apart = [], problem.constants, 1 - 1 / len(problem.clients.participating)
    if problem.smoothness is not None:
        why = "2 L: every f_i is L-smooth (after Assumption 5)"
        found.append(Bound("gamma_H", 2 * problem.smoothness, why))
    if known is not None:
        why = "(19b): 2 L times the total variation between samples, which is 1 - 1/n where clients share none"
        found.append(Bound("gamma_H", 2 * known.smoothness * apart, why))
    if known is not None and np.isfinite(known.gradient_bound):
        why = "(19a): 2 B times the total variation between samples"
        found.append(Bound("gamma_G", 2 * known.gradient_bound * apart, why))
    return found
