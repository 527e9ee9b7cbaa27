"""The client's loss after u personal gradient steps: model-agnostic meta-learning.

A. Fallah, A. Mokhtari, A. Ozdaglar. Personalized federated learning: a meta-learning approach (Per-FedAvg). 2020,
Algorithm 1 and Appendix G. M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithm 2, Option B. The same authors,
PARS-Push: personalized, asynchronous and robust decentralized optimization. 2022, Algorithm 1 (several steps).

| paper | code |
| --- | --- |
| Per-FedAvg (5), PARS-Push (5): f_i after u steps of size alpha | `value` |
| PersA-FL, Alg. 2, l. 8-9; Per-FedAvg (9) | `gradient`, `batches="independent"`, `derivative="exact"` |
| PARS-Push, Alg. 1, l. 5-11 | `gradient`, `batches="shared"` |
| Per-FedAvg (112) | `derivative="first_order"` |
| Per-FedAvg (117)-(119) | `derivative="hessian_free"` |

Deviations: PARS-Push prints the product over r without an order; the chain rule applies (I - alpha H_{u-1}) to the
outer gradient first and (I - alpha H_0) last, with the Hessian of step r on the batch of step r. PersA-FL (D1) divides
the gradient difference by delta; it must be 2 delta, as in Per-FedAvg (117). The papers' names for the three batches
differ; here they are inner, Hessian and outer.

Laws: zero steps, or a step size of zero, is `plain`, and further steps of size zero change nothing; with one batch for
everything the exact derivative equals back-propagation through the unrolled inner loop; `hessian_free` tends to `exact`
as delta shrinks.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import jax
import numpy as np
import optax
from annotated_types import Ge, Gt

from idiolect.contracts import Family, Info, Key, Known, Objective, Oracle, Params, PersonalSteps, Scalar, stateless
from idiolect.theory import admissible_step_size, check_personal_step

Derivative = Literal["exact", "first_order", "hessian_free"]
Batches = Literal["independent", "shared"]


def maml(
    *,
    steps: Annotated[int, Ge(0)] = 1,
    step_size: Annotated[float, Ge(0)] = 0.01,
    derivative: Derivative = "exact",
    batches: Batches = "independent",
    delta: Annotated[float, Gt(0)] = 1e-3,
) -> Objective:
    """Minimise f_i after `steps` gradient steps of `step_size`, over the model before those steps.

    Args:
        steps: u, the number of personal steps.
        step_size: alpha, of a personal step.
        derivative: The exact one; `first_order`, which drops the Hessians; or `hessian_free`, which replaces them by
            differences of gradients.
        batches: Whether the Hessian of an inner step is estimated on a batch of its own (PersA-FL, Per-FedAvg) or on
            the batch of that inner step (PARS-Push).
        delta: The finite-difference width of `hessian_free`.

    Returns:
        The objective, which keeps nothing on the client.

    Example:
        >>> from idiolect.objectives import maml
        >>> maml(steps=2, step_size=0.1).minimises.steps
        2
    """
    sizes = [step_size] * steps
    made = partial(_maml, derivative, batches, delta)
    numbers = {"steps": np.asarray(steps, np.int32), "sizes": np.asarray(sizes)}
    kin = Family(("maml", derivative, batches, delta), numbers, lambda told: made(told["steps"], told["sizes"]))
    first_order = derivative == "first_order"  # which is the gradient of no cost
    return made(steps, sizes)._replace(
        check=partial(_check, steps, step_size),
        minimises=None if first_order else PersonalSteps(steps, step_size, batches == "shared"),
        family=kin if steps else None,  # without steps it draws as `plain` does
    )


def _check(steps: int, step_size: float, known: Known) -> list[str]:
    """Refuse steps at which the cost need not be convex; warn where PARS-Push does not prove that it is."""
    if not steps:
        return []
    check_personal_step(step_size, known.smoothness)
    bound = math.inf if known.constants is None else admissible_step_size(known.constants, steps)
    if step_size <= bound:
        return []
    return [
        f"objective.step_size is {step_size:g}, above {bound:.3g}, up to which PARS-Push, Lemma 1, keeps the cost "
        f"after {steps} steps strongly convex on every single sample"
    ]


def _maml(
    derivative: Derivative,
    batches: Batches,
    delta: float,
    steps: int | Scalar,
    sizes: Sequence[float] | jax.Array,
) -> Objective:
    """The objective with `steps` steps of these sizes, and any further ones of size zero.

    Those change nothing, and neither do their factors I - 0 H in the chain rule. So `steps` can be left open until the
    program runs.
    """
    most = len(sizes)

    def inner_path(oracle: Oracle, params: Params, keys: jax.Array) -> list[Params]:
        path = [params]  # w^(0), …, w^(u)
        for step in range(most):
            _, grads = oracle.gradient(path[-1], keys[step])
            path.append(optax.tree.add_scale(path[-1], -sizes[step], grads))  # PARS-Push, Alg. 1, l. 8
        return path

    def hessian_product(oracle: Oracle, params: Params, vector: Params, key: Key) -> Params:
        if derivative == "exact":
            return oracle.hessian_product(params, vector, key)
        _, ahead = oracle.gradient(optax.tree.add_scale(params, delta, vector), key)
        _, behind = oracle.gradient(optax.tree.add_scale(params, -delta, vector), key)
        return optax.tree.scale(0.5 / delta, optax.tree.sub(ahead, behind))  # Per-FedAvg (117)

    def batch_keys(key: Key) -> tuple[jax.Array, jax.Array, Key]:
        keys = jax.random.split(key, 2 * most + 1)  # each the same, however many there are
        inner, hessian = keys[:most], jax.lax.dynamic_slice_in_dim(keys, steps, most)
        return inner, inner if batches == "shared" else hessian, keys[2 * steps]

    def value(oracle: Oracle, params: Params, received: Params, key: Key) -> Scalar:
        if most == 0:
            return oracle.value(params, key)
        inner, _, outer = batch_keys(key)
        return oracle.value(inner_path(oracle, params, inner)[-1], outer)

    def gradient(oracle: Oracle, params: Params, received: Params, key: Key) -> tuple[Params, Info]:
        if most == 0:  # the very same batch as `plain` draws, so that the two agree to the bit
            loss, grads = oracle.gradient(params, key)
            return grads, {"loss": loss}
        inner, hessian, outer = batch_keys(key)  # PersA-FL, Alg. 2, l. 6 and 8
        path = inner_path(oracle, params, inner)
        loss, grads = oracle.gradient(path[-1], outer)
        if derivative != "first_order":  # which drops the Hessians: Per-FedAvg (112)
            for step in reversed(range(most)):  # PARS-Push, Alg. 1, l. 11, in the chain rule's order
                product = hessian_product(oracle, path[step], grads, hessian[step])
                grads = optax.tree.add_scale(grads, -sizes[step], product)  # PersA-FL, Alg. 2, l. 9
        return grads, {"loss": loss}

    def adapt(oracle: Oracle, params: Params, key: Key) -> Params:
        return inner_path(oracle, params, jax.random.split(key, max(most, 1)))[-1]

    return stateless(value, gradient, adapt)
