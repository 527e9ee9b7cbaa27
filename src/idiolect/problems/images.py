"""Image classification: a data set, dealt to clients, with a model and the cross-entropy loss."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Batch, Key, Metric, Params, Problem, Scalar, Shard
from idiolect.errors import UserMistake
from idiolect.problems.data.client_splits import Shares, split_clients
from idiolect.problems.data.datasets import Images
from idiolect.problems.data.partitions import Deal
from idiolect.problems.models.networks import Model, nothing_to_calibrate
from idiolect.problems.supervised import supervised_problem

_CALIBRATION = 128  # rows that a model is calibrated on, at most


def classification(
    name: str,
    images: Images,
    model: Model,
    deal: Deal,
    *,
    clients: int,
    samples: int | None = None,
    unseen: float = 0.0,
    shares: Shares = Shares(),
    seed: int = 0,
) -> Problem:
    """Deal the images to `clients`, of which a share `unseen` is held out, and train `model` on them.

    `samples` keeps only that many images, drawn at random, before they are dealt.
    """
    rng = np.random.default_rng(seed)
    if samples is not None:
        if samples > len(images.labels):
            raise UserMistake(f"problem.samples is {samples}, but {name} has only {len(images.labels)}")
        kept = rng.choice(len(images.labels), size=samples, replace=False)
        images = Images(images.pixels[kept], images.labels[kept])
    hands = deal(images.labels, clients, rng)
    data = [{"image": images.pixels[hand], "label": images.labels[hand]} for hand in hands]

    def loss(params: Params, batch: Batch, key: Key) -> Scalar:
        logits = model.apply(params, _unit(batch["image"]), key)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    def accuracy(params: Params, batch: Batch) -> Scalar:
        return (model.apply(params, _unit(batch["image"]), None).argmax(-1) == batch["label"]).mean()

    split = split_clients(data, shares=shares, unseen=unseen, rng=rng)
    metric = Metric("accuracy", accuracy, higher_is_better=True)
    return supervised_problem(name, model.init, loss, metric, split, calibrate=_calibration(model))


def _calibration(model: Model) -> Callable[[Params, Shard], Params]:
    """Calibrate on a client's first rows, whose order is random; one compiled program serves shards of all sizes."""
    if model.calibrate is nothing_to_calibrate:
        return lambda params, shard: params

    def calibrate(params: Params, shard: Shard) -> Params:
        offset = jnp.arange(_CALIBRATION)
        index = shard.start + jnp.minimum(offset, shard.size - 1)
        weights = jnp.where(offset < shard.size, 1 / jnp.minimum(shard.size, _CALIBRATION), 0)
        return model.calibrate(params, _unit(shard.rows["image"][index]), weights.astype(jnp.float32))

    return calibrate


def _unit(pixels: jax.Array) -> jax.Array:
    return pixels.astype(jnp.float32) / 255 if pixels.dtype == jnp.uint8 else pixels
