"""The client's own loss, f_i, and nothing added.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. A. y Arcas. Communication-efficient learning of deep networks from
decentralized data. 2017. Also Option A of M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL: Personalized asynchronous
federated learning. 2023, Algorithm 2.

| paper | code |
| --- | --- |
| PersA-FL, Alg. 2, l. 6-7 (gradient on one fresh batch) | `gradient` |

Deviations: none.

Laws: `maml(steps=0)`, `maml(step_size=0)` and `moreau(lambda -> infinity)` are this objective.
"""

from idiolect.contracts import Info, Key, Objective, Oracle, Params, PersonalSteps, Scalar, stateless


def plain() -> Objective:
    """Minimise f_i itself. The received model is used as it is: `adapt` changes nothing.

    Returns:
        The objective, which keeps nothing on the client.

    Example:
        >>> from idiolect.objectives import plain
        >>> plain().minimises.steps
        0
    """

    def value(oracle: Oracle, params: Params, received: Params, key: Key) -> Scalar:
        return oracle.value(params, key)

    def gradient(oracle: Oracle, params: Params, received: Params, key: Key) -> tuple[Params, Info]:
        loss, grads = oracle.gradient(params, key)  # PersA-FL, Alg. 2, l. 7
        return grads, {"loss": loss}

    return stateless(value, gradient, minimises=PersonalSteps())
