"""Parts of an experiment that are made in Python: a problem, an objective, and small experiments of them."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import idiolect
from idiolect import Algorithm, Experiment, Objective, Problem
from idiolect.protocols import asynchronous

QUICK: dict[str, Any] = {
    "horizon": 20.0,
    "training": {"local_steps": 2, "step_size": 0.1, "batch_size": 2},
    "evaluation": {"points": 2, "batch_size": 2},
}
NAMED = idiolect.Choice("quadratics", {"clients": 4, "dimension": 3, "samples": 8})


def quick(**changes: Any) -> Experiment:
    """Quadratics by name, and one algorithm."""
    return Experiment(**{"problem": NAMED, "algorithms": ["fedavg"], **QUICK, **changes})


def distance(params: Any, batch: Any) -> Any:
    """How far a point is from those of a batch."""
    return ((params - batch["x"]) ** 2).sum(-1).mean()


def nearness(params: Any, batch: Any) -> Any:
    """The same as something to be proud of."""
    return -distance(params, batch)


def points_around(places: np.ndarray, loss: Any = distance) -> Problem:
    """A client around each of these places."""
    rng = np.random.default_rng(0)
    data = [{"x": place + rng.standard_normal((12, 3)).astype(np.float32)} for place in places]
    return idiolect.problem(lambda key: jnp.zeros(3), loss, data, score=nearness, score_name="nearness", name="points")


PLACES = np.arange(12, dtype=np.float32).reshape(4, 3)


def towards(*, weight: float = 0.5) -> Objective:
    """Descend, and lean towards the model as received."""

    def value(oracle: Any, params: Any, received: Any, key: Any) -> Any:
        return oracle.value(params, key) + weight * ((params - received) ** 2).sum()

    def gradient(oracle: Any, params: Any, received: Any, key: Any) -> Any:
        loss, grads = oracle.gradient(params, key)
        return grads + 2 * weight * (params - received), {"loss": loss}

    return idiolect.stateless(value, gradient)


def leaning(weight: float = 0.5, name: str = "leaning", beta: float = 1.0) -> Algorithm:
    """An algorithm record."""
    return Algorithm(name, towards(weight=weight), asynchronous(beta=beta), 2, 0.1, 2)


def mine(**changes: Any) -> Experiment:
    """A problem, and an algorithm beside a named one, that no recipe could hold."""
    return Experiment(
        **{"problem": points_around(PLACES), "algorithms": [leaning(), "fedavg"], "seeds": [0, 1], **QUICK, **changes}
    )


def written(folder: Path, text: str, name: str) -> Path:
    """A file of the user's."""
    (folder / name).write_text(text)
    return folder / name
