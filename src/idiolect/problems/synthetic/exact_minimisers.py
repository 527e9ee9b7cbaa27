"""Where stochastic MAML ends on least squares: its exact minimisers, from expectations over all batches.

M. T. Toghani, S. Lee, C. A. Uribe. PARS-Push. 2022, (4), (5) and (10). A client has N samples with the losses
(b - a'z)^2 + ridge/2 ||z||^2; up to a constant that is 1/2 z'A_q z - c_q'z with A_q = 2 a a' + ridge I and c_q = 2 b a.
A batch D is n draws with replacement, and a personal step goes to M_D z + alpha c_D with M_D = I - alpha A_D. If
1/2 z'Bz - g'z is the expected cost after the step, then before it the cost is a quadratic again, with

    B <- E[M_D B M_D],    g <- E[M_D] g - alpha E[M_D B c_D],

where the expectation over the n draws is 1/n of the mean over single samples, of M_q B M_q say, and 1 - 1/n of the
product of the means. Starting from f_i, u such steps give F_i^(u) of (4): the noise of small batches adds curvature,
and so moves the minimiser. Where inner step and Hessian have batches of their own, as in Per-FedAvg and PersA-FL, the
mean of the gradient keeps the product of the means only, and is that of MAML with full gradients.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from idiolect.contracts import Clients, Objective
from idiolect.errors import UserMistake

Batches: TypeAlias = Literal["independent", "shared"]


class LeastSquares(NamedTuple):
    """One client's samples, each with the loss (b - a'z)^2 + ridge/2 ||z||^2; in PARS-Push (10) ridge is 1/n."""

    inputs: np.ndarray  # [N, d], the a
    targets: np.ndarray  # [N], the b
    ridge: float


class Quadratic(NamedTuple):
    """The cost 1/2 z'Bz - g'z, up to a constant."""

    curvature: np.ndarray  # [d, d], B
    pull: np.ndarray  # [d], g


def training_data(clients: Clients, ridge: float) -> list[LeastSquares]:
    """The training samples of each participating client of `linear_regression`, whose ridge is 1 / clients."""
    found, split = [], clients.train
    for client in clients.participating:
        rows = slice(split.starts[client], split.starts[client] + split.sizes[client])
        found.append(LeastSquares(np.asarray(split.rows["a"][rows]), np.asarray(split.rows["b"][rows]), ridge))
    return found


def plain_quadratic(client: LeastSquares) -> Quadratic:
    """The client's own f_i: the mean over its samples."""
    a, b, ridge = _checked(client)
    return Quadratic(2 * a.T @ a / len(a) + ridge * np.eye(a.shape[1]), 2 * a.T @ b / len(a))


def maml_quadratic(
    client: LeastSquares,
    *,
    step_size: float,
    steps: int,
    batch_size: int,
    batches: Batches = "shared",
) -> Quadratic:
    """The client's expected cost after `steps` personal steps on batches, in time O(N d^2) a step.

    `batches`: as in the objective `maml`. With "independent" there is no such cost, only a field of mean gradients; it
    is the gradient of the quadratic returned, whatever the batch size.
    """
    for name, value, least in (("step_size", step_size, 0), ("steps", steps, 0), ("batch_size", batch_size, 1)):
        if not value >= least:
            raise UserMistake(f"{name} is {value}, but must be at least {least}")
    if batches not in ("independent", "shared"):
        raise UserMistake(f"batches is {batches!r}, but must be 'independent' or 'shared'")
    client = _checked(client)
    alone = 1 / batch_size if batches == "shared" else 0.0
    plain = cost = plain_quadratic(client)
    for _ in range(steps):  # from the last step back to the first, as (4) nests them
        cost = _before_step(cost, client, plain, step_size, alone)
    return cost


def minimiser(costs: Sequence[Quadratic]) -> np.ndarray:
    """The z that minimises the average of these costs."""
    if not costs:
        raise UserMistake("costs is empty, but a minimiser needs the cost of at least one client")
    curvature, pull = sum(cost.curvature for cost in costs), sum(cost.pull for cost in costs)
    eigenvalues = np.linalg.eigvalsh(curvature)
    if not eigenvalues[0] > len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1]:
        raise UserMistake(
            f"costs have a smallest curvature of {eigenvalues[0] / len(costs):.3g} on average, but it must be positive "
            f"for one minimiser: give more samples or a ridge"
        )
    return np.linalg.solve(curvature, pull)


def least_squares_optimum(clients: Sequence[LeastSquares], objective: Objective, batch_size: int) -> np.ndarray | None:
    """The minimiser of the average cost under an objective; None where there is no closed form.

    A first-order derivative has no cost of which it is the gradient; a Moreau envelope solved batch by batch has one,
    but not in closed form.
    """
    cost = objective.minimises
    if cost is None:
        return None
    batches: Batches = "shared" if cost.shared_batches else "independent"
    return minimiser(
        [
            maml_quadratic(client, step_size=cost.step_size, steps=cost.steps, batch_size=batch_size, batches=batches)
            for client in clients
        ]
    )


def _before_step(after: Quadratic, client: LeastSquares, plain: Quadratic, step_size: float, alone: float) -> Quadratic:
    """The expected cost before one step on a batch, where `alone` is 1 / (its size)."""
    matrix, pull = after
    mean = np.eye(len(pull)) - step_size * plain.curvature  # E[M_D]
    across = mean @ matrix @ mean, mean @ matrix @ plain.pull  # two samples, drawn apart
    within = _same_sample(matrix, client, step_size)
    curvature = alone * within[0] + (1 - alone) * across[0]
    crossed = alone * within[1] + (1 - alone) * across[1]
    return Quadratic((curvature + curvature.T) / 2, mean @ pull - step_size * crossed)


def _same_sample(matrix: np.ndarray, client: LeastSquares, step_size: float) -> tuple[np.ndarray, np.ndarray]:
    """The means over samples of M_q B M_q and M_q B c_q, where M_q = keep I - 2 alpha a a' and c_q = 2 b a."""
    a, b, ridge = client
    keep, turned = 1 - step_size * ridge, a @ matrix  # a'B, a row for each sample
    bend = 2 * step_size * np.einsum("nd,nd->n", turned, a)  # 2 alpha a'Ba
    mixed = a.T @ turned  # the sum of a a'B
    rank_one = a.T @ (bend[:, None] * a)
    curvature = keep**2 * matrix + 2 * step_size * (rank_one - keep * (mixed + mixed.T)) / len(a)
    return curvature, 2 * (keep * turned - bend[:, None] * a).T @ b / len(a)


def _checked(client: LeastSquares) -> LeastSquares:
    a, b = np.asarray(client.inputs, np.float64), np.asarray(client.targets, np.float64)
    if a.ndim != 2 or not len(a):
        raise UserMistake(f"inputs has the shape {a.shape}, but must have a row for each of one or more samples")
    if b.shape != a.shape[:1]:
        raise UserMistake(f"targets has the shape {b.shape}, but the inputs want ({len(a)},)")
    if not client.ridge >= 0:
        raise UserMistake(f"ridge is {client.ridge}, but must be at least 0")
    return LeastSquares(a, b, client.ridge)
