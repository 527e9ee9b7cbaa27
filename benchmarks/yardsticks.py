"""What this machine can do at most: a large matrix product on all cores, and a copy through memory by one.

`python benchmarks/yardsticks.py` prints both; other benchmarks measure them beside their own figures.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from figures import Figure, Found, Pace, Row, Table, asked, interleaved, write

SIDE, COPIED = 2048, 256 * 2**20


def product_rate(products: int = 5) -> float:
    """GFLOP/s of a large matrix product on all cores, the best of a few; compiles when it is first called."""
    import jax
    import jax.numpy as jnp

    square, product = jnp.ones((SIDE, SIDE)), jax.jit(lambda a: a @ a)
    product(square).block_until_ready()
    return 2 * SIDE**3 / min(_seconds(lambda: product(square).block_until_ready()) for _ in range(products)) / 1e9


def copy_rate(copies: int = 5) -> float:
    """GB/s of a copy of an array that fits in no cache: bytes read and bytes written, the best of a few."""
    source, target = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    return 2 * COPIED / min(copy_seconds([source], [target]) for _ in range(copies)) / 1e9


def copy_seconds(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], copies: int = 1) -> float:
    """Seconds to copy these arrays once, on one core."""

    def copy() -> None:
        for _ in range(copies):
            for source, target in zip(sources, targets, strict=True):
                np.copyto(target, source)

    return _seconds(copy) / copies


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Print them."""
    options = asked(__doc__, 5).parse_args()
    found = interleaved({"product": product_rate, "copy": copy_rate}, options.repeats, Pace(options.repeats))
    rows = [
        Row(f"matrix product, {SIDE} x {SIDE}, all cores", {"rate": Figure("GFLOP/s", found["product"])}),
        Row(f"copy of {COPIED // 2**20} MiB, one core", {"rate": Figure("GB/s", found["copy"])}),
    ]
    for row in rows:
        print(f"{row.case}: {row.figures['rate']} {row.figures['rate'].unit}")
    write(options.json, Found({"yardsticks": Table("What the machine can do at most", rows)}))


if __name__ == "__main__":
    main()
