"""What the papers prove, as functions: which step sizes a personalized cost admits, and what becomes of its constants.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Sec. 3 and Lemma 5: when a Moreau envelope is well posed. The same
authors. PARS-Push: personalized, asynchronous and robust decentralized optimization. 2022: how convex and how smooth
the cost (4) after u personal steps is, which step sizes its theorems use, and how late news can be.

| PARS-Push | code |
| --- | --- |
| Assumption 2 | `Constants` |
| Assumption 1, Gamma_e and Gamma_s | `effective_delay`, `contact_period` |
| Lemma 1 | `admissible_step_size`, `meta_convexity`, `meta_smoothness`, `check_personal_step` |
| Lemma 2 | `meta_variance` |
| Lemma 3 | `nonconvex_smoothness`, `nonconvex_variance` |
| Proposition 1, Theorem 1 | `convex_step_size`, `nonconvex_step_size` |

K. Ozkara, N. Singh, D. Data, S. Diggavi. QuPeL. 2021: which steps make its objective fall.

| QuPeL | code |
| --- | --- |
| A.4, A.5; Claims 1, 2 for the soft quantizer of Sec. 2.2 | `Staircase`, `staircase` |
| Theorem 1; Theorem 2 (`lambda_p`) | `weights_step_size`, `levels_step_size` |
| Theorem 2, eta3 | `shared_step_size` |

Deviations: Lemma 1 prints eps1^(-1/(2u)), which makes every alpha negative; the proof needs (1 - alpha L)^(2u) >= eps1,
hence the exponent +1/(2u). Its proof bounds Q_u in (45) but uses Q_{u-1}, as it must; the recursion (39) holds with the
exponent 2r and not 2u - 2, which changes nothing in the end; (58) has a norm where the least singular value belongs,
which (59) then uses. Assumption 2(iv) prints an inequality that -||z||^2 satisfies too; strong convexity is meant, and
needed. With it, 2(i) fails on all of R^d, since no strongly convex function has a bounded gradient there: take G over a
region that the personal steps do not leave or, on quadratics, where H = 0 and G does not matter, infinite. The rate of
Proposition 1 must have mu-hat squared: steps of 1 / (mu t) on mu/2 z^2 end at a mean squared distance of
sigma^2 / (mu^2 T). Theorem 1's F(0) stands for F(0) - inf F. The factor 4 of Lemmas 2 and 3 is printed, not needed.
QuPeL's Theorem 1 prints eta1 = 1/2 (...) for 1 / (2 (...)), and Theorem 2 eta3 = sqrt(T) / (4 lambda_p) for
1 / (4 lambda_p sqrt(T)); the proofs use the latter. Its claims leave the constants of the soft quantizer open; ours
come from |sigma'| <= 1/4 and |sigma''| <= 1 / (6 sqrt(3)).
"""

import math
from typing import NamedTuple

from idiolect.contracts import Constants
from idiolect.errors import UserMistake


def check_lambda(lambda_: float, smoothness: float | None) -> None:
    """Refuse a lambda for which h = f + lambda/2 ||. - w||^2 need not be strongly convex (PersA-FL, Sec. 3)."""
    if smoothness is not None and lambda_ <= smoothness:
        raise UserMistake(
            f"objective.lambda is {lambda_:g}, but the Moreau envelope needs lambda > L and this problem has "
            f"L = {smoothness:.4g}"
        )


def check_personal_step(step_size: float, smoothness: float | None) -> None:
    """Refuse a personal step alpha that no eps1, eps2 of PARS-Push, Lemma 1, admit: one with alpha L >= 1.

    At 1 / L a step forgets where it started in the steepest direction, so the MAML cost need not be strongly convex.
    The L of f_i, where that of the samples is not known, refuses less.
    """
    if smoothness is not None and step_size * smoothness >= 1:
        raise UserMistake(
            f"objective.step_size is {step_size:g}, but the MAML cost is sure to be strongly convex only for "
            f"step_size < 1 / L and this problem has L = {smoothness:.4g}"
        )


def admissible_step_size(constants: Constants, steps: int, eps1: float = 0.5, eps2: float = 0.5) -> float:
    """The largest personal step alpha of PARS-Push, Lemma 1, for `steps` = u; infinite where nothing bounds it.

    With it mu-hat >= eps1 eps2 mu and L-hat <= (1 + eps1 - eps1 eps2) L: a small eps1 admits long steps, a small eps2
    rough Hessians, and either costs convexity.
    """
    for name, eps in (("eps1", eps1), ("eps2", eps2)):
        if not 0 < eps < 1:
            raise UserMistake(f"{name} is {eps}, but must lie between 0 and 1")
    _check(constants, steps)
    if steps == 0:  # the plain cost, whatever alpha
        return math.inf
    roughness = _roughness(constants) * steps
    from_hessian = constants.convexity * eps1 * (1 - eps2) / roughness if roughness else math.inf
    from_steps = (1 - eps1 ** (1 / (2 * steps))) / constants.smoothness if constants.smoothness else math.inf
    return min(from_hessian, from_steps)


def meta_convexity(constants: Constants, steps: int, step_size: float) -> float:
    """mu-hat(u), the strong convexity of the MAML cost (PARS-Push, Lemma 1); where it is negative it says nothing."""
    _check_convex(constants, steps, step_size)
    kept = (1 - step_size * constants.smoothness) ** (2 * steps)
    return constants.convexity * kept - _bending(constants, steps, step_size)


def meta_smoothness(constants: Constants, steps: int, step_size: float) -> float:
    """L-hat(u), the smoothness of the MAML cost of convex losses (PARS-Push, Lemma 1)."""
    _check_convex(constants, steps, step_size)
    kept = (1 - step_size * constants.convexity) ** (2 * steps)
    return constants.smoothness * kept + _bending(constants, steps, step_size)


def meta_variance(constants: Constants, steps: int, step_size: float) -> float:
    """sigma-hat(u)^2, which bounds the variance of the MAML gradient of convex losses (PARS-Push, Lemma 2)."""
    _check_convex(constants, steps, step_size)
    return 4 * (1 - step_size * constants.convexity) ** (2 * steps) * constants.gradient_bound**2


def nonconvex_smoothness(constants: Constants, steps: int, step_size: float) -> float:
    """L-hat(u), the smoothness of the MAML cost of any losses, for any step size (PARS-Push, Lemma 3)."""
    _check(constants, steps, step_size)
    bend = step_size * steps * _roughness(constants) if step_size * steps else 0.0
    return (constants.smoothness + bend) * (1 + step_size * constants.smoothness) ** (2 * steps)


def nonconvex_variance(constants: Constants, steps: int, step_size: float) -> float:
    """sigma-hat(u)^2, which bounds the variance of the MAML gradient of any losses (PARS-Push, Lemma 3)."""
    _check(constants, steps, step_size)
    return 4 * (1 + step_size * constants.smoothness) ** (2 * steps) * constants.gradient_bound**2


def convex_step_size(meta_convexity: float, round: int) -> float:
    """The step size theta(t) = 1 / (mu-hat t) of round t, and 0 in round 0 (PARS-Push, Proposition 1)."""
    _positive("meta_convexity", meta_convexity)
    _at_least("round", round, 0)
    return 1 / (meta_convexity * round) if round else 0.0


def nonconvex_step_size(meta_smoothness: float, agents: int, rounds: int) -> float:
    """The same theta = sqrt(n) / (L-hat sqrt(T)) in every round (PARS-Push, Theorem 1)."""
    _positive("meta_smoothness", meta_smoothness)
    _at_least("agents", agents, 1)
    if rounds < agents:  # so that theta <= 1 / L-hat
        raise UserMistake(f"rounds is {rounds}, but must be at least the number of agents, which is {agents}")
    return math.sqrt(agents / rounds) / meta_smoothness


def effective_delay(gamma_w: int, gamma_d: int) -> int:
    """Gamma_e, the most rounds from sending to use: the delay, then sleep (PARS-Push, under Assumption 1)."""
    _at_least("gamma_w", gamma_w, 1)
    _at_least("gamma_d", gamma_d, 1)
    return gamma_w + gamma_d - 1


def contact_period(gamma_w: int, gamma_d: int, gamma_f: int) -> int:
    """Gamma_s, within which an agent hears from every in-neighbour (PARS-Push, under Assumption 1)."""
    _at_least("gamma_f", gamma_f, 0)
    return gamma_w * (gamma_f + 1) + effective_delay(gamma_w, gamma_d)


class Staircase(NamedTuple):
    """Bounds on the soft quantizer: Lipschitz (l), smoothness (L) and gradient (G), in weights (1) and levels (2)."""

    l1: float
    smooth1: float
    bound1: float
    l2: float
    smooth2: float
    bound2: float


def staircase(sharpness: float, widest_gap: float, span: float, levels: int, weights: int) -> Staircase:
    """The constants of QuPeL's soft quantizer with P = `sharpness`, wherever levels are no further apart than told.

    `span` is from the lowest to the highest level, `widest_gap` between two neighbours.
    """
    _positive("sharpness", sharpness)
    _at_least("levels", levels, 2)
    _at_least("weights", weights, 1)
    curve = 1 / (6 * math.sqrt(3))  # the largest second derivative of the sigmoid
    slope = sharpness * span / 4
    in_levels = math.sqrt(weights * levels) * (1 + sharpness * widest_gap / 4)
    bend = math.sqrt(weights) * (sharpness / 2 + widest_gap * sharpness**2 * curve)
    return Staircase(slope, sharpness**2 * span * curve, math.sqrt(weights) * slope, in_levels, bend, in_levels)


def weights_step_size(constants: Constants, stairs: Staircase, lambda_p: float = 0.0) -> float:
    """eta1 = 1 / (2 (2 lambda_p + L + G L_Q1 + G_Q1 L l_Q1)): QuPeL, Theorem 1 (`lambda_p = 0`) and Theorem 2."""
    rounded = constants.gradient_bound * stairs.smooth1 + stairs.bound1 * constants.smoothness * stairs.l1
    return 1 / (2 * (2 * lambda_p + constants.smoothness + rounded))


def levels_step_size(constants: Constants, stairs: Staircase) -> float:
    """eta2 = 1 / (2 (G L_Q2 + G_Q2 L l_Q2)): QuPeL, Theorems 1 and 2."""
    return 1 / (2 * (constants.gradient_bound * stairs.smooth2 + stairs.bound2 * constants.smoothness * stairs.l2))


def shared_step_size(lambda_p: float, iterations: int) -> float:
    """eta3 = 1 / (4 lambda_p sqrt(T)): QuPeL, Theorem 2."""
    _positive("lambda_p", lambda_p)
    _at_least("iterations", iterations, 1)
    return 1 / (4 * lambda_p * math.sqrt(iterations))


def _roughness(constants: Constants) -> float:
    """G H, which is 0 on quadratics even though their gradients are not bounded."""
    return constants.gradient_bound * constants.hessian_lipschitz if constants.hessian_lipschitz else 0.0


def _bending(constants: Constants, steps: int, step_size: float) -> float:
    """G times the bound (45) on Q_{u-1}: how much the product of the (I - alpha Hessian) changes with its argument."""
    if steps == 0 or step_size == 0:
        return 0.0
    return step_size * steps * _roughness(constants) * (1 - step_size * constants.convexity) ** (steps - 1)


def _check_convex(constants: Constants, steps: int, step_size: float) -> None:
    _check(constants, steps, step_size)
    check_personal_step(step_size, constants.smoothness)


def _check(constants: Constants, steps: int, step_size: float = 0.0) -> None:
    for name, value in constants._asdict().items():
        _at_least(f"constants.{name}", value, 0)
    if constants.convexity > constants.smoothness:
        raise UserMistake(
            f"constants.convexity is {constants.convexity}, above constants.smoothness, which is {constants.smoothness}"
        )
    _at_least("steps", steps, 0)
    _at_least("step_size", step_size, 0)


def _at_least(name: str, value: float, least: int) -> None:
    if not value >= least:
        raise UserMistake(f"{name} is {value}, but must be at least {least}")


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise UserMistake(f"{name} is {value}, but must be positive")
