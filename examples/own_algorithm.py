"""Your own objective and your own protocol, on your own arrays: they get all that a recipe gets.

python examples/own_algorithm.py runs/own          # killed at any moment, it goes on when it is called again
python examples/own_algorithm.py runs/own-ray ray  # the same, on Ray
"""

import sys

import jax.numpy as jnp
import numpy as np
import optax

import idiolect


@idiolect.objective
def sharpness(*, radius: float = 0.05) -> idiolect.Objective:
    """Minimise the loss at the worst point nearby (P. Foret et al. Sharpness-aware minimization. 2021)."""

    def worst(oracle, params, key):
        grads = oracle.gradient(params, key)[1]
        return optax.tree.add_scale(params, radius / (optax.tree.norm(grads) + 1e-12), grads)

    def gradient(oracle, params, received, key):
        loss, grads = oracle.gradient(worst(oracle, params, key), key)
        return grads, {"loss": loss}

    return idiolect.stateless(lambda oracle, params, _, key: oracle.value(worst(oracle, params, key), key), gradient)


@idiolect.protocol
def momentum(*, beta: float = 0.5, decay: float = 0.5) -> idiolect.Protocol:
    """Move as each update arrives, with a server that remembers where it was going."""

    def absorb(state, upload, staleness):
        speed = optax.tree.add_scale(upload.delta, decay, state["speed"])
        return {"model": optax.tree.add_scale(state["model"], -beta, speed), "speed": speed}

    usual = idiolect.protocols.asynchronous()
    begin = {"init": lambda params, clients: {"model": params, "speed": optax.tree.zeros_like(params)}}
    shown = dict.fromkeys(("offer", "read"), lambda state: state["model"])
    return usual._replace(server=usual.server._replace(absorb=absorb, **begin, **shown))


def clients(seed: int) -> idiolect.Problem:
    """Twelve clients, each with a regression of its own."""
    x, w = np.random.default_rng(seed).normal(size=(12, 60, 4)), 1 + 0.3 * np.random.default_rng(9).normal(size=(12, 4))
    data = [{"x": mine, "y": mine @ own} for mine, own in zip(x, w, strict=True)]
    return idiolect.problem(lambda key: jnp.zeros(4), lambda w, row: ((row["x"] @ w - row["y"]) ** 2).mean(), data)


def experiment() -> idiolect.Experiment:
    """Both of them, alone and together, beside FedAsync."""
    lines = ["fedasync", "sharpness+asynchronous", "plain+momentum", "sharpness+momentum"]
    return idiolect.Experiment(clients, lines, seeds=[0, 1, 2], horizon=100.0, name="own")


if __name__ == "__main__":
    run = idiolect.run(experiment, out=sys.argv[1], place=idiolect.Place(*sys.argv[2:]))
    print(*(f"{row.second[1]}: {row.contrast.over_seeds}" for row in idiolect.compare_runs([run.path]).rows), sep="\n")
