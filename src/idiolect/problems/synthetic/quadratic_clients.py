"""Quadratic clients, f_i(w) = 1/2 (w - m_i)' A_i (w - m_i), whose every minimiser is known in closed form.

The plain cost, the MAML cost after u full gradient steps and the Moreau envelope of a quadratic are again quadratics
with the same centre m_i; only the curvature changes. So one formula gives all minimisers of the average over clients:
(sum_i B_i)^-1 sum_i B_i m_i, where B_i is the curvature of the cost in question.
"""

from functools import partial
from typing import Annotated

import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Lt

from idiolect.contracts import Batch, Clients, Metric, Objective, Params, Problem, Scalar
from idiolect.contracts.constants import Constants
from idiolect.errors import UserMistake
from idiolect.problems.data.client_splits import split_clients
from idiolect.problems.supervised import supervised_problem, with_key


def quadratics(
    *,
    clients: Annotated[int, Ge(1)] = 10,
    dimension: Annotated[int, Ge(1)] = 10,
    samples: Annotated[int, Ge(3)] = 20,
    convexity: Annotated[float, Gt(0)] = 0.5,
    smoothness: Annotated[float, Gt(0)] = 2.0,
    heterogeneity: Annotated[float, Ge(0)] = 1.0,
    noise: Annotated[float, Ge(0)] = 0.0,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    seed: int = 0,
) -> Problem:
    """Clients with random curvatures between `convexity` and `smoothness`, their centres `heterogeneity` around one.

    Args:
        clients: How many there are.
        dimension: Of the model.
        samples: Of each client.
        convexity: The least curvature.
        smoothness: The largest curvature.
        heterogeneity: How far centres lie around one.
        noise: A sample is a centre m_i + noise * normal, so stochastic gradients have the true mean and variance
            noise^2 A_i^2.
        unseen: The share of clients that take no part in training.
        seed: Of the draws.

    Returns:
        The problem, with its constants and minimisers.

    Example:
        >>> from idiolect.objectives import maml
        >>> from idiolect.problems.synthetic import quadratics
        >>> quadratics(dimension=3).optimum(maml(steps=1, step_size=0.1), 32).shape
        (3,)
    """
    if smoothness < convexity:
        raise UserMistake(f"problem.smoothness is {smoothness}, below problem.convexity, which is {convexity}")
    rng = np.random.default_rng(seed)
    common, data = rng.standard_normal(dimension), []
    for _ in range(clients):
        basis = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
        matrix = basis * rng.uniform(convexity, smoothness, dimension) @ basis.T
        centre = common + heterogeneity * rng.standard_normal(dimension)
        centres = centre + noise * rng.standard_normal((samples, dimension))
        data.append({"matrix": _repeat(matrix, samples), "centre": centres.astype(np.float32)})

    def loss(params: Params, batch: Batch) -> Scalar:
        offset = params - batch["centre"]
        return 0.5 * jnp.einsum("bi,bij,bj->b", offset, batch["matrix"], offset).mean()

    metric = Metric("loss", loss, higher_is_better=False)
    split = split_clients(data, unseen=unseen, rng=rng)
    made = supervised_problem("quadratics", lambda key: jnp.zeros(dimension), with_key(loss), metric, split, smoothness)
    return made._replace(constants=Constants(convexity, smoothness), optimum=partial(_optimum, split))


def _optimum(clients: Clients, objective: Objective, batch_size: int) -> np.ndarray | None:
    """The minimiser of the average cost under an objective; None where there is no closed form."""
    cost = objective.minimises
    if cost is None:
        return None
    matrices, centres = curvatures_and_centres(clients)
    return minimiser(np.stack([maml_curvature(matrix, cost.step_size, cost.steps) for matrix in matrices]), centres)


def curvatures_and_centres(clients: Clients) -> tuple[np.ndarray, np.ndarray]:
    """A_i and m_i of the training data of each participating client of `quadratics`."""
    matrices, centres = [], []
    for client in clients.participating:
        rows = slice(clients.train.starts[client], clients.train.starts[client] + clients.train.sizes[client])
        matrices.append(np.asarray(clients.train.rows["matrix"][rows][0], np.float64))
        centres.append(np.asarray(clients.train.rows["centre"][rows], np.float64).mean(0))
    return np.stack(matrices), np.stack(centres)


def maml_curvature(matrix: np.ndarray, step_size: float, steps: int) -> np.ndarray:
    """The curvature of f_i after `steps` gradient steps: S A S with S = (I - alpha A)^u."""
    contraction = np.linalg.matrix_power(np.eye(len(matrix)) - step_size * matrix, steps)
    return contraction @ matrix @ contraction


def moreau_curvature(matrix: np.ndarray, lambda_: float) -> np.ndarray:
    """The curvature of the Moreau envelope of f_i: lambda A (A + lambda I)^-1."""
    return lambda_ * np.linalg.solve(matrix + lambda_ * np.eye(len(matrix)), matrix)


def minimiser(curvatures: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The minimiser of the average of quadratics with these curvatures and centres."""
    pulls = np.einsum("nij,nj->i", curvatures, centres)
    return np.linalg.solve(curvatures.sum(0), pulls)


def _repeat(matrix: np.ndarray, samples: int) -> np.ndarray:
    return np.broadcast_to(matrix.astype(np.float32), (samples, *matrix.shape))
