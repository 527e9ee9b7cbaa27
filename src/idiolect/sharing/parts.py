"""The parts of a model: which leaves patterns name, and a tree taken apart and put together again.

A part is the whole tree with None in the place of what the other part has, which JAX takes for no leaf at all. So names
and structure stay, and whoever adds, averages or sends a part never meets the rest.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial

import jax

from idiolect.contracts import Params, PyTree
from idiolect.errors import UserMistake
from idiolect.quantization.layers import named_leaves

FIRST, LAST, BODY = "first", "last", "body"


def private_leaves(
    params: Params, private: Sequence[str] | Callable[[str], bool], option: str = "private"
) -> frozenset[str]:
    """The names of the leaves that patterns mean, such as those that stay with a client.

    Args:
        params: A model, or its shapes.
        private: `first` and `last`, for the layer of the first and of the last matrix with all its leaves, `body` for
            all but the last, and patterns such as `dense.*`; or a function of a leaf's name.
        option: What the patterns are called, for whoever wrote one that means nothing.

    Returns:
        The names.

    Example:
        >>> import jax.numpy as jnp
        >>> from idiolect.sharing import private_leaves
        >>> layers = [{"weight": jnp.ones((2, 2)), "bias": jnp.ones(2)} for _ in range(2)]
        >>> sorted(private_leaves(layers, ["last"]))
        ['1.bias', '1.weight']
    """
    leaves = named_leaves(params)
    if callable(private):
        return frozenset(name for name in leaves if private(name))
    matrices = [name for name, leaf in leaves.items() if leaf.ndim > 1] or list(leaves)
    first, last = _layer(matrices[0]), _layer(matrices[-1])
    rules: dict[str, Callable[[str], bool]] = {
        FIRST: lambda name: _layer(name) == first,
        LAST: lambda name: _layer(name) == last,
        BODY: lambda name: _layer(name) != last,
    }
    found: set[str] = set()
    for pattern in private:
        belongs = rules.get(pattern, partial(fnmatchcase, pat=pattern))
        named = {name for name in leaves if belongs(name)}
        if not named:
            raise UserMistake(
                f"{option} has '{pattern}', which matches no layer; say 'first', 'last', 'body', '*' or a pattern for "
                f"one of {', '.join(leaves)}"
            )
        found |= named
    return frozenset(found)


def _layer(name: str) -> str:
    return name.rpartition(".")[0] or name


def split(tree: PyTree, private: frozenset[str]) -> tuple[PyTree, PyTree]:
    """A model, or anything of its structure, as (what travels, what stays).

    Args:
        tree: The whole.
        private: Names of the leaves that stay.

    Returns:
        The whole tree twice, each time with None in the place of the other's leaves.

    Example:
        >>> from idiolect.sharing import split
        >>> split({"body": 1, "head": 2}, frozenset({"head"}))
        ({'body': 1, 'head': None}, {'body': None, 'head': 2})
    """
    structure, leaves = jax.tree.structure(tree), named_leaves(tree)
    travels = [None if name in private else leaf for name, leaf in leaves.items()]
    stays = [leaf if name in private else None for name, leaf in leaves.items()]
    return jax.tree.unflatten(structure, travels), jax.tree.unflatten(structure, stays)


def join(travels: PyTree, stays: PyTree) -> PyTree:
    """The whole again.

    Args:
        travels: The first part that `split` gives.
        stays: The second.

    Returns:
        The tree with every leaf from the part that has it.

    Example:
        >>> from idiolect.sharing import join
        >>> join({"body": 1, "head": None}, {"body": None, "head": 2})
        {'body': 1, 'head': 2}
    """
    return jax.tree.map(lambda one, other: other if one is None else one, travels, stays, is_leaf=lambda x: x is None)
