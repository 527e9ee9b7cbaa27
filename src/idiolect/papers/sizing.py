"""What an exhibit takes at a scale, from a few turns that are really taken: `idiolect reproduce NAME --dry`.

Every experiment behind the exhibit is built on its first seed, with its data, and a few turns and evaluations of every
algorithm run on the engine (`idiolect.inspection.cost_estimate`). That shows that it starts, and tells the seconds that
the whole takes here.

The time on a GPU is an estimate and was not measured. What a turn takes here is scaled by the rates of the two
machines: that of large matrix products in float32, measured here, over 19.5 TFLOP/s, which NVIDIA states for
an A100 (float32, no tensor cores). That takes the GPU to be as busy as this machine is; small models do not keep one
busy, so a local step is taken for no less than 0.1 ms, about twenty kernels at 5 us each.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idiolect.experiments.building import BuiltCell, BuiltSeed, build_seed
from idiolect.inspection.cost_estimate import Cost, Estimate, estimate
from idiolect.network.round_tables import Rounds
from idiolect.papers import (
    memrl_exhibits,
    pars_push_exhibits,
    per_fedavg_exhibits,
    persa_fl_exhibits,
    qupel_sizes,
    ranking_exhibits,
    stability_exhibit,
)
from idiolect.papers.exhibit import Exhibit
from idiolect.papers.sizing_programs import PROGRAMS, reckon
from idiolect.papers.trials import Trial, experiment_of

GPU_RATE = 19.5e12  # FLOP/s
STEP_FLOOR = 1e-4  # seconds of a local step on a GPU, at least
_SIDE, _TIMES = 2048, 5  # of the matrices whose product tells the rate here

TRIALS: dict[str, tuple[Trial, ...]] = {  # the exhibits that learn, and their runs
    "pars-push-fig-1": (pars_push_exhibits.LOSSY,),
    "pars-push-fig-2": (pars_push_exhibits.LOSSY, pars_push_exhibits.LOSSLESS),
    "persa-fl-fig-2b": (persa_fl_exhibits.MNIST,),
    "persa-fl-fig-2c": (persa_fl_exhibits.CIFAR,),
    "persa-fl-fig-2-stability": tuple(stability_exhibit.TRIALS.values()),
    "per-fedavg-fig-1": (per_fedavg_exhibits.RUN,),
    "per-fedavg-fig-1-settings": (per_fedavg_exhibits.TUNED,),
    "qupel-table-1": (qupel_sizes.ALONE,),
    "qupel-table-1-levels": (qupel_sizes.LEVELS, qupel_sizes.LEVELS_ANEW),
    "qupel-table-2": (qupel_sizes.TOGETHER, qupel_sizes.THREE_BITS),
    "qupel-fig-1": (qupel_sizes.TOGETHER,),
    "qupel-table-3": (qupel_sizes.TOGETHER,),
    "search-ranking": (ranking_exhibits.RUN,),
    "memrl-fig-1": (memrl_exhibits.RUN, memrl_exhibits.REGIME),
}


class Part(NamedTuple):
    """One experiment of an exhibit, or one program of it."""

    name: str
    algorithms: int
    seeds: int
    updates: int  # of all algorithms on all seeds
    here: float  # seconds, estimated from a few
    gpu: float  # seconds on a GPU, estimated from those


class Sizing(NamedTuple):
    """What an exhibit takes at a scale. `rate` is that of large matrix products here, in FLOP/s; 0 if not measured."""

    exhibit: str
    scale: str
    parts: Sequence[Part]
    rate: float
    stopped: Sequence[str] = ()  # what could not be started, and why

    @property
    def here(self) -> float:
        """Seconds on this machine."""
        return sum(part.here for part in self.parts)

    @property
    def gpu(self) -> float:
        """Seconds on a GPU."""
        return sum(part.gpu for part in self.parts)


def trials_at(exhibit: str, scale: str) -> list[Trial]:
    """The runs that an exhibit needs at this scale; further seeds for one claim are run at the desk only."""
    return [trial for trial in TRIALS.get(exhibit, ()) if scale in trial.sizes]


def size_up(exhibit: Exhibit, scale: str, data_dir: Path | None = None) -> Sizing:
    """Start everything that an exhibit needs at this scale, and reckon what the whole takes."""
    trials, parts, stopped = trials_at(exhibit.name, scale), list[Part](), list[str]()
    rate = matrix_rate() if trials else 0.0
    for trial in trials:
        experiment = experiment_of(trial, scale)
        built = build_seed(experiment, experiment.seeds[0], data_dir)
        found = estimate(experiment, built)
        stopped += [f"{trial.name}: {cost.label}: {cost.stopped}" for cost in found.algorithms if cost.stopped]
        parts.append(_part(trial.name, found, built, rate))
    if exhibit.name in PROGRAMS:
        parts.append(_programs(exhibit, scale))
    return Sizing(exhibit.name, scale, parts, rate, stopped)


def matrix_rate() -> float:
    """FLOP/s of a large product in float32 here; the best of a few, as others may be at work."""
    square = jnp.ones((_SIDE, _SIDE), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    product(square).block_until_ready()
    best = float("inf")
    for _ in range(_TIMES):
        began = time.perf_counter()
        product(square).block_until_ready()
        best = min(best, time.perf_counter() - began)
    return 2 * _SIDE**3 / best


def _part(name: str, found: Estimate, built: BuiltSeed, rate: float) -> Part:
    updates = sum(cost.updates for cost in found.algorithms) * found.seeds
    steps = {label: _steps_in_turn(cell) for label, cell in built.cells.items()}
    on_gpu = sum(_on_gpu(cost, steps[cost.label], found.seeds, rate) for cost in found.algorithms)
    return Part(name, len(found.algorithms), found.seeds, updates, found.seconds, on_gpu)


def _steps_in_turn(cell: BuiltCell) -> int:
    """Local steps of one seed that come one after the other; without a server all agents take theirs at once."""
    table = cell.table
    turns = table.length if isinstance(table, Rounds) else int(table.delivered.sum())
    return turns * cell.algorithm.local_steps


def _on_gpu(cost: Cost, steps: int, seeds: int, rate: float) -> float:
    """Turns by the rates of the machines, and no faster than kernels start; the rest, scoring, by the rates."""
    turns = cost.turn_seconds * cost.updates * seeds
    learning = max(turns * rate / GPU_RATE, steps * seeds * STEP_FLOOR)
    scoring = max(cost.seconds - cost.compile_seconds - turns, 0.0) * rate / GPU_RATE
    return learning + scoring + cost.compile_seconds


def _programs(exhibit: Exhibit, scale: str) -> Part:
    """Of programs on a few numbers each: on a GPU kernels that start, and no FLOPs."""
    seeds = exhibit.scales[scale].seeds
    found = reckon(PROGRAMS[exhibit.name](scale, seeds), len(seeds))
    on_gpu = found.compile_seconds + found.local_steps * STEP_FLOOR
    return Part(exhibit.name, found.lanes, len(seeds), found.steps, found.seconds, on_gpu)
