"""What Per-FedAvg's lemmas bound, measured: the noise of gradient estimates, and how unlike each other clients are."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Key, Scalar, Shard
from idiolect.inspection.distances import Points, root_mean_square, wasserstein_to_average
from idiolect.papers.kept_results import kept
from idiolect.papers.round_pieces import SMOOTHNESS, People, far_off, known, middle, places
from idiolect.papers.round_trajectories import estimate, exactly
from idiolect.papers.trajectories import HASTE, client_gradients, template, whole
from idiolect.theory import DiversityBound, MetaBatches, hessian_free_noise, meta_cost, wasserstein_diversity
from idiolect.theory.per_fedavg import Derivative

_POINTS = 40  # where clients are compared


class NoiseCase(NamedTuple):
    """An estimate of the gradient."""

    derivative: Derivative
    batch_size: int  # D = D' = D''
    alpha: float  # in 1 / L
    delta: float = 1e-3


class Noise(NamedTuple):
    """E ||estimate - grad F_i||^2 of every seed at its worst client and point, and what bounds it."""

    case: NoiseCase
    found: np.ndarray
    printed: np.ndarray  # Lemma 4.3, G.1 or G.2
    sharper: np.ndarray  # with both gradients of a difference on one batch; else as printed


class Unlike(NamedTuple):
    """How unlike each other the clients of every seed are, and what Wasserstein distances say (22a, b)."""

    people: People
    distance: np.ndarray  # the root mean square of W_1(p_i, p)
    gradient: np.ndarray  # the largest root mean square of ||grad f_i - grad f|| over some points
    hessian: np.ndarray
    bounds: Sequence[DiversityBound]


def noise_of(case: NoiseCase, people: People, seeds: tuple[int, ...], draws: int, folder: Path, hasty: bool) -> Noise:
    """The noise of an estimate far off, in the middle of all samples and half way, over some draws."""
    name = f"noise-{case.derivative.replace('_', '-')}-b{case.batch_size}-a{case.alpha:g}-d{case.delta:g}"
    asked = {"case": list(case), "people": list(people), "seeds": list(seeds), "draws": draws}

    def measure() -> dict[str, Any]:
        program, found = _noise(case.derivative, case.batch_size, draws, hasty), []
        for seed in seeds:
            points = np.linspace(far_off(people, seed), middle(people, seed), 3).astype(np.float32)
            where = jnp.asarray(places(people, seed))
            errors = program(where, points, case.alpha / SMOOTHNESS, case.delta, jax.random.key(seed))
            found.append(float(errors.max()))
        return {"found": found}

    told = kept(folder / f"{name}.json", asked, measure)
    printed, sharper = zip(*(_noise_bounds(case, people, seed) for seed in seeds), strict=True)
    return Noise(case, np.array(told["found"]), np.square(printed), np.square(sharper))


def unlike(people: People, seeds: tuple[int, ...]) -> Unlike:
    """The clients of every seed, compared at some points around their samples."""
    distances, slopes, bends, bounds = [], [], [], []
    for seed in seeds:
        where, (constants, _) = places(people, seed), known(people, seed)
        clouds = [Points(np.asarray(own, np.float64), np.zeros((len(own), 0))) for own in where]
        apart = wasserstein_to_average(clouds)
        rng = np.random.default_rng([seed, 2])
        points = middle(people, seed) + rng.uniform(-2, 2, (_POINTS, where.shape[-1]))
        slope, bend = _compared(jnp.asarray(where), jnp.asarray(points, jnp.float32))
        distances.append(root_mean_square(apart))
        slopes.append(float(slope.max()))
        bends.append(float(bend.max()))
        rough = constants.hessian_lipschitz  # a sample's loss depends on w - m only: as with w, so with m (21a, b)
        told = {"gradient_lipschitz": constants.smoothness, "hessian_lipschitz": rough}
        bounds.append(wasserstein_diversity(apart.tolist(), **told))
    return Unlike(people, np.array(distances), np.array(slopes), np.array(bends), bounds)


def _noise_bounds(case: NoiseCase, people: People, seed: int) -> tuple[float, float]:
    batches = MetaBatches(case.batch_size, case.batch_size, case.batch_size)
    (constants, variation), alpha = known(people, seed), case.alpha / SMOOTHNESS
    told: dict[str, Any] = {"derivative": case.derivative, "delta": case.delta}
    printed = meta_cost(constants, variation, batches, step_size=alpha, **told).noise
    if case.derivative != "hessian_free":
        return printed, printed
    return printed, hessian_free_noise(constants, variation, batches, step_size=alpha, delta=case.delta)


@cache
def _noise(derivative: Derivative, batch_size: int, draws: int, hasty: bool) -> Any:
    """(places, points, alpha, delta, key) -> mean squared errors: (point, client)."""

    def errors(where: jax.Array, points: jax.Array, alpha: Scalar, delta: Scalar, key: Key) -> jax.Array:
        clients, samples, dimension = where.shape
        rows, objective = {"place": where.reshape(-1, dimension)}, estimate(derivative, alpha, delta)
        truths = client_gradients(exactly(SMOOTHNESS), alpha, where)

        def of_client(client: Scalar, point: jax.Array, truth: jax.Array, key: Key) -> Scalar:
            shard = Shard(rows, client * samples, jnp.int32(samples))
            oracle = template(SMOOTHNESS).oracle(shard, batch_size)

            def one(key: Key) -> Scalar:
                guess = objective.gradient(oracle, (), point, point, key)[1]
                return ((guess - truth) ** 2).sum()

            return jax.vmap(one)(jax.random.split(key, draws)).mean()

        def at(point: jax.Array, key: Key) -> jax.Array:
            keys = jax.random.split(key, clients)
            return jax.vmap(of_client, (0, None, 0, 0))(jnp.arange(clients), point, truths(point), keys)

        return jax.lax.map(lambda pair: at(*pair), (points, jax.random.split(key, len(points))))

    return jax.jit(errors, compiler_options=HASTE if hasty else None)


@jax.jit
def _compared(where: jax.Array, points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The root mean squares of ||grad f_i - grad f|| and of ||Hess f_i - Hess f|| (spectral) at every point."""
    still = jax.random.key(0)

    def at(point: jax.Array) -> tuple[Scalar, Scalar]:
        def value(own: jax.Array, at: jax.Array) -> Scalar:
            return whole(SMOOTHNESS, own).value(at, still)

        slopes = jax.vmap(jax.grad(value, 1), (0, None))(where, point)
        bends = jax.vmap(jax.hessian(value, 1), (0, None))(where, point)
        norms = jnp.abs(jnp.linalg.eigvalsh(bends - bends.mean(0))).max(-1)
        return jnp.sqrt(((slopes - slopes.mean(0)) ** 2).sum(-1).mean()), jnp.sqrt((norms**2).mean())

    return jax.lax.map(at, points)
