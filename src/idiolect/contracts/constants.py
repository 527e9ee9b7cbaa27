"""Constants of a loss that the papers assume (smoothness, noise, diversity), where a problem knows them."""

import math
from typing import NamedTuple


class Constants(NamedTuple):
    """What is known of the loss on every single sample (PARS-Push, Assumption 2)."""

    convexity: float  # mu; 0 where it is merely convex, or not convex at all
    smoothness: float  # L
    gradient_bound: float = math.inf  # G, where the personal steps go
    hessian_lipschitz: float = 0.0  # H; 0 on quadratics


class Variation(NamedTuple):
    """How much the samples of a client differ, and how much clients do, at any point (PersA-FL, Assumptions 3-5).

    Root mean squares of differences to the mean, Hessians in the spectral norm; `noise` is that of single samples.
    """

    gradient_noise: float  # sigma_g
    hessian_noise: float  # sigma_h
    gradient_diversity: float  # gamma_g
    hessian_diversity: float  # gamma_h
