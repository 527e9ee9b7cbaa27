"""Functions of pytrees: their norms, the floats they are kept in, the names of their leaves, sizes and digests."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.errors import UserMistake

PyTree: TypeAlias = Any


def largest(tree: PyTree) -> jax.Array:
    """The largest entry of a tree without its sign; not finite if any entry is not."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)]
    return jnp.stack([jnp.float32(0), *(jnp.abs(leaf).max(initial=0).astype(jnp.float32) for leaf in leaves)]).max()


@jax.jit  # outside of compiled code, a condition would be compiled anew at every call
def norm(tree: PyTree) -> jax.Array:
    """The Euclidean norm, also of numbers too large to be squared."""

    def in_units_of(unit: jax.Array) -> jax.Array:
        units = [jnp.ravel(leaf / unit) for leaf in jax.tree.leaves(tree)]
        return unit * jnp.sqrt(sum((jnp.vdot(x, x).astype(jnp.float32) for x in units), start=jnp.float32(0)))

    plain = in_units_of(jnp.float32(1))
    return jax.lax.cond(jnp.isfinite(plain), lambda: plain, lambda: in_units_of(largest(tree)))


def widest(tree: PyTree) -> PyTree:
    """The tree in the widest floats that are enabled, so that sums over a long run keep their digits."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(float)), tree)


def in_types_of(tree: PyTree, like: PyTree) -> PyTree:
    """The tree with each leaf in the type of the other's."""
    return jax.tree.map(lambda leaf, other: leaf.astype(other.dtype), tree, like)


def bytes_of(tree: PyTree) -> int:
    """What the leaves take, which may be mere shapes."""
    return int(sum(math.prod(np.shape(leaf)) * _width(leaf) for leaf in jax.tree.leaves(tree)))


def _width(leaf: Any) -> int:
    return leaf.dtype.itemsize if hasattr(leaf, "dtype") else 8


def names_of(prefix: str, tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree under the names they have in a file."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def fill(prefix: str, tree: PyTree, tensors: Mapping[str, np.ndarray]) -> PyTree:
    """The tree with its leaves replaced by the saved ones of the same names."""
    leaves = []
    for name, leaf in names_of(prefix, tree).items():
        if name not in tensors or tensors[name].shape != np.shape(leaf):
            raise UserMistake(f"what was saved of the run lacks '{name}' of shape {tuple(np.shape(leaf))}")
        if hasattr(leaf, "dtype") and tensors[name].dtype != leaf.dtype:
            raise UserMistake(f"what was saved of the run has '{name}' in {tensors[name].dtype}, not in {leaf.dtype}")
        leaves.append(jnp.asarray(tensors[name]))
    return jax.tree.unflatten(jax.tree.structure(tree), leaves)


def as_tensors(leaves: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Leaves as arrays that can be written to a file."""
    # A number has no axis, and ascontiguousarray would give it one.
    return {name: np.asarray(leaf, order="C") for name, leaf in leaves.items()}


def digest(texts: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> str:
    """A digest of texts and named arrays that a file has, without the digest that it says itself."""
    found = hashlib.sha256()
    for name, text in sorted(texts.items()):
        if name != "digest":
            found.update(f"{name}={len(text)}:{text};".encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name}:{tensor.dtype}{tensor.shape};".encode())
        found.update(np.ascontiguousarray(tensor).tobytes())
    return found.hexdigest()
