"""How far Per-FedAvg's clients drift apart within a round, and how fast its gradient vanishes.

A. Fallah, A. Mokhtari, A. Ozdaglar. Personalized federated learning: a meta-learning approach. 2020, Theorem 4.5 and
Appendices E, F.

| Per-FedAvg | code |
| --- | --- |
| Theorem 4.5: beta <= 1 / (10 tau L_F) | `meta_step_size` |
| Prop. E.1 (59a, b) | `drift_bound` |
| Cor. E.2 (60a, b) | `short_drift_bound` |
| Theorem 4.5 | `per_fedavg_bound` |

Theorem 4.5 bounds (1 / (tau K)) sum_k sum_t E ||grad F||^2 over the averages of the active clients' models, before each
of their local steps. Remark 4.6: if one such average is drawn from every round, the mean over draws is the mean over
t, so that (1 / K) sum_k has this bound, and not just the printed (1 / (tau K)) sum_k, which is tau times smaller.

Deviations. Theorem 4.5 and Prop. E.1 ask for Assumptions 1-4, but gamma_F is Lemma 4.4's, which needs Assumption 5.
(101) takes E[grad F(w')^T S(w')] for E ||grad F(w')||^2, where S is the mean gradient of the active clients and w' the
average of their models. After a local step w' depends on who is active, and unless everybody is, the equation fails:
with f_i = (w +- 1)^2 / 2 and one of two clients active, its left side is negative. The theorem stands. Let w be the
average of all clients' models, active or not, which does not depend on who is active. Then S(w) = grad F(w) + N, where
N has mean zero and E ||N||^2 <= gamma_F^2 / (rn), and V = grad F(w) - grad F(w') has E ||V||^2 <= (2 sigma_F^2 +
gamma_F^2) / (rn) by (97). So E[grad F(w')^T N] = -E[V^T N]; and with the X and Y of (87), (88), the mean of the active
clients' estimates is X + Y + V + N + grad F(w'). In place of (108), F falls by beta/4 E ||grad F(w')||^2 in a step, but
for beta (10.5 sigma_F^2 + 5.2 gamma_F^2), which is less than the 15 beta (sigma_F^2 + gamma_F^2) of the theorem.

The text after the theorem tells a rate of 1 / (tau K). With the largest beta that the theorem admits its first term is
40 L_F (F(w_0) - F*) / K: what tau gives, beta takes back.
"""

import math
from typing import NamedTuple

from idiolect.errors import UserMistake
from idiolect.theory.checks import at_least, positive
from idiolect.theory.per_fedavg import MetaCost


class Rounds(NamedTuple):
    """What Theorem 4.5 asks of a run: tau, K, beta and F(w_0) - F*."""

    local_steps: int
    rounds: int
    step_size: float
    gap: float


class MetaBound(NamedTuple):
    """A bound on the mean squared gradient norm, by where it comes from."""

    start: float  # how far above the infimum the first model is: 1 / (beta tau K)
    noise: float  # batches, and what the estimate leaves out: stays, however long it runs
    diversity: float  # clients that differ: stays, too

    @property
    def total(self) -> float:
        """The bound itself."""
        return sum(self)


class Drift(NamedTuple):
    """Bounds on how far clients' models are from their average, as means over all clients, active or not."""

    distance: float  # (59a), (60a)
    square: float  # of the squared distances: (59b), (60b)


def meta_step_size(cost: MetaCost, local_steps: int) -> float:
    """The largest beta that Theorem 4.5 and Corollary E.2 admit: 1 / (10 tau L_F).

    Args:
        cost: Its smoothness is L_F.
        local_steps: tau.

    Returns:
        beta.

    Example:
        >>> from idiolect.theory import MetaCost, meta_step_size
        >>> meta_step_size(MetaCost(2.0, 1.0, 1.0), local_steps=5)
        0.01
    """
    positive("smoothness", cost.smoothness)
    at_least("local_steps", local_steps, 1)
    return 1 / (10 * local_steps * cost.smoothness)


def drift_bound(cost: MetaCost, *, step_size: float, steps: int, phi: float | None = None) -> Drift:
    """Proposition E.1: how far clients are apart after some local steps of any size.

    Args:
        cost: L_F, sigma_F and gamma_F.
        step_size: beta.
        steps: t, of local steps taken.
        phi: Any positive number; by default 1 / (2 t), as in the proof of Corollary E.2.

    Returns:
        (59a) and (59b).

    Example:
        >>> from idiolect.theory import MetaCost, drift_bound
        >>> drift_bound(MetaCost(2.0, 1.0, 1.0), step_size=0.25, steps=1).distance
        2.0
    """
    positive("smoothness", cost.smoothness)
    at_least("step_size", step_size, 0)
    at_least("steps", steps, 1)
    phi = 1 / (2 * steps) if phi is None else phi
    positive("phi", phi)
    reach = step_size * cost.smoothness
    growth = 1 + phi + 16 * (1 + 1 / phi) * reach**2
    return Drift(
        (1 + 2 * reach) ** steps * (cost.noise + cost.diversity) / cost.smoothness,
        growth**steps * (2 * cost.noise**2 + cost.diversity**2) / (4 * cost.smoothness**2),
    )


def short_drift_bound(cost: MetaCost) -> Drift:
    """Corollary E.2: how far clients are apart at any time of a round whose beta is at most 1 / (10 tau L_F).

    Args:
        cost: L_F, sigma_F and gamma_F.

    Returns:
        (60a) and (60b).

    Example:
        >>> from idiolect.theory import MetaCost, short_drift_bound
        >>> short_drift_bound(MetaCost(2.0, 1.0, 1.0))
        Drift(distance=2.0, square=0.75)
    """
    positive("smoothness", cost.smoothness)
    square = (2 * cost.noise**2 + cost.diversity**2) / cost.smoothness**2
    return Drift(2 * (cost.noise + cost.diversity) / cost.smoothness, square)


def per_fedavg_bound(cost: MetaCost, run: Rounds) -> MetaBound:
    """Theorem 4.5: what the mean squared gradient norm of Per-FedAvg is at most.

    Args:
        cost: L_F, gamma_F, and sigma_F of the estimate that clients use.
        run: tau, K, beta and how far above the infimum it starts.

    Returns:
        The bound, by where it comes from.

    Example:
        >>> from idiolect.theory import MetaCost, Rounds, per_fedavg_bound
        >>> run = Rounds(local_steps=2, rounds=100, step_size=0.01, gap=0.5)
        >>> per_fedavg_bound(MetaCost(5.0, 0.1, 0.0), run).start
        1.0
    """
    at_least("rounds", run.rounds, 1)
    at_least("gap", run.gap, 0)
    positive("step_size", run.step_size)
    most = meta_step_size(cost, run.local_steps)
    if run.step_size > most and not math.isclose(run.step_size, most, rel_tol=1e-6):
        raise UserMistake(
            f"step_size is {run.step_size:g}, but Theorem 4.5 needs at most 1 / (10 tau L_F), which is {most:.4g}"
        )
    start = 4 * run.gap / (run.step_size * run.local_steps * run.rounds)
    return MetaBound(start, 60 * cost.noise**2, 60 * cost.diversity**2)
