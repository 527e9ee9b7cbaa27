"""A model's layers by name, and which of them are quantized.

A leaf of the parameters is called by its path: `convolutions.0.weight`. Leaves with two or more axes are matrices and
kernels; biases and normalization have one axis, and are kept in full precision by the rule `vectors`. A model without
any matrix, a bare vector say, has all its leaves for layers.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import jax

from idiolect.contracts import Params
from idiolect.errors import UserMistake

FIRST, LAST, VECTORS = "first", "last", "vectors"
USUALLY_KEPT = (FIRST, LAST, VECTORS)


def named_leaves(params: Params) -> dict[str, Any]:
    """The leaves of a model by name, in the order of the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {".".join(_step(part) for part in path): leaf for path, leaf in leaves}


def replace_leaves(params: Params, changed: Mapping[str, Any]) -> Params:
    """The model with some of its leaves replaced."""
    leaves = named_leaves(params)
    return jax.tree.unflatten(jax.tree.structure(params), [changed.get(name, leaf) for name, leaf in leaves.items()])


def quantized_layers(params: Params, keep: Sequence[str]) -> list[str]:
    """The layers to quantize: all but those that `keep` names.

    `keep` holds `first` and `last`, for matrices, `vectors`, for leaves with one axis, and patterns such as `dense.*`.
    """
    leaves = named_leaves(params)
    matrices = [name for name, leaf in leaves.items() if leaf.ndim > 1] or list(leaves)
    rules = {FIRST: matrices[:1], LAST: matrices[-1:], VECTORS: [name for name in leaves if name not in matrices]}
    kept: set[str] = set()
    for pattern in keep:
        found = rules[pattern] if pattern in rules else [name for name in leaves if fnmatchcase(name, pattern)]
        if not found and pattern != VECTORS:
            raise UserMistake(
                f"objective.keep has '{pattern}', which matches no layer; say 'first', 'last', 'vectors' or a pattern "
                f"for one of {', '.join(leaves)}"
            )
        kept.update(found)
    chosen = [name for name in leaves if name not in kept]
    if not chosen:
        raise UserMistake(
            f"objective.keep is {list(keep)}, which leaves none of the layers {', '.join(leaves)} to quantize"
        )
    return chosen


def _step(part: Any) -> str:
    return str(next(getattr(part, name) for name in ("key", "idx", "name") if hasattr(part, name)))
