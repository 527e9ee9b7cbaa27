"""An objective of your own: what a client minimises, made from its loss. Replace the penalty by your idea.

idiolect run demo --with examples/skeletons/objective.py --set 'algorithms=[{name="shrunk+asynchronous"}]'
"""

from typing import Annotated

import optax
from annotated_types import Ge

import idiolect
from idiolect.contracts import Info, Key, Oracle, Params, Scalar


@idiolect.objective
def shrunk(*, strength: Annotated[float, Ge(0)] = 0.01) -> idiolect.Objective:
    """Minimise the loss plus `strength` / 2 times the squared norm of the model."""

    def value(oracle: Oracle, params: Params, received: Params, key: Key) -> Scalar:
        return oracle.value(params, key) + 0.5 * strength * optax.tree.norm(params, squared=True)

    def gradient(oracle: Oracle, params: Params, received: Params, key: Key) -> tuple[Params, Info]:
        loss, grads = oracle.gradient(params, key)
        return optax.tree.add_scale(grads, strength, params), {"loss": loss}

    def adapt(oracle: Oracle, params: Params, key: Key) -> Params:
        return params  # what a client makes of the model it receives

    return idiolect.stateless(value, gradient, adapt)


if __name__ == "__main__":
    from idiolect.testing import check_objective

    check_objective(shrunk(strength=0.3))
