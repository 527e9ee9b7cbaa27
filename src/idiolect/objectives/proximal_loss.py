"""The client's loss with a pull back to the model it received.

T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith. Federated optimization in heterogeneous networks
(FedProx). 2020, Algorithm 2.

| paper | code |
| --- | --- |
| h_k(w; w^t) = F_k(w) + mu/2 ||w - w^t||^2 (Eq. 2) | `value`, `gradient` |

Deviations: the subproblem is solved by the learner's fixed number of local steps rather than to a gamma-inexact
solution, as in the authors' own experiments.

Laws: `proximal(mu=0)` is `plain`; at the received model the gradient is the plain one.
"""

from typing import Annotated

import optax
from annotated_types import Ge

from idiolect.contracts import Info, Key, Objective, Oracle, Params, Scalar, stateless


def proximal(*, mu: Annotated[float, Ge(0)] = 0.1) -> Objective:
    """Minimise f_i(w) + mu/2 ||w - received||^2.

    Args:
        mu: How strongly the model is pulled back to the one that was received.

    Returns:
        The objective, which keeps nothing on the client.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from idiolect.objectives import proximal
        >>> proximal(mu=0.1).begin(jnp.zeros(2), 0, jax.random.key(0))
        ()
    """

    def value(oracle: Oracle, params: Params, received: Params, key: Key) -> Scalar:
        distance = optax.tree.norm(optax.tree.sub(params, received), squared=True)
        return oracle.value(params, key) + 0.5 * mu * distance

    def gradient(oracle: Oracle, params: Params, received: Params, key: Key) -> tuple[Params, Info]:
        loss, grads = oracle.gradient(params, key)
        return optax.tree.add_scale(grads, mu, optax.tree.sub(params, received)), {"loss": loss}

    return stateless(value, gradient)
