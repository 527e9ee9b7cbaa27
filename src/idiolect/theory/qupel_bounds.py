"""How near QuPeL comes to a stationary point, by its Theorem 2.

K. Ozkara, N. Singh, D. Data, S. Diggavi. QuPeL: quantized personalization. 2021.

| QuPeL | code |
| --- | --- |
| A.6: kappa_i, and kappa as their mean | `diversity` |
| Lemma 1: how far the clients' copies of w drift apart | `quantized_drift_bound` |
| Corollary 1: how far their gradients in w do | `disagreement_bound` |
| Theorem 2, Appendix C.3 | `qupel_bound` |

In w, F_i is lambda_p / 2 |x_i - w|^2, so its gradient is lambda_p (w - x_i), and A.6 is about the personal models
alone: kappa_i bounds lambda_p^2 |x_i - mean of all x|^2, whatever w is. It is not a constant of the data: it grows with
lambda_p^2, and with how far clients stray from each other.

Deviations, all of them misprints: Lemma 1 has a norm that is not squared. Theorem 2's bound prints 54 tau kappa for
54 tau^2 kappa, 108 for 108 kappa, 378 tau^2 kappa for 94.5 tau^2 kappa (Appendix C.3 has 21/4 for 21/16) and
3/4 tau^2 kappa^2 for 3/4 tau^2 kappa; G_i^t repeats its first part where those in c and w belong.
The numbers here follow from (36), which a test puts in.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idiolect.contracts.constants import Constants
from idiolect.errors import UserMistake
from idiolect.theory.checks import at_least, positive
from idiolect.theory.qupel import Staircase


class StationaryBound(NamedTuple):
    """Theorem 2's bound on the mean of |G_i^t|^2 over iterations and clients, term by term."""

    root: float  # falls like 1 / sqrt(T)
    linear: float  # like 1 / T
    fast: float  # like 1 / T^(3/2)
    floor: float  # stays, for clients that differ

    @property
    def total(self) -> float:
        """The bound."""
        return sum(self)


def diversity(personal: Sequence[np.ndarray], lambda_p: float) -> np.ndarray:
    """The kappa_i of A.6 that some personal models ask for: lambda_p^2 |x_i - mean|^2; their mean is kappa.

    Args:
        personal: Every client's x, flat, after the same iteration; for a run, the largest kappa over iterations counts.
        lambda_p: The pull to the shared model.

    Returns:
        One number for each client.

    Example:
        >>> import numpy as np
        >>> from idiolect.theory import diversity
        >>> diversity([np.array([1.0, 0.0]), np.array([-1.0, 0.0])], lambda_p=0.5).tolist()
        [0.25, 0.25]
    """
    positive("lambda_p", lambda_p)
    models = np.stack([np.ravel(model) for model in personal])
    apart: np.ndarray = lambda_p**2 * ((models - models.mean(0)) ** 2).sum(1)
    return apart


def quantized_drift_bound(kappa: float, lambda_p: float, step_size: float, tau: int) -> float:
    """Lemma 1: the mean of |w^t - w_i^t|^2 over iterations and clients is at most 6 tau^2 eta3^2 kappa.

    Args:
        kappa: Of A.6.
        lambda_p: The pull to the shared model.
        step_size: eta3, at most 1 / (sqrt(12) lambda_p tau).
        tau: Iterations from one synchronization to the next.

    Returns:
        The bound.

    Example:
        >>> from idiolect.theory import quantized_drift_bound
        >>> round(quantized_drift_bound(kappa=1.0, lambda_p=0.5, step_size=0.05, tau=10), 3)
        1.5
    """
    _check(kappa, lambda_p, tau)
    positive("step_size", step_size)
    if 12 * (tau * step_size * lambda_p) ** 2 > 1 + 1e-9:
        largest = 1 / (np.sqrt(12) * lambda_p * tau)
        raise UserMistake(f"step_size is {step_size:g}, but Lemma 1 asks for at most {largest:.4g} with tau = {tau}")
    return 6 * tau**2 * step_size**2 * kappa


def disagreement_bound(kappa: float, lambda_p: float, step_size: float, tau: int) -> float:
    """Corollary 1: the mean of |g^t - grad_w F_i(w_i^t)|^2 is at most 36 lambda_p^2 tau^2 eta3^2 kappa + 3 kappa.

    Args:
        kappa: Of A.6.
        lambda_p: The pull to the shared model.
        step_size: eta3, as in Lemma 1.
        tau: Iterations from one synchronization to the next.

    Returns:
        The bound.

    Example:
        >>> from idiolect.theory import disagreement_bound
        >>> round(disagreement_bound(kappa=1.0, lambda_p=0.5, step_size=0.05, tau=10), 3)
        5.25
    """
    return 6 * lambda_p**2 * quantized_drift_bound(kappa, lambda_p, step_size, tau) + 3 * kappa


def qupel_bound(
    constants: Constants, stairs: Staircase, *, lambda_p: float, kappa: float, tau: int, iterations: int, fall: float
) -> StationaryBound:
    """Theorem 2's bound with its own step sizes, eta3 = 1 / (4 lambda_p sqrt(T)) among them.

    Args:
        constants: Of the loss; its gradient must be bounded.
        stairs: Of the soft quantizer.
        lambda_p: The pull to the shared model.
        kappa: Of A.6.
        tau: Iterations from one synchronization to the next, at most sqrt(T).
        iterations: T.
        fall: Delta_F, from the mean of the F_i at the start to that at the end.

    Returns:
        The bound, term by term.

    Example:
        >>> from idiolect.theory import Constants, qupel_bound, staircase
        >>> stairs = staircase(sharpness=1.0, widest_gap=1.0, span=1.0, levels=2, weights=4)
        >>> known = {"lambda_p": 0.1, "tau": 10, "iterations": 400, "fall": 1.0}
        >>> qupel_bound(Constants(0.0, 1.0, 1.0), stairs, kappa=0.0, **known).floor
        0.0
    """
    _check(kappa, lambda_p, tau)
    at_least("iterations", iterations, tau**2)  # tau <= sqrt(T)
    largest = _largest(constants, stairs, lambda_p)
    root, squared = np.sqrt(iterations), largest**2
    return StationaryBound(
        float(squared * (54 * tau**2 * kappa + 108 * kappa + 288 * lambda_p * fall) / root),
        (189 * squared + 3 / 4) * tau**2 * kappa / iterations,
        float(94.5 * squared * tau**2 * kappa / root**3),
        216 * squared * kappa,
    )


def _largest(constants: Constants, stairs: Staircase, lambda_p: float) -> float:
    """Theorem 2's L_max; what is printed as L_Q there is the l_Q of A.4, as in the step sizes."""
    smooth, bound = constants.smoothness, constants.gradient_bound
    in_weights = 5 / 3 * lambda_p + smooth + bound * stairs.smooth1 + stairs.bound1 * smooth * stairs.l1
    return max(1.0, bound * stairs.smooth2 + stairs.bound2 * smooth * stairs.l2, in_weights)


def _check(kappa: float, lambda_p: float, tau: int) -> None:
    at_least("kappa", kappa, 0)
    positive("lambda_p", lambda_p)
    at_least("tau", tau, 1)
