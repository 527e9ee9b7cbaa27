"""The Moreau envelope of the client's loss: the best personal model that stays near the shared one.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 2, Option C, after C. T. Dinh, N. H. Tran, T. D. Nguyen.
Personalized federated learning with Moreau envelopes (pFedMe). 2020, Algorithm 1.

| PersA-FL | code |
| --- | --- |
| (6), Alg. 2, l. 10: h(theta) = f_i(theta, D) + lambda/2 ||theta - w||^2 | `solve` |
| Alg. 2, l. 11: minimise h up to a gradient norm of nu | `solve`, `accuracy` |
| Alg. 2, l. 12 and (10): lambda (w - theta) | `gradient` |
| Appendix D: a constant number of inner steps | `accuracy=0`, `iterations` |
| MEMRL, "Bi-level optimization" (a): a new batch in every inner step | `batches="independent"` |

Deviations: line 11 is given an iteration cap, and tells when the cap cut it short (`capped`) with the gradient norm at
the last point it measured (`residual`): at the returned point if the accuracy was met, one step before it if not. A
client's own model, the minimiser of (6) over all its data, is found with a new batch in every inner step (`adapt`): it
sees as many samples as a rival's plain steps do, where one batch would do for line 10.

Laws: as lambda grows the gradient tends to the plain one; the gradient matches finite differences of the value when
the inner problem is solved; lambda must exceed the smoothness L of f_i for h to be strongly convex.
"""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt

from idiolect.contracts import Info, Key, Known, Objective, Oracle, Params, Scalar, stateless
from idiolect.theory import check_lambda


def moreau(
    *,
    lambda_: Annotated[float, Gt(0)] = 20.0,
    accuracy: Annotated[float, Ge(0)] = 0.0,
    iterations: Annotated[int, Ge(1)] = 10,
    inner_step_size: Annotated[float, Gt(0)] | None = None,
    batches: Literal["shared", "independent"] = "shared",
) -> Objective:
    """Minimise min_theta f_i(theta) + lambda/2 ||theta - w||^2 over w, with theta found by gradient descent.

    The descent stops when the gradient norm of h is at most nu, or after so many iterations.

    Args:
        lambda_: How strongly theta is held near w.
        accuracy: The gradient norm nu at which the descent stops; at 0 it takes all its iterations.
        iterations: At most so many inner steps.
        inner_step_size: By default 1 / (2 lambda), which is safe while f_i is lambda-smooth.
        batches: Whether all inner steps see the same batch (PersA-FL, pFedMe), or each one a batch of its own (MEMRL).

    Returns:
        The objective, which keeps nothing on the client.

    Example:
        >>> from idiolect.objectives import moreau
        >>> from idiolect.problems.synthetic import quadratics
        >>> moreau(lambda_=20.0).check(quadratics(smoothness=2.0).known)
        ()
    """
    rate = 0.5 / lambda_ if inner_step_size is None else inner_step_size
    independent = batches == "independent"

    def solve(oracle: Oracle, anchor: Params, key: Key, fresh: bool) -> tuple[Params, Info]:
        # Alg. 2, l. 10-11. The same key means the same batch D.
        def unfinished(state: tuple[Params, Scalar, Scalar, Scalar]) -> Scalar:
            _, residual, count, _ = state
            return (residual > accuracy) & (count < iterations)

        def improve(state: tuple[Params, Scalar, Scalar, Scalar]) -> tuple[Params, Scalar, Scalar, Scalar]:
            theta, _, count, _ = state
            loss, grads = oracle.gradient(theta, jax.random.fold_in(key, count) if fresh else key)
            grads = optax.tree.add_scale(grads, lambda_, optax.tree.sub(theta, anchor))
            residual = optax.tree.norm(grads).astype(jnp.float32)
            step = jnp.where(residual > accuracy, rate, 0.0)
            return optax.tree.add_scale(theta, -step, grads), residual, count + 1, loss.astype(jnp.float32)

        start = (anchor, jnp.float32(jnp.inf), jnp.int32(0), jnp.float32(0.0))
        theta, residual, _, loss = jax.lax.while_loop(unfinished, improve, start)
        return theta, {"loss": loss, "residual": residual, "capped": (residual > accuracy).astype(jnp.float32)}

    def value(oracle: Oracle, params: Params, received: Params, key: Key) -> Scalar:
        theta, _ = solve(oracle, params, key, independent)
        distance = optax.tree.norm(optax.tree.sub(theta, params), squared=True)
        return oracle.value(theta, key) + 0.5 * lambda_ * distance  # PersA-FL (6)

    def gradient(oracle: Oracle, params: Params, received: Params, key: Key) -> tuple[Params, Info]:
        theta, info = solve(oracle, params, key, independent)
        return optax.tree.scale(lambda_, optax.tree.sub(params, theta)), info  # Alg. 2, l. 12; (10)

    def adapt(oracle: Oracle, params: Params, key: Key) -> Params:
        return solve(oracle, params, key, fresh=True)[0]

    def check(known: Known) -> tuple[str, ...]:
        check_lambda(lambda_, known.smoothness)
        return ()

    return stateless(value, gradient, adapt, check=check)
