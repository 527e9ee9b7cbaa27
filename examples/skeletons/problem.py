"""A problem of your own that recipes can name, from plain functions and one pytree of arrays per client.

idiolect run my.toml --with examples/skeletons/problem.py, where my.toml says [problem] name = "thermostats"
"""

from typing import Annotated

import jax.numpy as jnp
import numpy as np
from annotated_types import Ge

import idiolect


@idiolect.named_problem
def thermostats(
    *, clients: Annotated[int, Ge(1)] = 10, spread: Annotated[float, Ge(0)] = 1.0, seed: int = 0
) -> idiolect.Problem:
    """Rooms that warm up at their own rate: predict the temperature from the heating and the weather."""
    rng = np.random.default_rng(seed)
    common = np.array([2.0, 0.5])
    data = []
    for _ in range(clients):
        x = rng.normal(size=(50, 2))
        data.append({"x": x, "y": x @ (common + spread * rng.normal(size=2)) + 0.1 * rng.normal(size=50)})

    def loss(params, batch):
        return ((batch["x"] @ params["w"] + params["b"] - batch["y"]) ** 2).mean()

    return idiolect.problem(
        lambda key: {"w": jnp.zeros(2), "b": jnp.zeros(())}, loss, data, name="thermostats", seed=seed
    )
