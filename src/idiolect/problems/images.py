"""Image classification: a data set, dealt to clients, with a model and the cross-entropy loss."""

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from annotated_types import Ge, Lt

from idiolect.contracts import Batch, Classifier, Key, Metric, Params, Problem, Scalar, Shard
from idiolect.errors import UserMistake
from idiolect.options import OneOf
from idiolect.problems.augmentation import crop_and_flip
from idiolect.problems.data.client_splits import FEWEST, Shares, split_clients
from idiolect.problems.data.datasets import Images, load_images
from idiolect.problems.data.input_scaling import Normalize, normalized
from idiolect.problems.data.partitions import Deal, by_classes
from idiolect.problems.models.networks import Model, mlp, nothing_to_calibrate
from idiolect.problems.supervised import supervised_problem

MakeModel: TypeAlias = Callable[[Sequence[int], int], Model]  # (shape of an image, number of classes)
Augmentation: TypeAlias = Literal["crop_flip"]
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
    augmentation: Augmentation | None = None,
    normalize: Normalize | None = None,
    seed: int = 0,
) -> Problem:
    """Deal the images to `clients`, of which a share `unseen` is held out, and train `model` on them.

    Args:
        name: What the problem is called.
        images: Pixels and labels.
        model: Gives logits from parameters and images.
        deal: Who gets which image, such as `idiolect.problems.data.by_classes()`.
        clients: How many there are.
        samples: Keeps only that many images, drawn at random, before they are dealt.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's data goes to training, adaptation and validation; the rest is for tests.
        augmentation: With `crop_flip`, images are shifted and mirrored at random wherever a loss is taken.
        normalize: Bring each channel to mean 0 and deviation 1: by those of all participating clients' training parts
            (`train`), or by numbers that are given, for images between 0 and 1. By default images stay between these.
        seed: Of what is kept, who gets what and who is unseen.

    Returns:
        The problem, with the cross-entropy loss; runs report the accuracy.

    Example:
        >>> from idiolect.problems import classification
        >>> from idiolect.problems.data import iid, load_images
        >>> from idiolect.problems.models import linear
        >>> made = classification("mine", load_images("digits"), linear((8, 8, 1), 10), iid(), clients=5, samples=200)
        >>> made.clients.total
        5
    """
    rng = np.random.default_rng(seed)
    if samples is not None:
        if samples > len(images.labels):
            raise UserMistake(f"problem.samples is {samples}, but {name} has only {len(images.labels)}")
        kept = rng.choice(len(images.labels), size=samples, replace=False)
        images = Images(images.pixels[kept], images.labels[kept])
    hands = deal(images.labels, clients, rng)
    if (least := min(map(len, hands))) < FEWEST:
        held = len(images.labels)
        raise UserMistake(
            f"problem.clients is {clients}, but the {held} samples of {name} leave some client with only {least}, and "
            f"each needs {FEWEST} at least; take fewer clients, {held // FEWEST} at the very most"
        )
    data = [{"image": images.pixels[hand], "label": images.labels[hand]} for hand in hands]

    def loss(params: Params, batch: Batch, key: Key) -> Scalar:
        images = _unit(batch["image"])
        if augmentation is not None:  # with a key of its own, so that a model's noise stays what it is
            images = crop_and_flip(images, jax.random.fold_in(key, 1))
        logits = model.apply(params, images, key)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    def accuracy(params: Params, batch: Batch) -> Scalar:
        return (model.apply(params, _unit(batch["image"]), None).argmax(-1) == batch["label"]).mean()

    split = split_clients(data, shares=shares, unseen=unseen, rng=rng)
    scaling = {}
    if normalize is not None:
        split, scaling["image"] = normalized(split, normalize)
    metric = Metric("accuracy", accuracy, higher_is_better=True)
    made = supervised_problem(name, model.init, loss, metric, split, calibrate=_calibration(model))
    return made._replace(classifier=_classifier(model), scaling=scaling)


# What is said of the options above is true of a data set's, too.
_OPTIONS = "".join(re.findall(r"^ {4}clients:.*?(?=^ {4}seed:)", inspect.getdoc(classification) or "", re.M | re.S)) + (
    "    partition: Who gets which image.\n    model: What gives logits from parameters and images.\n"
)


def image_problem(dataset: str) -> Callable[..., Problem]:
    """A factory of problems on one of the data sets."""

    def factory(
        *,
        clients: Annotated[int, Ge(1)] = 30,
        samples: Annotated[int, Ge(1)] | None = None,
        unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
        shares: Shares = Shares(),
        augmentation: Augmentation | None = None,
        normalize: Normalize | None = None,
        partition: Annotated[Callable[[], Deal], OneOf("partitions")] = by_classes,
        model: Annotated[MakeModel, OneOf("models")] = mlp,
        seed: int = 0,
        data_dir: Path | None = None,
    ) -> Problem:
        data = load_images(dataset, data_dir)
        made = model(data.pixels.shape[1:], int(data.labels.max()) + 1)
        return classification(
            dataset,
            data,
            made,
            partition(),
            clients=clients,
            samples=samples,
            unseen=unseen,
            shares=shares,
            augmentation=augmentation,
            normalize=normalize,
            seed=seed,
        )

    factory.__name__ = factory.__qualname__ = dataset
    factory.__doc__ = f"Images of {dataset}, dealt to clients by a partition, for a model.\n\nArgs:\n{_OPTIONS}"
    return factory


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


def _classifier(model: Model) -> Classifier | None:
    if (features := model.features) is None:
        return None
    return Classifier(
        features=lambda params, batch: features(params, _unit(batch["image"])),
        logits=lambda params, batch: model.apply(params, _unit(batch["image"]), None),
        labels=lambda batch: batch["label"],
    )


def _unit(pixels: jax.Array) -> jax.Array:
    return pixels.astype(jnp.float32) / 255 if pixels.dtype == jnp.uint8 else pixels
