"""One codebook for a whole layer, or one for each of its outputs: what a rule says of a codebook, it says of each.

Levels with one axis belong to a layer; levels with two, (outputs, levels), to its outputs. Outputs are the last axis of
a matrix and the first of a kernel with four axes, as the models of this package have them. Other leaves have one
codebook in any case.

Law: with the same levels for every output, a rule that maps weights gives what it gives for one codebook.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp

Books: TypeAlias = Literal["layer", "channel"]
Rule = TypeVar("Rule", bound=Callable[..., Any])


def has_outputs(weights: Any) -> bool:
    """Whether a leaf can have a codebook for each output."""
    return weights.ndim in (2, 4)


def by_output(weights: Any) -> jax.Array:
    """The weights of every output in a row: (outputs, weights)."""
    axis = _axis(weights.ndim)
    return jnp.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)


def by_codebook(gives: Literal["weights", "levels"]) -> Callable[[Rule], Rule]:
    """A rule for (weights, levels, …) of one codebook becomes one for a layer with a codebook for each output.

    What else the rule takes is shared, but for arrays with two axes, of which every output has its own. It gives
    weights, which are put back to their places, or levels.
    """

    def widen(rule: Rule) -> Rule:
        @wraps(rule)
        def widened(x: jax.Array, levels: jax.Array, *more: Any) -> Any:
            if levels.ndim == 1:
                return rule(x, levels, *more)
            own = [0 if jnp.ndim(each) == 2 else None for each in more]
            found = jax.vmap(rule, in_axes=(0, 0, *own))(by_output(x), levels, *more)
            return _back(found, x.shape) if gives == "weights" else found

        return cast(Rule, widened)

    return widen


def _axis(axes: int) -> int:
    return 0 if axes == 4 else axes - 1


def _back(rows: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    axis = _axis(len(shape))
    rest = [extent for place, extent in enumerate(shape) if place != axis]
    return jnp.moveaxis(rows.reshape(shape[axis], *rest), 0, axis)
