"""How fast Moreau-envelope meta-reinforcement learning becomes stationary: what bounds it, and with which steps.

M. T. Toghani, S. Perez-Salazar, C. A. Uribe. On first-order meta-reinforcement learning with Moreau envelopes (MEMRL).
2023, as in the seminar: "Convergence result".

| MEMRL | code |
| --- | --- |
| Lemma 1: G^, L^ of J_i | `return_constants` |
| Lemma 2: G^, L~ = lambda / (kappa - 1) of V_i, with kappa = lambda / L^ | `envelope_constants` |
| Theorem 1: alpha, T >= 4 L~^2 | `policy_step_size` |
| Theorem 1: the bound on (1/T) sum_t E ||grad V(w^t)||^2 | `policy_bound` |

Deviations. The seminar prints neither Assumption 1 nor Lemma 1. Here the scores grad log pi are bounded by G and their
derivatives by L, rewards lie in [0, R]; then what is earned from step h on is at most gamma^h R / (1 - gamma), whence
G^ = G R / (1 - gamma)^2, and differentiating E[g_i] once more gives L^ = (L + H G^2) R / (1 - gamma)^2.

Theorem 1 prints the constant alpha = 1 / (4 L~) with a rate of 1 / sqrt(T). It cannot give it: with one task drawn at a
time the iterates go on jumping, by as much as ever, and the mean gradient norm stays above a floor. Its first term,
8 R / ((1 - gamma) sqrt(T)), is 4 (V* - V(w^0)) / (alpha T) for alpha = 1 / (2 sqrt(T)), and T >= 4 L~^2 is what makes
that at most 1 / (4 L~). So this is the step, and `theorem="printed"` the bound as it stands, whose last term still has
an alpha. Repaired, the bound is the one that the usual argument gives for any alpha <= 1 / (4 L~),

    4 (V* - V(w^0)) / (alpha T) + 2 eps^2 + 4 alpha L~ (G^^2 / B + eps^2),

where eps = lambda / (lambda - L^) (nu + G^ / sqrt(D)) bounds lambda (theta~ - theta^), by strong concavity. The printed
theorem has neither the factor 2 nor D in the term that stays: it takes the trajectories on which line 6 stops for
unbiased at the theta at which they stopped it, as PersA-FL's Lemma 6 does.
"""

import math
from typing import Literal, NamedTuple

from idiolect.contracts.constants import Constants
from idiolect.errors import UserMistake
from idiolect.theory.checks import at_least, check_constants, positive


class PolicyBound(NamedTuple):
    """A bound on the mean squared gradient norm of V, by where it comes from."""

    start: float  # how far below the best the first policy is
    tasks: float  # few of them in an iteration
    inner: float  # what line 6 leaves open: stays, however long it runs
    wandering: float  # the same, as far as shorter steps help

    @property
    def total(self) -> float:
        """The bound itself."""
        return sum(self)


class PolicyRun(NamedTuple):
    """What the theorem asks of a run: T, B, D, nu, and V* - V(w^0), which is at most R / (1 - gamma)."""

    steps: int
    tasks: int
    trajectories: int
    accuracy: float
    gap: float


def return_constants(
    *, score_bound: float, score_smoothness: float, reward: float, discount: float, horizon: int
) -> Constants:
    """G^ and L^ of the expected return J_i of a policy (Lemma 1).

    Args:
        score_bound: G, the longest gradient of log pi(a | s; w).
        score_smoothness: L, its largest second derivative.
        reward: R, the most that a step earns; none earns less than 0.
        discount: gamma, below 1.
        horizon: H, the steps of an episode.

    Returns:
        L^ as `smoothness` and G^ as `gradient_bound`; nothing here is convex.

    Example:
        >>> from idiolect.theory import return_constants
        >>> found = return_constants(score_bound=1.0, score_smoothness=0.25, reward=1.0, discount=0.0, horizon=1)
        >>> found.smoothness, found.gradient_bound
        (1.25, 1.0)
    """
    at_least("score_bound", score_bound, 0)
    at_least("score_smoothness", score_smoothness, 0)
    at_least("reward", reward, 0)
    at_least("horizon", horizon, 1)
    if not 0 <= discount < 1:
        raise UserMistake(f"discount is {discount}, but must be at least 0 and below 1")
    earned = reward / (1 - discount) ** 2  # sum_h gamma^h R / (1 - gamma)
    return Constants(0.0, (score_smoothness + horizon * score_bound**2) * earned, score_bound * earned)


def envelope_constants(constants: Constants, lambda_: float) -> Constants:
    """G^ and L~ of V_i, the Moreau envelope of J_i (Lemma 2).

    Args:
        constants: L^ and G^ of J_i.
        lambda_: Of the envelope, above L^.

    Returns:
        L~ as `smoothness`, and the same G^.

    Example:
        >>> from idiolect.theory import Constants, envelope_constants
        >>> envelope_constants(Constants(0.0, 2.0, 3.0), lambda_=10.0).smoothness
        2.5
    """
    check_constants(constants)
    _check_lambda(constants, lambda_)
    if constants.smoothness == 0:
        return constants._replace(convexity=0.0)
    kappa = lambda_ / constants.smoothness
    return Constants(0.0, lambda_ / (kappa - 1), constants.gradient_bound)  # Lemma 2


def policy_step_size(constants: Constants, lambda_: float, steps: int) -> float:
    """Alpha = 1 / (2 sqrt(T)), with which Theorem 1 has its rate; the printed 1 / (4 L~) is its value at the least T.

    Args:
        constants: L^ and G^ of J_i.
        lambda_: Of the envelope, above L^.
        steps: T, at least 4 L~^2.

    Returns:
        alpha.

    Example:
        >>> from idiolect.theory import Constants, policy_step_size
        >>> policy_step_size(Constants(0.0, 2.0, 3.0), lambda_=10.0, steps=100)
        0.05
    """
    smoothness = envelope_constants(constants, lambda_).smoothness
    at_least("steps", steps, 1)
    if not steps >= 4 * smoothness**2:
        raise UserMistake(f"steps is {steps}, but Theorem 1 needs at least {math.ceil(4 * smoothness**2)}")
    return 1 / (2 * math.sqrt(steps))


def policy_bound(
    constants: Constants,
    run: PolicyRun,
    *,
    lambda_: float,
    step_size: float | None = None,
    theorem: Literal["repaired", "printed"] = "repaired",
) -> PolicyBound:
    """Theorem 1: MEMRL's mean squared gradient norm of V over its first T policies.

    Args:
        constants: L^ and G^ of J_i, which must be finite.
        run: T, B, D, nu and how far below the best it starts.
        lambda_: Of the envelope, above L^.
        step_size: alpha, at most 1 / (4 L~); by default `policy_step_size`.
        theorem: "printed" leaves out what the repaired one adds, and holds for no alpha in general (see Deviations).

    Returns:
        The bound, by where it comes from.

    Example:
        >>> from idiolect.theory import Constants, PolicyRun, policy_bound
        >>> run = PolicyRun(steps=10_000, tasks=4, trajectories=100, accuracy=0.0, gap=1.0)
        >>> round(policy_bound(Constants(0.0, 2.0, 3.0), run, lambda_=10.0).start, 6)
        0.08
    """
    _check_run(run)
    steepest, smoothness = constants.gradient_bound, envelope_constants(constants, lambda_).smoothness
    alpha = policy_step_size(constants, lambda_, run.steps) if step_size is None else step_size
    positive("step_size", alpha)
    if not alpha * smoothness <= 0.25 * (1 + 1e-9):
        raise UserMistake(f"step_size is {alpha:g}, but Theorem 1 needs at most {0.25 / smoothness:.4g}, 1 / (4 L~)")
    stretch = (lambda_ / (lambda_ - constants.smoothness)) ** 2
    if theorem == "printed":
        root = math.sqrt(run.steps)
        left = 8 * smoothness * stretch / (run.tasks * root)
        return PolicyBound(
            start=8 * run.gap / root,
            tasks=8 * smoothness * steepest**2 / (run.tasks * root),
            inner=stretch * run.accuracy**2,
            wandering=left * (run.accuracy**2 + alpha * steepest**2 / run.trajectories),
        )
    off = stretch * (run.accuracy + steepest / math.sqrt(run.trajectories)) ** 2  # eps^2
    return PolicyBound(
        start=4 * run.gap / (alpha * run.steps),
        tasks=4 * alpha * smoothness * steepest**2 / run.tasks,
        inner=2 * off,
        wandering=4 * alpha * smoothness * off,
    )


def _check_run(run: PolicyRun) -> None:
    for name, least in (("steps", 1), ("tasks", 1), ("trajectories", 1), ("accuracy", 0), ("gap", 0)):
        at_least(name, getattr(run, name), least)


def _check_lambda(constants: Constants, lambda_: float) -> None:
    if not lambda_ > constants.smoothness:
        raise UserMistake(
            f"lambda is {lambda_:g}, but MEMRL's Lemma 2 and Theorem 1 need more than L^, {constants.smoothness:.4g}"
        )
