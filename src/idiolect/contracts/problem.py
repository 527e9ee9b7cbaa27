"""The problem interface: a client's model, oracle, metric and data, and what is known of its loss."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from idiolect.contracts.aliases import Batch, Key, Params, Scalar
from idiolect.contracts.client_data import Clients, Scaling, Shard, Split
from idiolect.contracts.constants import Constants, Variation
from idiolect.contracts.objective import Known, Objective, Oracle


class Init(Protocol):
    """The parameters that training starts with."""

    def __call__(self, key: Key, /) -> Params: ...


class MakeOracle(Protocol):
    """Access to the loss on these rows, in batches of this size."""

    def __call__(self, shard: Shard, batch_size: int, /) -> Oracle: ...


class Score(Protocol):
    """A mean over a batch of how good a model is."""

    def __call__(self, params: Params, batch: Batch, /) -> Scalar: ...


class Metric(NamedTuple):
    """How a model is scored: `score` is a mean over the batch."""

    name: str
    score: Score
    higher_is_better: bool


class Optimum(Protocol):
    """The minimiser of the average cost under an objective with batches of this size; None where it is not known."""

    def __call__(self, objective: Objective, batch_size: int, /) -> Params | None: ...


class Calibrate(Protocol):
    """Fill in what a model must know of the data it will meet, from rows of the same client that are not scored."""

    def __call__(self, params: Params, shard: Shard, /) -> Params: ...


class ScoreReference(Protocol):
    """What something that no algorithm here learns scores: a row for each metric, a column for each client."""

    def __call__(self, split: Split, /) -> np.ndarray: ...


class Scene(NamedTuple):
    """Some episodes of a policy on a map: where it went, and where it should have gone."""

    paths: jax.Array | np.ndarray  # (episodes, places, 2)
    goal: jax.Array | np.ndarray  # (2,)


class ShowScene(Protocol):
    """What a model does on some rows, for a picture."""

    def __call__(self, params: Params, shard: Shard, /) -> Scene: ...


class WriteModel(Protocol):
    """Write a model for the library it comes from, as the file's suffix says, with what is told about it."""

    def __call__(self, params: Params, file: Path, about: Mapping[str, str], /) -> None: ...


class Origin(NamedTuple):
    """The library that a model comes from, and what that gets back.

    Args:
        library: What it is called.
        bridge: How its functions are reached.
        others: The same problem by its other bridges, made when they are asked for.
        state_dict: All that the library knows of a model, by its own names.
        write: Writes the same to a file (`.safetensors`), or the model as a graph where the library can (`.onnx`).
    """

    library: str
    bridge: str
    others: Mapping[str, Callable[[], "Problem"]]
    state_dict: Callable[[Params], dict[str, Any]]
    write: WriteModel

    @property
    def identity(self) -> dict[str, Any]:
        """What of it tells experiments apart; its functions follow from the problem's."""
        return {"library": self.library, "bridge": self.bridge}


class Classifier(NamedTuple):
    """What a model that tells classes apart makes of a batch, beside its loss.

    Args:
        features: A row for each sample: what the model's last layer is given.
        logits: A row for each sample: what it makes of that.
        labels: The class of each sample.
    """

    features: Callable[[Params, Batch], jax.Array]
    logits: Callable[[Params, Batch], jax.Array]
    labels: Callable[[Batch], jax.Array]


class Problem(NamedTuple):
    """Where f_i comes from; and, where they are known, its constants and minimisers, for advice, refusals and ledgers.

    Args:
        name: What it is called.
        init: The parameters that training starts with.
        oracle: Access to the loss on some rows.
        metric: The headline metric.
        clients: Who holds what.
        smoothness: The L of every f_i.
        constants: Those of every sample.
        optimum: The minimiser under an objective, where it is known.
        calibrate: For the statistics of batch normalization, which so never leave the client.
        also: Further metrics of the same models.
        references: Score the best there is, or a classic rival.
        scene: What a model does on some rows, for a picture.
        variation: That of the training data.
        origin: The library that its model comes from, if not this one.
        classifier: What its model makes of a batch, if it tells classes apart and the metric is its accuracy.
        notes: What was done to the data that a user should know of, a sentence each.
        scaling: How its inputs were scaled before the model sees them, alike for all clients, by the name of the rows.
    """

    name: str
    init: Init
    oracle: MakeOracle
    metric: Metric
    clients: Clients
    smoothness: float | None = None
    constants: Constants | None = None
    optimum: Optimum = lambda objective, batch_size: None
    calibrate: Calibrate = lambda params, shard: params
    also: tuple[Metric, ...] = ()
    references: Mapping[str, ScoreReference] = {}
    scene: ShowScene | None = None
    variation: Variation | None = None
    origin: Origin | None = None
    classifier: Classifier | None = None
    notes: tuple[str, ...] = ()
    scaling: Mapping[str, Scaling] = {}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The headline metric, and the others."""
        return (self.metric, *self.also)

    @property
    def known(self) -> Known:
        """What objectives may ask of it."""
        return Known(self.clients.total, self.smoothness, self.constants)
