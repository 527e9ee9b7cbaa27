"""How long tests may compile: programs that run once, for milliseconds, are not worth optimizing."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """Compile without most of the optimizations."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
