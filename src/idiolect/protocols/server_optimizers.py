"""Optimizers with which a server steps along the average of what clients send, as if it were a gradient.

S. J. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konecny, S. Kumar, H. B. McMahan. Adaptive federated
optimization. 2021, Algorithm 2 (FedAdagrad, FedYogi, FedAdam). T.-M. H. Hsu, H. Qi, M. Brown. Measuring the effects of
non-identical data distribution for federated visual classification (FedAvgM). 2019.

| Reddi et al., Alg. 2 | code |
| --- | --- |
| Delta_t, the average of x_i - x_t | minus the gradient that `update` is given |
| m_t = beta_1 m_{t-1} + (1 - beta_1) Delta_t | `update` |
| v_t = v_{t-1} + Delta_t^2 | `adagrad` |
| v_t = v_{t-1} - (1 - beta_2) Delta_t^2 sign(v_{t-1} - Delta_t^2) | `yogi` |
| v_t = beta_2 v_{t-1} + (1 - beta_2) Delta_t^2 | `adam` |
| x_{t+1} = x_t + eta m_t / (sqrt(v_t) + tau), v_{-1} >= tau^2 | `update`, v begins with tau^2 |
| FedAvgM: v <- beta v + Delta, w <- w + v | `sgd`, from optax |

Deviations: none. optax's own `adam`, `yogi` and `adagrad` are other rules (they correct the bias of the averages, or
have no tau beside the root), so those three are written out here, as transformations that optax would take. Any other
of optax's can be given in Python: `synchronous(server=optax.lamb(0.01))`.

Laws: `sgd` without momentum is the step `beta` of a server that has no optimizer.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Lt

from idiolect.contracts import Params

StepSize: TypeAlias = Annotated[float, Gt(0)]
Decay: TypeAlias = Annotated[float, Ge(0), Lt(1)]


class Moments(NamedTuple):
    """The averages of what was sent, and of its squares."""

    first: Params
    second: Params


def sgd(*, step_size: StepSize = 1.0, momentum: Decay = 0.0) -> optax.GradientTransformation:
    """Step along the average, or along a sum of all averages in which old ones fade (FedAvgM).

    Args:
        step_size: How far the server goes along it; 1 is the average itself.
        momentum: How much of the sum is kept from round to round; 0 is no momentum.
    """
    return optax.sgd(step_size, momentum=momentum or None)


def adam(
    *, step_size: StepSize = 0.01, beta1: Decay = 0.9, beta2: Decay = 0.99, tau: StepSize = 1e-3
) -> optax.GradientTransformation:
    """Scale every coordinate by a fading average of its squares (FedAdam).

    Args:
        step_size: eta, how far the server goes at a time.
        beta1: How much of the average of what was sent is kept from round to round.
        beta2: The same for the average of its squares.
        tau: What is added to the root of the squares; the smaller, the more the steps adapt.
    """
    return _adaptive(step_size, beta1, tau, lambda v, square: beta2 * v + (1 - beta2) * square)


def yogi(
    *, step_size: StepSize = 0.01, beta1: Decay = 0.9, beta2: Decay = 0.99, tau: StepSize = 1e-3
) -> optax.GradientTransformation:
    """The same with squares that are let in and out by additions, so that they change slowly (FedYogi).

    Args:
        step_size: eta, how far the server goes at a time.
        beta1: How much of the average of what was sent is kept from round to round.
        beta2: The same for the squares.
        tau: What is added to the root of the squares; the smaller, the more the steps adapt.
    """
    return _adaptive(step_size, beta1, tau, lambda v, square: v - (1 - beta2) * square * jnp.sign(v - square))


def adagrad(*, step_size: StepSize = 0.01, beta1: Decay = 0.0, tau: StepSize = 1e-3) -> optax.GradientTransformation:
    """Scale every coordinate by the sum of all its squares (FedAdagrad).

    Args:
        step_size: eta, how far the server goes at a time.
        beta1: How much of the average of what was sent is kept from round to round.
        tau: What is added to the root of the squares; the smaller, the more the steps adapt.
    """
    return _adaptive(step_size, beta1, tau, lambda v, square: v + square)


def _adaptive(
    step_size: float, beta1: float, tau: float, grow: Callable[[jax.Array, jax.Array], jax.Array]
) -> optax.GradientTransformation:
    def init(params: Params) -> Moments:
        return Moments(optax.tree.zeros_like(params), jax.tree.map(lambda leaf: jnp.full_like(leaf, tau**2), params))

    def update(gradient: Params, state: Moments, params: Params = None) -> tuple[Params, Moments]:
        first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state.first, gradient)  # Alg. 2, m_t
        second = jax.tree.map(lambda v, g: grow(v, jnp.square(g)), state.second, gradient)  # Alg. 2, v_t
        moves = jax.tree.map(lambda m, v: -step_size * m / (jnp.sqrt(v) + tau), first, second)  # Alg. 2, x_{t+1}
        return moves, Moments(first, second)

    return optax.GradientTransformation(init, update)


BY_NAME: Mapping[str, Callable[..., optax.GradientTransformation]] = {
    "sgd": sgd,
    "adam": adam,
    "yogi": yogi,
    "adagrad": adagrad,
}
