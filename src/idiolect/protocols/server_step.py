"""The step of a server that has collected some updates: along their average, by a number or by an optimizer."""

from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias

import optax

from idiolect.contracts import Params, PyTree, Scalar
from idiolect.errors import UserMistake
from idiolect.options import OneOf
from idiolect.trees import in_types_of

# In Python, an optimizer of optax's; in a recipe, the name of one in `server_optimizers`.
Server: TypeAlias = Annotated[
    optax.GradientTransformation | Callable[[], optax.GradientTransformation] | None, OneOf("server_optimizers")
]


Move: TypeAlias = Callable[[PyTree, Params, Params, Scalar | int], tuple[PyTree, Params]]


class ServerStep(NamedTuple):
    """What an optimizer knows at first, if there is one, and its step.

    `move(state, params, total, count)` steps along `total / count` and gives (state, params).
    """

    init: Callable[[Params], PyTree]
    move: Move


def server_step(beta: float, server: Server) -> ServerStep:
    """Steps of `beta` times the average or, if there is an optimizer, its steps."""

    def plain(state: PyTree, params: Params, total: Params, count: Scalar | int) -> tuple[PyTree, Params]:
        return state, optax.tree.add_scale(params, -beta / count, total)

    if server is None:
        return ServerStep(lambda params: (), plain)
    if beta != 1:
        raise UserMistake(
            f"protocol.beta is {beta:g}, but protocol.server has a step_size of its own; leave protocol.beta out"
        )
    rule = server if isinstance(server, optax.GradientTransformation) else server()

    def move(state: PyTree, params: Params, total: Params, count: Scalar | int) -> tuple[PyTree, Params]:
        moves, after = rule.update(optax.tree.scale(1 / count, total), state, params)
        return in_types_of(after, state), in_types_of(optax.apply_updates(params, moves), params)

    return ServerStep(rule.init, move)
