"""The pieces in which PersA-FL's rates are measured: run, kept in a file each, and set beside the theorem's bound."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Problem
from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake
from idiolect.papers.kept_results import kept
from idiolect.papers.trajectories import (
    BLOCK,
    Lane,
    Measured,
    Option,
    Program,
    compiled,
    places_of,
    stationary,
    true_value,
)
from idiolect.theory import (
    Bound,
    PersonalCost,
    Run,
    client_step_size,
    fedasync_bound,
    maml_bound,
    maml_cost,
    moreau_bound,
    moreau_cost,
    plain_cost,
)

Study = Literal["rates", "staleness", "inner batches", "accuracy", "batches"]

SMOOTHNESS = 0.25  # L; the theorems ask for T in proportion to it
LAMBDA = 8 * SMOOTHNESS  # Theorem 3 needs 7 L
LOCAL_STEPS = 2  # Q
MOST_STALE = 32

_NOISY = {"heterogeneity": 0.5, "noise": 0.3, "outliers": 0.25}
_EXACT = {"heterogeneity": 0.5, "noise": 0.0, "seed": 2}  # a client's samples are one place; clients lie to one side
_CLOSE = {"heterogeneity": 0.3, "noise": 0.0, "seed": 2}  # the same, but steeper where the clients balance
_SKEWED = {"heterogeneity": 0.0, "noise": 0.2, "outliers": 0.4}  # two heaps: third derivatives where the clients agree
_PROBLEMS: dict[Study, tuple[dict[str, Any], tuple[float, float] | None]] = {  # and where runs start
    "rates": (_NOISY, (2.0, 2.0)),
    "staleness": (_CLOSE, None),  # where the cost is stationary: on the way there staleness helps
    "inner batches": (_SKEWED, (0.0, 0.0)),
    "accuracy": (_EXACT, (0.0, 0.0)),
    "batches": (_SKEWED, (0.0, 0.0)),
}


class Piece(NamedTuple):
    """Some settings that are run side by side; of a lane are told tau, and alpha or nu."""

    study: Study
    option: Option
    batch_size: int
    steps: int  # T
    lanes: tuple[tuple[int, float], ...]
    inner_step_size: float = 0.5  # of the Moreau envelope, in 1 / lambda; the smaller, the nearer to nu it stops

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.study.replace(' ', '-')}-{self.option}-b{self.batch_size}-T{self.steps}"


class Result(NamedTuple):
    """What a piece came to: rows are seeds, columns are lanes."""

    piece: Piece
    mean_square: np.ndarray  # (1/T) sum_t ||grad F(w^t)||^2
    floor: np.ndarray  # the part of ||grad F||^2 that stays: an estimate without bias, which can be negative


@cache
def problem_of(study: Study) -> tuple[Problem, np.ndarray]:
    """The clients of a study, and their samples."""
    return places_of(SMOOTHNESS, _PROBLEMS[study][0])


def known(study: Study) -> tuple[Constants, Variation]:
    """The constants of a study's clients."""
    problem, _ = problem_of(study)
    assert problem.constants is not None
    assert problem.variation is not None
    return problem.constants, problem.variation


def of_study(results: Sequence[Result], study: Study, option: Option) -> list[Result]:
    """The results of a study for one of the methods."""
    return [result for result in results if (result.piece.study, result.piece.option) == (study, option)]


def cost_of(piece: Piece, knob: float) -> PersonalCost:
    """The constants of the cost, which decide the step size."""
    constants, variation = known(piece.study)
    if piece.option == "plain":
        return plain_cost(constants, variation, batch_size=piece.batch_size)
    if piece.option == "maml":
        return maml_cost(constants, variation, step_size=knob, batch_size=piece.batch_size)
    return moreau_cost(constants, variation, lambda_=LAMBDA, accuracy=knob, batch_size=piece.batch_size)


def bound_of(piece: Piece, lane: int, lemma_6: Literal["printed", "repaired"] = "printed") -> Bound | None:
    """The theorem's bound, or None where T is below what the theorem asks for. No f_i is below 0, so f* is not."""
    (constants, variation), (late, knob) = known(piece.study), piece.lanes[lane]
    gap = _first_value(piece.study, piece.option, knob)
    run = Run(LOCAL_STEPS, late, piece.steps, gap)
    try:
        if piece.option == "plain":
            return fedasync_bound(constants, variation, run, batch_size=piece.batch_size)
        if piece.option == "maml":
            return maml_bound(constants, variation, run, step_size=knob, batch_size=piece.batch_size)
        size = piece.batch_size
        return moreau_bound(constants, variation, run, lambda_=LAMBDA, accuracy=knob, batch_size=size, lemma_6=lemma_6)
    except UserMistake:
        return None


def result_of(piece: Piece, seeds: tuple[int, ...], folder: Path, hasty: bool = False) -> Result:
    """The result of a piece: from its file, or by running it."""
    path = folder / f"{piece.name}.json"
    asked = {"lanes": [list(lane) for lane in piece.lanes], "seeds": list(seeds), "inner": piece.inner_step_size}

    def measure() -> dict[str, Any]:
        found = run_piece(piece, seeds, hasty)
        floor = (found.third * found.fourth).sum(-1)
        return {"mean_square": found.mean_square.tolist(), "floor": floor.tolist()}

    told = kept(path, asked, measure)
    return Result(piece, np.array(told["mean_square"]), np.array(told["floor"]))


def run_piece(piece: Piece, seeds: tuple[int, ...], hasty: bool = False) -> Measured:
    """All lanes and seeds of a piece side by side; `hasty` compiles faster and runs slower."""
    assert piece.steps % BLOCK == 0
    late, knobs = zip(*piece.lanes, strict=True)
    sizes = [client_step_size(cost_of(piece, knob), LOCAL_STEPS, piece.steps) for knob in knobs]
    lanes = Lane(np.array(late, np.int32), np.array(sizes, np.float32), np.array(knobs, np.float32))
    places, first = jnp.asarray(problem_of(piece.study)[1]), _first(piece.study, piece.option, knobs[0])
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    found = compiled(_program(piece), hasty)(places, first, lanes, keys, piece.steps)
    return Measured(*(np.asarray(part, np.float64) for part in found))


@cache
def _first_value(study: Study, option: Option, knob: float) -> float:
    """F(w^0)."""
    program = _program(Piece(study, option, 1, 0, ()))
    return float(true_value(program, knob, jnp.asarray(problem_of(study)[1]), _first(study, option, knob)))


@cache
def _first(study: Study, option: Option, knob: float) -> jax.Array:
    """w^0; a study that starts where the cost is stationary has one alpha or nu."""
    given = _PROBLEMS[study][1]
    if given is not None:
        return jnp.asarray(given)
    return stationary(_program(Piece(study, option, 1, 0, ())), knob, jnp.asarray(problem_of(study)[1]))


def _program(piece: Piece) -> Program:
    return Program(piece.option, piece.batch_size, LOCAL_STEPS, MOST_STALE, SMOOTHNESS, LAMBDA, piece.inner_step_size)
