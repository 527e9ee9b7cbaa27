"""In which floats agents keep what they share out."""

import jax
import jax.numpy as jnp

from idiolect.contracts import PyTree


def widest(tree: PyTree) -> PyTree:
    """The tree in the widest floats that are enabled, so that sums over a long run keep their digits."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(float)), tree)
