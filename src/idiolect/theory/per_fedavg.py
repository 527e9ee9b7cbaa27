"""The constants of Per-FedAvg's cost: how smooth it is, how noisy its gradients are, how unlike each other its clients.

A. Fallah, A. Mokhtari, A. Ozdaglar. Personalized federated learning: a meta-learning approach. 2020, Sec. 4 and
Appendices A to D, G.

| Per-FedAvg | code |
| --- | --- |
| Assumptions 2, 3: L, B, rho | `Constants` |
| Assumptions 4, 5: sigma_G, sigma_H, gamma_G, gamma_H | `Variation` |
| (19a, b): gamma_G, gamma_H from total variation distances | `total_variation_diversity` |
| (22a, b): gamma_G, gamma_H from 1-Wasserstein distances | `wasserstein_diversity` |
| Lemmas 4.2, 4.3, 4.4: L_F, sigma_F, gamma_F | `meta_cost` |
| Lemma G.1: sigma_F of the first-order gradient (112) | `meta_cost`, `derivative="first_order"` |
| Lemma G.2: sigma_F of the Hessian-free gradient (118) | `meta_cost`, `derivative="hessian_free"` |
| Prop. E.1, Cor. E.2, Theorem 4.5 | `idiolect.theory.per_fedavg_bounds` |

`idiolect.inspection.distances` measures the distances.

Deviations. A.2 proves (22b) with gradients in the place of Hessians, and for a largest eigenvalue in the place of the
norm; with both mended it holds. (37) says that the mean of D'' Hessians strays by sigma_H / sqrt(D''), which is so in
the Frobenius norm and not in the spectral one; Lemma 4.3 needs it on one vector at a time only, and there it holds, as
D'' is independent of the other batches. (50) counts gamma_G^2 twice: 96 does where Lemma 4.4 prints 192. (117)'s error
is half of what the text says. Lemma G.2's noise grows without bound as delta shrinks, since it bounds the two gradients
of a difference one by one, though both are taken on the same batch: `hessian_free_noise` bounds them together.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake
from idiolect.theory.checks import at_least, check_constants, check_variation, positive

Derivative = Literal["exact", "first_order", "hessian_free"]


class MetaBatches(NamedTuple):
    """How many samples an estimate (9) of the gradient takes."""

    inner: int  # D, for the personal step
    outer: int  # D', for the gradient after it
    hessian: int  # D''


class MetaCost(NamedTuple):
    """The constants of f_i(w - alpha grad f_i(w)) and of the estimates of its gradient."""

    smoothness: float  # L_F
    noise: float  # sigma_F
    diversity: float  # gamma_F


class DiversityBound(NamedTuple):
    """How far clients' gradients and Hessians are apart at most, as a root mean square over clients."""

    gradient: float  # gamma_G
    hessian: float  # gamma_H


def meta_cost(
    constants: Constants,
    variation: Variation,
    batches: MetaBatches,
    *,
    step_size: float,
    derivative: Derivative = "exact",
    delta: float = 1e-3,
) -> MetaCost:
    """L_F, sigma_F and gamma_F of the cost (4) with alpha = `step_size`, as printed (Lemmas 4.2-4.4, G.1, G.2).

    Args:
        constants: L, rho and B, which must be finite.
        variation: How much samples and clients differ.
        batches: D, D' and D''.
        step_size: alpha, at most 1 / L.
        derivative: Which estimate of the gradient clients use.
        delta: The finite-difference width of `hessian_free`.

    Returns:
        The constants of the cost.

    Example:
        >>> from idiolect.theory import Constants, MetaBatches, Variation, meta_cost
        >>> constants, variation = Constants(0.0, 1.0, 2.0, 0.5), Variation(0.0, 0.0, 1.0, 0.0)
        >>> meta_cost(constants, variation, MetaBatches(1, 1, 1), step_size=0.5).smoothness
        4.5
    """
    _check(constants, variation, batches, step_size)
    smooth, bound, rough = constants.smoothness, constants.gradient_bound, constants.hessian_lipschitz
    after = _after(constants, variation, batches, step_size)
    if derivative == "exact":
        hessian = (step_size * variation.hessian_noise) ** 2 / batches.hessian  # (37)
        noise = 12 * after + 3 * (bound**2 + after) * hessian  # Lemma 4.3
    elif derivative == "first_order":
        noise = 2 * after + 2 * (step_size * smooth * bound) ** 2  # Lemma G.1
    else:
        noise = _apart(constants, variation, batches, step_size, delta)
    return MetaCost(
        smoothness=4 * smooth + step_size * rough * bound,  # Lemma 4.2
        noise=math.sqrt(noise),
        diversity=math.sqrt(
            3 * (bound * step_size * variation.hessian_diversity) ** 2 + 192 * variation.gradient_diversity**2
        ),  # Lemma 4.4
    )


def hessian_free_noise(
    constants: Constants, variation: Variation, batches: MetaBatches, *, step_size: float, delta: float
) -> float:
    """The sharper of Lemma G.2's sigma_F and what two gradients on one batch D'' give (see Deviations).

    A difference of gradients on one batch is the mean of its Hessians along the way, times the vector. So its noise is
    theirs, alpha sigma_H B / sqrt(D''), whatever delta is, and the way adds at most alpha rho delta B^2 / 2:
    sigma_F^2 <= 2 (1 + alpha L)^2 sigma_G^2 (1/D' + (alpha L)^2 / D) + (alpha rho delta B^2)^2 / 2 + alpha^2 sigma_H^2
    B^2 / D''. Here B bounds the gradients of single samples.

    Args:
        constants: L, rho and B of every sample.
        variation: How much samples and clients differ.
        batches: D, D' and D''.
        step_size: alpha, at most 1 / L.
        delta: The finite-difference width.

    Returns:
        The bound on the root of the mean squared error.

    Example:
        >>> from idiolect.theory import Constants, MetaBatches, Variation, hessian_free_noise
        >>> constants, variation = Constants(0.0, 1.0, 2.0, 0.0), Variation(1.0, 0.0, 0.0, 0.0)
        >>> hessian_free_noise(constants, variation, MetaBatches(1, 2, 1), step_size=0.0, delta=1e-3)
        1.0
    """
    _check(constants, variation, batches, step_size)
    bound, steep = constants.gradient_bound, step_size * constants.smoothness
    after = _after(constants, variation, batches, step_size)
    way = (step_size * constants.hessian_lipschitz * delta * bound**2) ** 2 / 2
    hessian = (step_size * variation.hessian_noise * bound) ** 2 / batches.hessian
    together = 2 * (1 + steep) ** 2 * after + way + hessian
    return math.sqrt(min(together, _apart(constants, variation, batches, step_size, delta)))


def wasserstein_diversity(
    distances: Sequence[float], *, gradient_lipschitz: float, hessian_lipschitz: float
) -> DiversityBound:
    """gamma_G and gamma_H from how far clients' data lie from the average of all (22a, b).

    Args:
        distances: W_1(p_i, p) of every client.
        gradient_lipschitz: L_Z, how fast the gradient of a sample changes with the sample (21a).
        hessian_lipschitz: rho_Z, how fast its Hessian does (21b).

    Returns:
        The two bounds.

    Example:
        >>> from idiolect.theory import wasserstein_diversity
        >>> wasserstein_diversity([3.0, 3.0], gradient_lipschitz=2.0, hessian_lipschitz=0.5)
        DiversityBound(gradient=6.0, hessian=1.5)
    """
    at_least("gradient_lipschitz", gradient_lipschitz, 0)
    at_least("hessian_lipschitz", hessian_lipschitz, 0)
    apart = _root_mean_square(distances)
    return DiversityBound(gradient_lipschitz * apart, hessian_lipschitz * apart)


def total_variation_diversity(distances: Sequence[float], constants: Constants) -> DiversityBound:
    """gamma_G and gamma_H from how much clients' data differ from the average of all (19a, b).

    Args:
        distances: ||p_i - p||_TV of every client.
        constants: L and B of every sample (18).

    Returns:
        The two bounds.

    Example:
        >>> from idiolect.theory import Constants, total_variation_diversity
        >>> total_variation_diversity([0.5, 0.5], Constants(0.0, 2.0, gradient_bound=3.0))
        DiversityBound(gradient=3.0, hessian=2.0)
    """
    check_constants(constants)
    apart = 2 * _root_mean_square(distances)
    return DiversityBound(apart * constants.gradient_bound, apart * constants.smoothness)


def _after(constants: Constants, variation: Variation, batches: MetaBatches, step_size: float) -> float:
    """(40): the noise of the gradient after the personal step, squared."""
    steep = step_size * constants.smoothness
    return variation.gradient_noise**2 * (1 / batches.outer + steep**2 / batches.inner)


def _apart(constants: Constants, variation: Variation, batches: MetaBatches, step_size: float, delta: float) -> float:
    """Lemma G.2, squared: the two gradients of a difference bounded one by one."""
    positive("delta", delta)
    steep, width = step_size * constants.smoothness, step_size / delta
    drawn = 2 * steep**2 / batches.inner + 2 / batches.outer + width**2 / (2 * batches.hessian)
    way = step_size * constants.hessian_lipschitz * delta
    return 6 * variation.gradient_noise**2 * drawn + 2 * way**2 * constants.gradient_bound**4


def _root_mean_square(distances: Sequence[float]) -> float:
    """What stands under (19) and (22)."""
    if not len(distances):
        raise UserMistake("distances is empty, but must have one of every client")
    for distance in distances:
        at_least("distances", distance, 0)
    return math.sqrt(sum(distance**2 for distance in distances) / len(distances))


def _check(constants: Constants, variation: Variation, batches: MetaBatches, step_size: float) -> None:
    check_constants(constants)
    check_variation(variation)
    for name, value in batches._asdict().items():
        at_least(f"batches.{name}", value, 1)
    at_least("step_size", step_size, 0)
    if not math.isfinite(constants.gradient_bound):
        raise UserMistake("constants.gradient_bound is inf, but Per-FedAvg's lemmas need a bound on the gradients")
    if step_size * constants.smoothness > 1:
        raise UserMistake(
            f"step_size is {step_size:g}, but Per-FedAvg's lemmas need step_size <= 1 / L, which is "
            f"{1 / constants.smoothness:.4g}"
        )
