"""The pieces in which Per-FedAvg's rates are measured: run, kept in a file each, and set beside Theorem 4.5."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts.constants import Constants, Variation
from idiolect.papers.kept_results import kept
from idiolect.papers.round_trajectories import (
    RoundLane,
    RoundMeasured,
    RoundProgram,
    compiled_rounds,
    exactly,
)
from idiolect.papers.trajectories import BLOCK, places_of, true_value
from idiolect.theory import (
    Drift,
    MetaBatches,
    MetaBound,
    MetaCost,
    Rounds,
    meta_cost,
    per_fedavg_bound,
    short_drift_bound,
)
from idiolect.theory.per_fedavg import Derivative

Study = Literal["rates", "batches", "closeness", "approximations"]

SMOOTHNESS = 1.0  # L
CLIENTS = 5  # n
DISTANCES = (1.0, 3.0)  # between which a first model far off lies from the middle of all samples


class People(NamedTuple):
    """What the clients of a piece are like; every seed draws its own."""

    heterogeneity: float
    noise: float = 0.0  # without it a client's samples lie in one place, and all its gradients are exact
    outliers: float = 0.0


class Setting(NamedTuple):
    """What differs between lanes; beta is 1 / (10 `longest` L_F), which the theorem admits for every tau up to that."""

    local_steps: int  # tau
    active: int = CLIENTS  # rn
    longest: int = 0  # 0: tau itself, so that beta is the largest
    alpha: float = 0.5  # in 1 / L
    delta: float = 1e-3


class RoundPiece(NamedTuple):
    """Some settings that are run side by side."""

    study: Study
    people: People
    derivative: Derivative
    batch_size: int  # D = D' = D''
    steps: int  # tau K
    lanes: tuple[Setting, ...]

    @property
    def name(self) -> str:
        """What its file is called."""
        who = f"h{self.people.heterogeneity:g}"
        how = self.derivative.replace("_", "-")
        return f"{self.study}-{how}-{who}-b{self.batch_size}-S{self.steps}"


class RoundResult(NamedTuple):
    """What a piece came to: rows are seeds, columns are lanes."""

    piece: RoundPiece
    seeds: tuple[int, ...]
    found: RoundMeasured

    @property
    def floor(self) -> np.ndarray:
        """The part of ||grad F||^2 that stays: an estimate without bias, which can be negative."""
        return np.asarray((self.found.third * self.found.fourth).sum(-1))

    def lanes(self, chosen: Callable[[Setting], bool]) -> list[int]:
        """The numbers of some lanes."""
        return [number for number, setting in enumerate(self.piece.lanes) if chosen(setting)]


@cache
def places(people: People, seed: int) -> np.ndarray:
    """The samples of a seed's clients: (client, sample, coordinate)."""
    return _drawn(people, seed)[0]


def known(people: People, seed: int) -> tuple[Constants, Variation]:
    """The constants of a seed's clients."""
    return _drawn(people, seed)[1:]


def middle(people: People, seed: int) -> np.ndarray:
    """The mean of all samples of a seed."""
    return np.asarray(places(people, seed).mean((0, 1)))


def far_off(people: People, seed: int) -> np.ndarray:
    """Some way off the middle, in a direction of the seed's own."""
    rng = np.random.default_rng([seed, 1])
    away, angle = rng.uniform(*DISTANCES), rng.uniform(0, 2 * np.pi)
    return np.asarray(middle(people, seed) + away * np.array([np.cos(angle), np.sin(angle)]))


def first_model(piece: RoundPiece, seed: int) -> np.ndarray:
    """w_0: rates are those of a way to go; what stays shows sooner from the middle."""
    return far_off(piece.people, seed) if piece.study == "rates" else middle(piece.people, seed)


def cost_of(piece: RoundPiece, lane: int, seed: int) -> MetaCost:
    """L_F, sigma_F and gamma_F of a setting; L_F, which decides the step size, is that of every seed."""
    setting, size = piece.lanes[lane], piece.batch_size
    constants, variation = known(piece.people, seed)
    told: dict[str, Any] = {"derivative": piece.derivative, "delta": setting.delta}
    alpha = setting.alpha / SMOOTHNESS
    return meta_cost(constants, variation, MetaBatches(size, size, size), step_size=alpha, **told)


def step_size(piece: RoundPiece, lane: int) -> float:
    """Beta of a setting."""
    setting = piece.lanes[lane]
    return 1 / (10 * (setting.longest or setting.local_steps) * cost_of(piece, lane, 0).smoothness)


def bound_of(result: RoundResult, lane: int) -> list[MetaBound]:
    """Theorem 4.5's bound for every seed. No f_i is below 0, so F* is not."""
    piece, setting, bounds = result.piece, result.piece.lanes[lane], []
    for seed in result.seeds:
        gap = _first_value(piece, seed, setting.alpha / SMOOTHNESS)
        run = Rounds(setting.local_steps, piece.steps // setting.local_steps, step_size(piece, lane), gap)
        bounds.append(per_fedavg_bound(cost_of(piece, lane, seed), run))
    return bounds


def drift_of(result: RoundResult, lane: int) -> list[Drift]:
    """Corollary E.2's bounds for every seed."""
    return [short_drift_bound(cost_of(result.piece, lane, seed)) for seed in result.seeds]


def of_study(results: Sequence[RoundResult], study: Study, derivative: Derivative = "exact") -> list[RoundResult]:
    """The results of a study with one estimate of the gradient."""
    return [result for result in results if (result.piece.study, result.piece.derivative) == (study, derivative)]


def result_of(piece: RoundPiece, seeds: tuple[int, ...], folder: Path, hasty: bool = False) -> RoundResult:
    """The result of a piece: from its file, or by running it."""
    asked = {"lanes": [list(lane) for lane in piece.lanes], "seeds": list(seeds), "people": list(piece.people)}

    def measure() -> dict[str, Any]:
        return {name: part.tolist() for name, part in run_rounds(piece, seeds, hasty)._asdict().items()}

    told = kept(folder / f"{piece.name}.json", asked, measure)
    return RoundResult(piece, seeds, RoundMeasured(*(np.array(told[name]) for name in RoundMeasured._fields)))


def run_rounds(piece: RoundPiece, seeds: tuple[int, ...], hasty: bool = False) -> RoundMeasured:
    """All lanes and seeds of a piece side by side; `hasty` compiles faster and runs slower."""
    assert all(piece.steps % whole == 0 for whole in (BLOCK, *(lane.local_steps for lane in piece.lanes)))
    rates = [step_size(piece, lane) for lane in range(len(piece.lanes))]
    taus, active, _, alphas, deltas = (np.array(column) for column in zip(*piece.lanes, strict=True))
    floats = (np.asarray(part, np.float32) for part in (rates, alphas / SMOOTHNESS, deltas))
    lanes = RoundLane(taus.astype(np.int32), active.astype(np.int32), *floats)
    where = jnp.stack([jnp.asarray(places(piece.people, seed)) for seed in seeds])
    first = jnp.stack([jnp.asarray(first_model(piece, seed), jnp.float32) for seed in seeds])
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    program = RoundProgram(piece.derivative, piece.batch_size, SMOOTHNESS)
    found = compiled_rounds(program, hasty)(where, first, lanes, keys, piece.steps)
    return RoundMeasured(*(np.asarray(part, np.float64) for part in found))


@cache
def _drawn(people: People, seed: int) -> tuple[np.ndarray, Constants, Variation]:
    problem, samples = places_of(SMOOTHNESS, {**people._asdict(), "seed": seed})
    assert problem.constants is not None
    assert problem.variation is not None
    return samples, problem.constants, problem.variation


@cache
def _first_value(piece: RoundPiece, seed: int, alpha: float) -> float:
    """F(w_0)."""
    first = jnp.asarray(first_model(piece, seed), jnp.float32)
    return float(true_value(exactly(SMOOTHNESS), alpha, jnp.asarray(places(piece.people, seed)), first))
