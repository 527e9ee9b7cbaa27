"""Type aliases that all packages share; a pytree is anything that JAX can flatten."""

from typing import Any, TypeAlias

import jax

PyTree: TypeAlias = Any
Params: TypeAlias = PyTree
Batch: TypeAlias = PyTree
Key: TypeAlias = jax.Array
Scalar: TypeAlias = jax.Array
Info: TypeAlias = dict[str, jax.Array]
