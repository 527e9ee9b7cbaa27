"""Successive halving on virtual time: of the trials of a cohort, only the best go on to the next rung of the horizon.

Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", 2016, with a reduction
by eta in place of 2, as in Li et al., "Hyperband", 2018. Trials are ranked within a cohort, whose settings were all
suggested before any of them was run, so that what goes on depends on nobody's speed. A cohort's first trials win ties.
Deviation: a trial that goes on is run anew from its start, to the same bytes, which costs less than 1 / (eta - 1) of
its last run more and needs no checkpoints.
"""

from collections.abc import Mapping
from typing import NamedTuple

from idiolect.errors import UserMistake


class Halving(NamedTuple):
    """How trials are cut: to one in `eta` at each of two rungs, 1 / eta^2 and 1 / eta of the horizon; 0: not at all."""

    eta: int = 0

    @property
    def cohort(self) -> int:
        """How many trials are compared with each other; one of a whole cohort comes to the end."""
        return self.eta**2 if self.eta else 1

    @property
    def shares(self) -> tuple[float, ...]:
        """The rungs, as shares of the horizon."""
        return (1 / self.eta**2, 1 / self.eta, 1.0) if self.eta else (1.0,)

    def kept(self, scores: Mapping[int, float | None], rung: int, size: int, *, higher_is_better: bool) -> list[int]:
        """Of those that were scored at a rung, who goes on: the best, of a cohort that began with so many."""
        room = -(-size // self.eta ** (rung + 1)) if self.eta else size
        sign = -1.0 if higher_is_better else 1.0
        ranked = sorted((sign * score, place) for place, score in scores.items() if score is not None)
        return sorted(place for _, place in ranked[:room])


def read_halving(eta: int) -> Halving:
    """How trials are cut, by how much at each rung; 0: not at all."""
    if eta and not 2 <= eta <= 10:
        raise UserMistake(f"--halving is {eta}, but must be 0, which cuts no trial, or from 2 to 10")
    return Halving(eta)
