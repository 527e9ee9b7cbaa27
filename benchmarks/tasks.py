"""The cases as idiolect's own problems and algorithms."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from cases import BATCH, CLIENTS, LOCAL_STEPS, OBJECTIVES, SAMPLES, STEP_SIZE, image_set
from idiolect import catalog
from idiolect.contracts import Algorithm, Batch, Params, Problem, PyTree, Scalar
from idiolect.problems.data.datasets import Images
from idiolect.problems.data.partitions import iid
from idiolect.problems.images import classification
from idiolect.problems.models.networks import Model, cnn, mlp


def network(model: str) -> Model:
    """784-80-60-10 with ELU, or conv 5x5x16, pool, conv 5x5x32, pool, dense 128, dense 10."""
    return mlp((28, 28, 1), 10) if model == "mlp" else cnn((28, 28, 1), 10)


def loss(model: str, params: Params, batch: Batch) -> Scalar:
    """The cross-entropy of a batch that is already there."""
    logits = network(model).apply(params, batch["image"].astype(jnp.float32) / 255, None)
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()


def problem(model: str, clients: int = CLIENTS, samples: int = SAMPLES) -> Problem:
    """The model on images dealt evenly."""
    return classification("random images", Images(*image_set(samples)), network(model), iid(), clients=clients, seed=0)


def algorithm(task: Problem, model: str, objective: str) -> Algorithm:
    """The asynchronous algorithm with this objective."""
    name, options = OBJECTIVES[objective]
    return catalog.algorithm(
        f"{name}+asynchronous",
        task,
        objective=options,
        local_steps=LOCAL_STEPS,
        step_size=STEP_SIZE,
        batch_size=BATCH[model],
    )


def fedavg_options() -> dict[str, Any]:
    """The local steps of a client in a round of FedAvg with the MLP."""
    return {"local_steps": LOCAL_STEPS, "step_size": STEP_SIZE, "batch_size": BATCH["mlp"]}


def wait_for(tree: PyTree) -> None:
    """Return when every array of the tree has been computed."""
    for leaf in jax.tree.leaves(tree):
        leaf.block_until_ready()
