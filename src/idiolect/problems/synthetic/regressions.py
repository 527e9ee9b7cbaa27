"""Synthetic regressions whose constants and minimisers can be computed.

Linear: the experiment of M. T. Toghani et al., PARS-Push, 2022, Sec. 5, (9)-(10): b = a' beta_i + zeta with beta_i a
perturbation of a common beta, and the per-sample loss (b - a'z)^2 + ||z||^2 / (2n). Logistic: the same construction
with the label's log-odds a' beta_i.
"""

from functools import partial
from typing import Annotated

import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Gt

from idiolect.contracts import Batch, Clients, Key, Metric, Params, Problem, Scalar
from idiolect.contracts.constants import Constants
from idiolect.problems.data.client_splits import split_clients
from idiolect.problems.supervised import supervised_problem
from idiolect.problems.synthetic.exact_minimisers import least_squares_optimum, training_data


def linear_regression(
    *,
    clients: Annotated[int, Ge(1)] = 10,
    dimension: Annotated[int, Ge(1)] = 30,
    samples: Annotated[int, Ge(3)] = 500,
    heterogeneity: Annotated[float, Ge(0)] = 0.5,
    input_spread: Annotated[float, Ge(0)] = 0.0,
    noise: Annotated[float, Ge(0)] = 0.1,
    unseen: Annotated[float, Ge(0)] = 0.0,
    seed: int = 0,
) -> Problem:
    """Regularized least squares on clients whose true coefficients differ by `heterogeneity` (PARS-Push, Sec. 5).

    The paper does not say how inputs are drawn. Here they are normal, each of a client's features on a scale of its
    own, exp(`input_spread` * normal); without that spread all costs have about the same minimiser.

    Args:
        clients: How many there are.
        dimension: The number of features.
        samples: Of each client.
        heterogeneity: How much true coefficients differ between clients.
        input_spread: How much the scales of features do.
        noise: Of the targets.
        unseen: The share of clients that take no part in training.
        seed: Of the draws.

    Returns:
        The problem, with its constants and minimisers; runs report the squared error.

    Example:
        >>> from idiolect.objectives import plain
        >>> from idiolect.problems.synthetic import linear_regression
        >>> linear_regression(clients=3, dimension=4, samples=20).optimum(plain(), 32).shape
        (4,)
    """
    rng = np.random.default_rng(seed)
    inputs, scores = _linear_scores(clients, dimension, samples, heterogeneity, input_spread, rng)
    targets = scores + noise * rng.standard_normal(scores.shape)  # (9)
    data = [{"a": a.astype(np.float32), "b": b.astype(np.float32)} for a, b in zip(inputs, targets, strict=True)]

    def loss(params: Params, batch: Batch, key: Key) -> Scalar:
        return ((batch["b"] - batch["a"] @ params) ** 2).mean() + (params**2).sum() / (2 * clients)  # (10)

    def error(params: Params, batch: Batch) -> Scalar:
        return ((batch["b"] - batch["a"] @ params) ** 2).mean()

    split = split_clients(data, unseen=unseen, rng=rng)
    metric = Metric("squared error", error, higher_is_better=False)
    ridge, inputs = 1 / clients, np.asarray(split.train.rows["a"])
    constants = Constants(ridge, 2 * float((inputs**2).sum(1).max()) + ridge)
    smoothness = max(np.linalg.eigvalsh(matrix)[-1] for matrix in least_squares(split, clients)[0])
    made = supervised_problem(
        "linear_regression", lambda key: jnp.zeros(dimension), loss, metric, split, float(smoothness)
    )
    return made._replace(constants=constants, optimum=partial(least_squares_optimum, training_data(split, ridge)))


def least_squares(split: Clients, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Each participating client's training loss as a quadratic: its curvature A_i and its minimiser m_i.

    With these, `quadratic_clients` gives the minimisers of the plain, MAML and Moreau costs.
    """
    matrices, centres = [], []
    for client in split.participating:
        rows = slice(split.train.starts[client], split.train.starts[client] + split.train.sizes[client])
        a = np.asarray(split.train.rows["a"][rows], np.float64)
        b = np.asarray(split.train.rows["b"][rows], np.float64)
        matrix = 2 * a.T @ a / len(a) + np.eye(a.shape[1]) / clients
        matrices.append(matrix)
        centres.append(np.linalg.solve(matrix, 2 * a.T @ b / len(a)))
    return np.stack(matrices), np.stack(centres)


def logistic_regression(
    *,
    clients: Annotated[int, Ge(1)] = 10,
    dimension: Annotated[int, Ge(1)] = 20,
    samples: Annotated[int, Ge(3)] = 200,
    heterogeneity: Annotated[float, Ge(0)] = 0.5,
    regularization: Annotated[float, Gt(0)] = 0.01,
    unseen: Annotated[float, Ge(0)] = 0.0,
    seed: int = 0,
) -> Problem:
    """Two classes, with log-odds linear in the inputs and coefficients that differ between clients.

    Args:
        clients: How many there are.
        dimension: The number of features.
        samples: Of each client.
        heterogeneity: How much coefficients differ between clients.
        regularization: Of the squared norm, halved.
        unseen: The share of clients that take no part in training.
        seed: Of the draws.

    Returns:
        The problem, with its smoothness; runs report the accuracy.

    Example:
        >>> from idiolect.problems.synthetic import logistic_regression
        >>> logistic_regression(clients=3, dimension=4, samples=20).metric.name
        'accuracy'
    """
    rng = np.random.default_rng(seed)
    inputs, scores = _linear_scores(clients, dimension, samples, heterogeneity, 0.0, rng)
    labels = rng.random(scores.shape) < 1 / (1 + np.exp(-3 * scores))
    data = [{"a": a.astype(np.float32), "b": b.astype(np.float32)} for a, b in zip(inputs, labels, strict=True)]

    def loss(params: Params, batch: Batch, key: Key) -> Scalar:
        entropy = optax.losses.sigmoid_binary_cross_entropy(batch["a"] @ params, batch["b"]).mean()
        return entropy + 0.5 * regularization * (params**2).sum()

    def accuracy(params: Params, batch: Batch) -> Scalar:
        return ((batch["a"] @ params > 0) == (batch["b"] > 0.5)).mean()

    split = split_clients(data, unseen=unseen, rng=rng)
    # The sigmoid's slope is at most 1/4, so f_i is (lambda_max(A'A / m) / 4 + regularization)-smooth.
    smoothness = max(_largest(split, client) for client in split.participating) / 4 + regularization
    metric = Metric("accuracy", accuracy, higher_is_better=True)
    return supervised_problem(
        "logistic_regression", lambda key: jnp.zeros(dimension), loss, metric, split, float(smoothness)
    )


def _largest(split: Clients, client: int) -> float:
    start, size = split.train.starts[client], split.train.sizes[client]
    a = np.asarray(split.train.rows["a"][start : start + size], np.float64)
    return float(np.linalg.eigvalsh(a.T @ a / len(a))[-1])


def _linear_scores(
    clients: int, dimension: int, samples: int, heterogeneity: float, spread: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    common = rng.standard_normal(dimension) / np.sqrt(dimension)
    own = common + heterogeneity * rng.standard_normal((clients, dimension)) / np.sqrt(dimension)
    inputs = rng.standard_normal((clients, samples, dimension))
    if spread:
        inputs *= np.exp(spread * rng.standard_normal((clients, 1, dimension)))
    return inputs, np.einsum("nsd,nd->ns", inputs, own)
