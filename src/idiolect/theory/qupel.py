"""Which steps make QuPeL's objective fall.

K. Ozkara, N. Singh, D. Data, S. Diggavi. QuPeL: quantized personalization. 2021.

| QuPeL | code |
| --- | --- |
| A.4, A.5; Claims 1, 2 for the soft quantizer of Sec. 2.2 | `Staircase`, `staircase` |
| Theorem 1; Theorem 2 (`lambda_p`) | `weights_step_size`, `levels_step_size` |
| Theorem 2, eta3 | `shared_step_size` |

Deviations: Theorem 1 prints eta1 = 1/2 (...) for 1 / (2 (...)), and Theorem 2 eta3 = sqrt(T) / (4 lambda_p) for
1 / (4 lambda_p sqrt(T)); the proofs use the latter. Its claims leave the constants of the soft quantizer open; ours
come from |sigma'| <= 1/4 and |sigma''| <= 1 / (6 sqrt(3)).
"""

import math
from typing import NamedTuple

from idiolect.contracts.constants import Constants
from idiolect.theory.checks import at_least, positive


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

    Args:
        sharpness: P.
        widest_gap: Between two neighbouring levels.
        span: From the lowest to the highest level.
        levels: How many there are.
        weights: How many are rounded to them.

    Returns:
        The constants.

    Example:
        >>> from idiolect.theory import staircase
        >>> staircase(sharpness=4.0, widest_gap=1.0, span=2.0, levels=3, weights=10).l1
        2.0
    """
    positive("sharpness", sharpness)
    at_least("levels", levels, 2)
    at_least("weights", weights, 1)
    curve = 1 / (6 * math.sqrt(3))  # the largest second derivative of the sigmoid
    slope = sharpness * span / 4
    in_levels = math.sqrt(weights * levels) * (1 + sharpness * widest_gap / 4)
    bend = math.sqrt(weights) * (sharpness / 2 + widest_gap * sharpness**2 * curve)
    return Staircase(slope, sharpness**2 * span * curve, math.sqrt(weights) * slope, in_levels, bend, in_levels)


def weights_step_size(constants: Constants, stairs: Staircase, lambda_p: float = 0.0) -> float:
    """eta1 = 1 / (2 (2 lambda_p + L + G L_Q1 + G_Q1 L l_Q1)): QuPeL, Theorem 1 (`lambda_p = 0`) and Theorem 2.

    Args:
        constants: Of the loss; its gradient must be bounded.
        stairs: Of the soft quantizer.
        lambda_p: The pull to the shared model.

    Returns:
        eta1.

    Example:
        >>> from idiolect.theory import Constants, staircase, weights_step_size
        >>> stairs = staircase(sharpness=4.0, widest_gap=1.0, span=2.0, levels=3, weights=10)
        >>> weights_step_size(Constants(0.0, 1.0, gradient_bound=1.0), stairs) < 0.5
        True
    """
    rounded = constants.gradient_bound * stairs.smooth1 + stairs.bound1 * constants.smoothness * stairs.l1
    return 1 / (2 * (2 * lambda_p + constants.smoothness + rounded))


def levels_step_size(constants: Constants, stairs: Staircase) -> float:
    """eta2 = 1 / (2 (G L_Q2 + G_Q2 L l_Q2)): QuPeL, Theorems 1 and 2.

    Args:
        constants: Of the loss; its gradient must be bounded.
        stairs: Of the soft quantizer.

    Returns:
        eta2.

    Example:
        >>> from idiolect.theory import Constants, levels_step_size, staircase
        >>> stairs = staircase(sharpness=4.0, widest_gap=1.0, span=2.0, levels=3, weights=10)
        >>> levels_step_size(Constants(0.0, 1.0, gradient_bound=1.0), stairs) < 0.01
        True
    """
    return 1 / (2 * (constants.gradient_bound * stairs.smooth2 + stairs.bound2 * constants.smoothness * stairs.l2))


def shared_step_size(lambda_p: float, iterations: int) -> float:
    """eta3 = 1 / (4 lambda_p sqrt(T)): QuPeL, Theorem 2.

    Args:
        lambda_p: The pull to the shared model.
        iterations: T.

    Returns:
        eta3.

    Example:
        >>> from idiolect.theory import shared_step_size
        >>> shared_step_size(0.5, iterations=100)
        0.05
    """
    positive("lambda_p", lambda_p)
    at_least("iterations", iterations, 1)
    return 1 / (4 * lambda_p * math.sqrt(iterations))
