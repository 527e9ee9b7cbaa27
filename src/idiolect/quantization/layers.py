"""A model's layers by name, and which of them are quantized.

A leaf of the parameters is called by its path: `convolutions.0.weight`. Only leaves with two or more axes, the weight
matrices and kernels, are ever quantized; biases and normalization have one. A model without any such leaf, a bare
vector say, has all its leaves for layers.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import jax

from idiolect.contracts import Params
from idiolect.errors import UserMistake

FIRST, LAST = "first", "last"


def named_leaves(params: Params) -> dict[str, Any]:
    """The leaves of a model by name, in the order of the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {".".join(_step(part) for part in path): leaf for path, leaf in leaves}


def replace_leaves(params: Params, changed: Mapping[str, Any]) -> Params:
    """The model with some of its leaves replaced."""
    leaves = named_leaves(params)
    return jax.tree.unflatten(jax.tree.structure(params), [changed.get(name, leaf) for name, leaf in leaves.items()])


def quantized_layers(params: Params, keep: Sequence[str]) -> list[str]:
    """The layers to quantize: all weight matrices and kernels but those that `keep` names.

    `keep` holds `first`, `last` and patterns such as `dense.*`.
    """
    leaves = named_leaves(params)
    layers = [name for name, leaf in leaves.items() if leaf.ndim > 1] or list(leaves)
    kept: set[str] = set()
    for pattern in keep:
        found = {FIRST: layers[:1], LAST: layers[-1:]}.get(pattern)
        if found is None:
            found = [name for name in layers if fnmatchcase(name, pattern)]
        if not found:
            raise UserMistake(
                f"objective.keep has '{pattern}', which matches no layer; say 'first', 'last' or a pattern for one of "
                f"{', '.join(layers)}"
            )
        kept.update(found)
    chosen = [name for name in layers if name not in kept]
    if not chosen:
        raise UserMistake(
            f"objective.keep is {list(keep)}, which leaves none of the layers {', '.join(layers)} to quantize"
        )
    return chosen


def _step(part: Any) -> str:
    return str(next(getattr(part, name) for name in ("key", "idx", "name") if hasattr(part, name)))
