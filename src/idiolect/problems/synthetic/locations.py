"""Where are a client's samples? Cauchy's loss forgives outliers: smooth, not convex, and all its constants are known.

A sample m has the loss L/2 delta^2 log(1 + r^2 / delta^2) at a distance r = ||w - m|| (Cauchy's, or Lorentz's). With
x = r / delta its gradient L delta x / (1 + x^2) is longest at x = 1, and its curvatures lie between -L/8 (x^2 = 3,
towards m) and L (x = 0). Along a unit vector at an angle a to w - m, the third derivative is L / delta times
8 x^3 cos^3 a / (1 + x^2)^3 - 6 x cos a / (1 + x^2)^2, which is largest at a = 0 and x = sqrt(2) - 1; as a symmetric
form has its norm on a single vector, that is how fast the Hessian can change:

    G = L delta / 2,    rho = (3 + 2 sqrt(2)) / 4 * L / delta.

The loss depends on w - m only. So gradients on two samples differ by at most L ||m - m'|| wherever w is, Hessians by
rho ||m - m'||, and variances of centres bound those of gradients and Hessians: `variation` holds on all of R^d. Clients
have a data set each, and a batch is drawn from it with replacement, so f_i is the mean over it, exactly.
"""

import math
from typing import Annotated

import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Lt

from idiolect.contracts import Batch, Clients, Metric, Params, Problem, Scalar
from idiolect.contracts.constants import Constants, Variation
from idiolect.problems.data.client_splits import split_clients
from idiolect.problems.supervised import supervised_problem, with_key

_ROUGHNESS = (3 + 2 * math.sqrt(2)) / 4  # rho delta / L
_CURVATURES = 9 / 8  # from the least to the largest curvature, over L


def robust_location(
    *,
    clients: Annotated[int, Ge(1)] = 10,
    dimension: Annotated[int, Ge(1)] = 2,
    samples: Annotated[int, Ge(3)] = 20,
    width: Annotated[float, Gt(0)] = 1.0,
    smoothness: Annotated[float, Gt(0)] = 1.0,
    heterogeneity: Annotated[float, Ge(0)] = 1.0,
    noise: Annotated[float, Ge(0)] = 0.5,
    outliers: Annotated[float, Ge(0), Lt(1)] = 0.0,
    distance: Annotated[float, Ge(0)] = 2.0,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    seed: int = 0,
) -> Problem:
    """Find the place that clients' samples lie around, under a loss that forgives outliers: smooth and nonconvex.

    Args:
        clients: How many there are.
        dimension: Of the model, and of a sample.
        samples: Of each client.
        width: The distance at which a sample pulls hardest.
        smoothness: L.
        heterogeneity: How far centres lie around one.
        noise: How far samples lie around their client's centre.
        outliers: The share of samples that are moved.
        distance: How far they are moved, along the first axis.
        unseen: The share of clients that take no part in training.
        seed: Of the draws.

    Returns:
        The problem, with its constants and its variation.

    Example:
        >>> from idiolect.problems.synthetic import robust_location
        >>> robust_location(width=2.0, smoothness=3.0).constants.gradient_bound
        3.0
    """
    rng = np.random.default_rng(seed)
    centres = heterogeneity * rng.standard_normal((clients, 1, dimension))
    places = centres + noise * rng.standard_normal((clients, samples, dimension))
    places[:, : round(outliers * samples), 0] += distance
    data = [{"place": own.astype(np.float32)} for own in places]

    def loss(params: Params, batch: Batch) -> Scalar:
        apart = ((params - batch["place"]) ** 2).sum(-1)
        return 0.5 * smoothness * width**2 * jnp.log1p(apart / width**2).mean()

    metric = Metric("loss", loss, higher_is_better=False)
    split = split_clients(data, unseen=unseen, rng=rng)
    made = supervised_problem(
        "robust_location", lambda key: jnp.zeros(dimension), with_key(loss), metric, split, smoothness
    )
    constants = Constants(0.0, smoothness, smoothness * width / 2, _ROUGHNESS * smoothness / width)
    return made._replace(constants=constants, variation=_variation(split, constants))


def training_places(clients: Clients) -> list[np.ndarray]:
    """The training samples of each participating client."""
    train = clients.train
    places = np.asarray(train.rows["place"], np.float64)
    return [places[train.starts[client] :][: train.sizes[client]] for client in clients.participating]


def _variation(clients: Clients, constants: Constants) -> Variation:
    """Bounds that hold everywhere: by the variance of the places, and by what any two samples can differ at most.

    Differences of the means of two clients are at most those of samples paired in any way; here by their order. In the
    spectral norm a mean need not be nearest to its samples, so Hessians get the difference of two samples: twice.
    """
    places = training_places(clients)
    paired = np.stack(places)  # all clients have as many
    within = max(_variance(own) for own in places)
    between = float(np.mean([_variance(paired[:, row]) for row in range(paired.shape[1])]))

    def root(scale: float, variance: float, most: float) -> float:
        return min(scale * math.sqrt(variance), most)

    smooth, bound, rough = constants.smoothness, constants.gradient_bound, constants.hessian_lipschitz
    return Variation(
        gradient_noise=root(smooth, within, bound),
        hessian_noise=root(rough, 2 * within, _CURVATURES * smooth),
        gradient_diversity=root(smooth, between, bound),
        hessian_diversity=root(rough, 2 * between, _CURVATURES * smooth),
    )


def _variance(points: np.ndarray) -> float:
    """The mean squared distance to the mean."""
    return float(((points - points.mean(0)) ** 2).sum(-1).mean())
