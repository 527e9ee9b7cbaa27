"""How fast asynchronous personalized learning becomes stationary: the constants of its costs, and what bounds it.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL: personalized asynchronous federated learning. 2023, Sec. 3 and 4.

| PersA-FL | code |
| --- | --- |
| Assumptions 2, 5 (17), 6: L, rho, G | `Constants` |
| Assumptions 3, 4, 5: sigma_g, gamma_g, sigma_h, gamma_h | `Variation` |
| Sec. 3: lambda > L | `check_lambda` |
| Lemmas 1-4: L_b, mu_b, sigma_b, gamma_b, G_b | `maml_cost` |
| Lemmas 5-7: L_c, mu_c, sigma_c, gamma_c | `moreau_cost` |
| Theorems 1-3: eta, the least T | `client_step_size`, `least_steps` |
| Theorem 1 (FedAsync) | `fedasync_bound` |
| Theorem 2 (PersA-FL-MAML) | `maml_bound` |
| Theorem 3 (PersA-FL-ME) | `moreau_bound` |
| Corollaries 1 and 3: T, b and nu for an epsilon | `maml_budget`, `moreau_budget` |

The bounds are on (1/T) sum_t E ||grad F(w^t)||^2 over the server's first T models, with beta = 1.

Deviations. Lemma 6's bias (26) is proved by taking the batch's gradient at theta~(w) for unbiased in (C21), though
theta~ is found on that very batch, and by pulling an expectation through a Lipschitz bound in (C23). It fails: where
the curvatures of the samples differ, lambda (w - theta~) is biased even if nu = 0. What holds, from strong convexity at
the fixed point theta^ (the argument behind (27)), is mu_c <= lambda / (lambda - L) (nu + sigma_g / sqrt(b)); that is
`lemma_6="repaired"`, the default, and brings back the 1/b that Table 1 says pFedMe has and PersA-FL-ME has not. It and
(27) need every sample to be L-smooth, not just f_i. Lemma 2's bias (22) holds, but is not sharp: under Assumption 5 a
second-order expansion gives (1 + alpha L) rho alpha^2 sigma_g^2 / (2b), which is `maml_bias`: the last term of
Theorem 2 is alpha^4 / b^2 for small alpha or large b, and not alpha^2 / b. Theorem 3 prints F(w^t) for F(w^0) and
gamma_g for gamma_c in the staleness term, see (C61)-(C62), and T >= 288 L_c (Q+7)(tau+1)^2 where (C61) needs the cube
from tau = 3 on. Lemma 1 needs Assumption 5 too. Lemma 5's L_c is lambda / (kappa - 1) for any kappa up to lambda / L;
we take that kappa, without which L_c does not tend to L. Lemmas 3 and 7 do not tend to gamma_g as alpha -> 0 or
lambda -> infinity, as the text has it, but to sqrt(12) and 4 times it, and Lemma 2's variance to 3 sigma_g^2 / b; so
Theorems 2 and 3 become Theorem 1 in form only. (A63) drops a gradient where tau = 0, which T >= 160 L (Q+7) covers.
"""

import math
from typing import Literal, NamedTuple

from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake
from idiolect.theory.checks import at_least, check_constants, check_variation

Lemma6 = Literal["repaired", "printed"]


class PersonalCost(NamedTuple):
    """The constants of a personalized cost and of its stochastic gradient, named as in the paper but for the letter."""

    smoothness: float  # L_b, L_c
    bias: float  # mu
    noise: float  # sigma
    diversity: float  # gamma
    gradient_bound: float  # G


def check_lambda(lambda_: float, smoothness: float | None) -> None:
    """Refuse a lambda for which h = f + lambda/2 ||. - w||^2 need not be strongly convex (PersA-FL, Sec. 3).

    Args:
        lambda_: Of the Moreau envelope.
        smoothness: L; None, where it is not known, refuses nothing.

    Returns:
        Nothing; a lambda that is too small is a `UserMistake`.

    Example:
        >>> from idiolect.theory import check_lambda
        >>> check_lambda(20.0, smoothness=2.0)
    """
    if smoothness is not None and lambda_ <= smoothness:
        raise UserMistake(
            f"objective.lambda is {lambda_:g}, but the Moreau envelope needs lambda > L and this problem has "
            f"L = {smoothness:.4g}"
        )


def plain_cost(constants: Constants, variation: Variation, *, batch_size: int) -> PersonalCost:
    """F itself, with the variance (15) of batches.

    Args:
        constants: L, rho and G.
        variation: How much samples and clients differ.
        batch_size: b.

    Returns:
        The constants of the cost, which has no bias.

    Example:
        >>> from idiolect.theory import Constants, Variation, plain_cost
        >>> plain_cost(Constants(0.0, 1.0), Variation(2.0, 0.0, 1.0, 0.0), batch_size=4).noise
        1.0
    """
    _check(constants, variation, batch_size)
    noise = variation.gradient_noise / math.sqrt(batch_size)
    return PersonalCost(constants.smoothness, 0.0, noise, variation.gradient_diversity, constants.gradient_bound)


def maml_cost(constants: Constants, variation: Variation, *, step_size: float, batch_size: int) -> PersonalCost:
    """L_b, mu_b, sigma_b, gamma_b and G_b of the MAML cost (4) with alpha = `step_size` (Lemmas 1-4).

    Args:
        constants: L, rho and G.
        variation: How much samples and clients differ.
        step_size: alpha.
        batch_size: b.

    Returns:
        The constants of the cost.

    Example:
        >>> from idiolect.theory import Constants, Variation, maml_cost
        >>> maml_cost(Constants(0.0, 1.0), Variation(2.0, 0.0, 1.0, 0.0), step_size=0.5, batch_size=4).smoothness
        2.25
    """
    _check(constants, variation, batch_size)
    at_least("step_size", step_size, 0)
    bound = constants.gradient_bound
    steep, stretch = step_size * constants.smoothness, 1 + step_size * constants.smoothness
    outer = variation.gradient_noise**2 / batch_size * (1 + steep**2)  # of the gradient after the personal step
    hessian = step_size**2 * variation.hessian_noise**2 / batch_size
    return PersonalCost(
        smoothness=constants.smoothness * stretch**2 + _times(step_size * constants.hessian_lipschitz, bound),
        bias=steep * stretch * variation.gradient_noise / math.sqrt(batch_size),  # (22)
        noise=math.sqrt(3 * (stretch**2 * outer + _times(hessian, bound**2) + hessian * outer)),  # (23)
        diversity=math.sqrt(
            12 * stretch**2 * (1 + steep**2) * variation.gradient_diversity**2
            + _times(12 * step_size**2 * variation.hessian_diversity**2, bound**2)
        ),  # (24)
        gradient_bound=stretch * bound,  # (25)
    )


def maml_bias(constants: Constants, variation: Variation, *, step_size: float, batch_size: int) -> float:
    """The sharper of Lemma 2's bias (22) and what a second-order expansion gives, alpha^2 / b (see Deviations).

    Args:
        constants: L, rho and G.
        variation: How much samples and clients differ.
        step_size: alpha.
        batch_size: b.

    Returns:
        The bound on the bias.

    Example:
        >>> from idiolect.theory import Constants, Variation, maml_bias
        >>> maml_bias(Constants(0.0, 1.0), Variation(2.0, 0.0, 1.0, 0.0), step_size=0.5, batch_size=4)  # a quadratic
        0.0
    """
    printed = maml_cost(constants, variation, step_size=step_size, batch_size=batch_size).bias
    moved = (step_size * variation.gradient_noise) ** 2 / batch_size  # how far the personal step strays, squared
    return min(printed, (1 + step_size * constants.smoothness) * constants.hessian_lipschitz * moved / 2)


def moreau_cost(
    constants: Constants,
    variation: Variation,
    *,
    lambda_: float,
    accuracy: float,
    batch_size: int,
    lemma_6: Lemma6 = "repaired",
) -> PersonalCost:
    """L_c, mu_c, sigma_c and gamma_c of the Moreau envelope (6) with nu = `accuracy` (Lemmas 5-7).

    Args:
        constants: L, rho and G.
        variation: How much samples and clients differ.
        lambda_: Of the envelope, at least 7 L.
        accuracy: nu.
        batch_size: b.
        lemma_6: "printed" leaves out what a batch adds to the bias (see Deviations).

    Returns:
        The constants of the cost.

    Example:
        >>> from idiolect.theory import Constants, Variation, moreau_cost
        >>> constants, variation = Constants(0.0, 1.0), Variation(2.0, 0.0, 1.0, 0.0)
        >>> moreau_cost(constants, variation, lambda_=11.0, accuracy=0.0, batch_size=4).smoothness
        1.1
    """
    _check(constants, variation, batch_size)
    at_least("accuracy", accuracy, 0)
    smoothness = constants.smoothness
    if not lambda_ >= 7 * smoothness:
        raise UserMistake(
            f"lambda is {lambda_:g}, but Lemma 7 and Theorem 3 need lambda >= 7 L, which is {7 * smoothness:.4g}"
        )
    stretch = lambda_ / (lambda_ - smoothness)
    batch = variation.gradient_noise / math.sqrt(batch_size)
    return PersonalCost(
        smoothness=stretch * smoothness,  # (C13)
        bias=stretch * (accuracy + (batch if lemma_6 == "repaired" else 0.0)),  # (26)
        noise=math.sqrt(2) * stretch * math.hypot(batch, accuracy),  # (27)
        diversity=4 * variation.gradient_diversity / math.sqrt(1 - 48 * (smoothness / lambda_) ** 2),  # (28)
        gradient_bound=constants.gradient_bound,  # the gradient of f_i at theta^
    )


def _times(factor: float, bound: float) -> float:
    """The product, which is 0 where the factor is, even if nothing bounds the gradient."""
    return factor * bound if factor else 0.0


def _check(constants: Constants, variation: Variation, batch_size: int) -> None:
    check_constants(constants)
    check_variation(variation)
    at_least("batch_size", batch_size, 1)
