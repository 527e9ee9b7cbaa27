"""Which step sizes a cost after u personal steps admits, and what becomes of its constants.

M. T. Toghani, S. Lee, C. A. Uribe. PARS-Push: personalized, asynchronous and robust decentralized optimization. 2022:
how convex and how smooth the cost (4) is, which step sizes its theorems use, and how late news can be.

| PARS-Push | code |
| --- | --- |
| Assumption 2 | `Constants` |
| Assumption 1, Gamma_e and Gamma_s | `effective_delay`, `contact_period` |
| Lemma 1 | `admissible_step_size`, `meta_convexity`, `meta_smoothness`, `check_personal_step` |
| Lemma 2 | `meta_variance` |
| Lemma 3 | `nonconvex_smoothness`, `nonconvex_variance` |
| Proposition 1, Theorem 1 | `convex_step_size`, `nonconvex_step_size` |
| Lemma 5 | `pars_push_consensus` |

Deviations: Lemma 1 prints eps1^(-1/(2u)), which makes every alpha negative; the proof needs (1 - alpha L)^(2u) >= eps1,
hence the exponent +1/(2u). Its proof bounds Q_u in (45) but uses Q_{u-1}, as it must; the recursion (39) holds with the
exponent 2r and not 2u - 2, which changes nothing in the end; (58) has a norm where the least singular value belongs,
which (59) then uses. Assumption 2(iv) prints an inequality that -||z||^2 satisfies too; strong convexity is meant, and
needed. With it, 2(i) fails on all of R^d, since no strongly convex function has a bounded gradient there: take G over a
region that the personal steps do not leave or, on quadratics, where H = 0 and G does not matter, infinite. The rate of
Proposition 1 must have mu-hat squared: steps of 1 / (mu t) on mu/2 z^2 end at a mean squared distance of
sigma^2 / (mu^2 T). Theorem 1's F(0) stands for F(0) - inf F. The factor 4 of Lemmas 2 and 3 is printed, not needed.
"""

import math

from idiolect.contracts.constants import Constants
from idiolect.errors import UserMistake
from idiolect.theory.checks import at_least, check_constants, check_personal_step, positive


def admissible_step_size(constants: Constants, steps: int, eps1: float = 0.5, eps2: float = 0.5) -> float:
    """The largest personal step alpha of PARS-Push, Lemma 1, for `steps` = u; infinite where nothing bounds it.

    With it mu-hat >= eps1 eps2 mu and L-hat <= (1 + eps1 - eps1 eps2) L: a small eps1 admits long steps, a small eps2
    rough Hessians, and either costs convexity.

    Args:
        constants: Of the loss on every sample.
        steps: u.
        eps1: Between 0 and 1; how much convexity the steps may cost.
        eps2: Between 0 and 1; how much rough Hessians may cost.

    Returns:
        The bound on alpha.

    Example:
        >>> from idiolect.theory import Constants, admissible_step_size
        >>> round(admissible_step_size(Constants(0.5, 2.0), steps=1), 4)
        0.1464
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
    """mu-hat(u), the strong convexity of the MAML cost (PARS-Push, Lemma 1); where it is negative it says nothing.

    Args:
        constants: Of the loss on every sample.
        steps: u.
        step_size: alpha.

    Returns:
        mu-hat(u).

    Example:
        >>> from idiolect.theory import Constants, meta_convexity
        >>> meta_convexity(Constants(0.5, 2.0), steps=1, step_size=0.25)
        0.125
    """
    _check_convex(constants, steps, step_size)
    kept = (1 - step_size * constants.smoothness) ** (2 * steps)
    return constants.convexity * kept - _bending(constants, steps, step_size)


def meta_smoothness(constants: Constants, steps: int, step_size: float) -> float:
    """L-hat(u), the smoothness of the MAML cost of convex losses (PARS-Push, Lemma 1).

    Args:
        constants: Of the loss on every sample.
        steps: u.
        step_size: alpha.

    Returns:
        L-hat(u).

    Example:
        >>> from idiolect.theory import Constants, meta_smoothness
        >>> meta_smoothness(Constants(1.0, 2.0), steps=1, step_size=0.25)
        1.125
    """
    _check_convex(constants, steps, step_size)
    kept = (1 - step_size * constants.convexity) ** (2 * steps)
    return constants.smoothness * kept + _bending(constants, steps, step_size)


def meta_variance(constants: Constants, steps: int, step_size: float) -> float:
    """sigma-hat(u)^2, which bounds the variance of the MAML gradient of convex losses (PARS-Push, Lemma 2).

    Args:
        constants: Of the loss on every sample; its gradient must be bounded.
        steps: u.
        step_size: alpha.

    Returns:
        sigma-hat(u)^2.

    Example:
        >>> from idiolect.theory import Constants, meta_variance
        >>> meta_variance(Constants(1.0, 2.0, gradient_bound=1.0), steps=1, step_size=0.25)
        2.25
    """
    _check_convex(constants, steps, step_size)
    return 4 * (1 - step_size * constants.convexity) ** (2 * steps) * constants.gradient_bound**2


def nonconvex_smoothness(constants: Constants, steps: int, step_size: float) -> float:
    """L-hat(u), the smoothness of the MAML cost of any losses, for any step size (PARS-Push, Lemma 3).

    Args:
        constants: Of the loss on every sample.
        steps: u.
        step_size: alpha.

    Returns:
        L-hat(u).

    Example:
        >>> from idiolect.theory import Constants, nonconvex_smoothness
        >>> nonconvex_smoothness(Constants(0.0, 2.0), steps=1, step_size=0.25)
        4.5
    """
    _check(constants, steps, step_size)
    bend = step_size * steps * _roughness(constants) if step_size * steps else 0.0
    return (constants.smoothness + bend) * (1 + step_size * constants.smoothness) ** (2 * steps)


def nonconvex_variance(constants: Constants, steps: int, step_size: float) -> float:
    """sigma-hat(u)^2, which bounds the variance of the MAML gradient of any losses (PARS-Push, Lemma 3).

    Args:
        constants: Of the loss on every sample; its gradient must be bounded.
        steps: u.
        step_size: alpha.

    Returns:
        sigma-hat(u)^2.

    Example:
        >>> from idiolect.theory import Constants, nonconvex_variance
        >>> nonconvex_variance(Constants(0.0, 2.0, gradient_bound=1.0), steps=1, step_size=0.25)
        9.0
    """
    _check(constants, steps, step_size)
    return 4 * (1 + step_size * constants.smoothness) ** (2 * steps) * constants.gradient_bound**2


def convex_step_size(meta_convexity: float, round: int) -> float:
    """The step size theta(t) = 1 / (mu-hat t) of round t, and 0 in round 0 (PARS-Push, Proposition 1).

    Args:
        meta_convexity: mu-hat.
        round: t.

    Returns:
        theta(t).

    Example:
        >>> from idiolect.theory import convex_step_size
        >>> convex_step_size(0.5, round=4)
        0.5
    """
    positive("meta_convexity", meta_convexity)
    at_least("round", round, 0)
    return 1 / (meta_convexity * round) if round else 0.0


def nonconvex_step_size(meta_smoothness: float, agents: int, rounds: int) -> float:
    """The same theta = sqrt(n) / (L-hat sqrt(T)) in every round (PARS-Push, Theorem 1).

    Args:
        meta_smoothness: L-hat.
        agents: n.
        rounds: T, at least n.

    Returns:
        theta.

    Example:
        >>> from idiolect.theory import nonconvex_step_size
        >>> nonconvex_step_size(2.0, agents=4, rounds=16)
        0.25
    """
    positive("meta_smoothness", meta_smoothness)
    at_least("agents", agents, 1)
    if rounds < agents:  # so that theta <= 1 / L-hat
        raise UserMistake(f"rounds is {rounds}, but must be at least the number of agents, which is {agents}")
    return math.sqrt(agents / rounds) / meta_smoothness


def effective_delay(gamma_w: int, gamma_d: int) -> int:
    """Gamma_e, the most rounds from sending to use: the delay, then sleep (PARS-Push, under Assumption 1).

    Args:
        gamma_w: Within so many rounds every agent wakes.
        gamma_d: The most rounds that a message is under way.

    Returns:
        Gamma_e.

    Example:
        >>> from idiolect.theory import effective_delay
        >>> effective_delay(gamma_w=2, gamma_d=3)
        4
    """
    at_least("gamma_w", gamma_w, 1)
    at_least("gamma_d", gamma_d, 1)
    return gamma_w + gamma_d - 1


def contact_period(gamma_w: int, gamma_d: int, gamma_f: int) -> int:
    """Gamma_s, within which an agent hears from every in-neighbour (PARS-Push, under Assumption 1).

    Args:
        gamma_w: Within so many rounds every agent wakes.
        gamma_d: The most rounds that a message is under way.
        gamma_f: The most failures of a link in a row.

    Returns:
        Gamma_s.

    Example:
        >>> from idiolect.theory import contact_period
        >>> contact_period(gamma_w=2, gamma_d=3, gamma_f=1)
        8
    """
    at_least("gamma_f", gamma_f, 0)
    return gamma_w * (gamma_f + 1) + effective_delay(gamma_w, gamma_d)


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
    check_constants(constants)
    at_least("steps", steps, 0)
    at_least("step_size", step_size, 0)
