"""Scores of a model mixed with what a client's own samples say: its nearest neighbours in the model's features.

O. Marfoq, G. Neglia, L. Kameni, R. Vidal. Personalized federated learning through local memorization (kNN-Per). 2022,
Section 3.

| kNN-Per | code |
| --- | --- |
| the features phi(x) of every sample of a client, with its label | the rows of its adaptation part |
| Sec. 3: the k nearest ones, each counting exp(-d(phi(x), phi(x_i))) for its label | `_nearest`, `_votes` |
| Sec. 3: lambda_m times that, and 1 - lambda_m times the model's probabilities | `_mixed` |
| lambda_m is chosen by every client, on data that is not scored | `chosen_share` |

Deviations: a client's memory is its adaptation part, as for everything that adapts here. Where `share` is not given, a
client takes the one of eleven under which its adaptation part is most likely when every sample is left out in turn. The
distance is divided by `scale`.

Laws: with a share of 0 the model is itself; what is scored is in no memory.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le

from idiolect.contracts import Batch, Classifier, Params, Scalar, Shard

NEIGHBOURS = "neighbours"  # the column of a model that is mixed with its client's neighbours
_CHUNK = 64  # rows that are compared at once
_SHARES = jnp.linspace(0, 1, 11)
_FLOOR = 1e-6  # of a probability, where it is taken a logarithm of


class Neighbours(NamedTuple):
    """How a client's own samples help the model that it received.

    Args:
        k: How many neighbours count.
        share: How much they count; by default what every client finds best on its adaptation part.
        scale: Of distances: how fast neighbours count less as they are further away.

    Example:
        >>> from idiolect.evaluation.neighbours import Neighbours
        >>> Neighbours(k=5).share is None
        True
    """

    k: Annotated[int, Ge(1)] = 10
    share: Annotated[float, Ge(0), Le(1)] | None = None
    scale: Annotated[float, Gt(0)] = 1.0


def neighbour_score(classifier: Classifier, params: Params, memory: Shard, scored: Shard, rule: Neighbours) -> Scalar:
    """The accuracy on the scored rows of a model mixed with the neighbours in a client's memory."""
    share = jnp.float32(rule.share) if rule.share is not None else chosen_share(classifier, params, memory, rule)

    def add(number: Scalar, right: Scalar) -> Scalar:
        rows, counts, _ = _chunk(scored, number)
        votes = _votes(classifier, params, rows, jnp.full(_CHUNK, -1), memory, rule)
        mixed = _mixed(classifier, params, rows, votes, share)
        return right + jnp.where(counts, mixed.argmax(-1) == classifier.labels(rows), False).sum()

    return jax.lax.fori_loop(0, _chunks(scored), add, jnp.float32(0)) / scored.size


def chosen_share(classifier: Classifier, params: Params, memory: Shard, rule: Neighbours) -> Scalar:
    """The share of the neighbours under which a client's memory is most likely, each row being left out in turn."""

    def add(number: Scalar, likely: jax.Array) -> jax.Array:
        rows, counts, places = _chunk(memory, number)
        votes, labels = _votes(classifier, params, rows, places, memory, rule), classifier.labels(rows)

        def of(share: Scalar) -> Scalar:
            told = jnp.take_along_axis(_mixed(classifier, params, rows, votes, share), labels[:, None], 1)[:, 0]
            return jnp.where(counts, jnp.log(jnp.maximum(told, _FLOOR)), 0).sum()

        return likely + jax.vmap(of)(_SHARES)

    likely = jax.lax.fori_loop(0, _chunks(memory), add, jnp.zeros(len(_SHARES)))
    return _SHARES[jnp.argmax(likely)]


def _mixed(classifier: Classifier, params: Params, rows: Batch, votes: jax.Array, share: Scalar) -> jax.Array:
    probabilities = jax.nn.softmax(classifier.logits(params, rows))
    share = jnp.where(votes.sum(-1, keepdims=True) > 0, share, 0)  # who remembers nothing asks the model
    return share * votes + (1 - share) * probabilities


def _votes(
    classifier: Classifier, params: Params, rows: Batch, but: jax.Array, memory: Shard, rule: Neighbours
) -> jax.Array:
    """Every row's distribution over labels by its neighbours, none of which stands at the place `but`."""
    distances, labels = _nearest(classifier, params, rows, but, memory, rule.k)
    weights = jnp.where(jnp.isfinite(distances), jnp.exp((distances[:, :1] - distances) / rule.scale), 0)  # exp(-d)
    classes = jax.eval_shape(classifier.logits, params, rows).shape[-1]
    return (weights[..., None] * jax.nn.one_hot(labels, classes)).sum(1) / jnp.maximum(weights.sum(1), _FLOOR)[:, None]


def _nearest(
    classifier: Classifier, params: Params, rows: Batch, but: jax.Array, memory: Shard, k: int
) -> tuple[jax.Array, jax.Array]:
    """Distances to the k nearest rows of the memory, nearest first, and their labels; infinite where there are none."""
    here = classifier.features(params, rows)

    def look(number: Scalar, best: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        there, counts, places = _chunk(memory, number)
        apart = jnp.sqrt(jnp.square(here[:, None] - classifier.features(params, there)[None]).sum(-1))
        apart = jnp.where(counts & (places != but[:, None]), apart, jnp.inf)
        labels = jnp.broadcast_to(classifier.labels(there), apart.shape)
        distances, labels = (jnp.concatenate(pair, 1) for pair in zip(best, (apart, labels), strict=True))
        order = jax.lax.top_k(-distances, k)[1]
        return jnp.take_along_axis(distances, order, 1), jnp.take_along_axis(labels, order, 1)

    nobody = (jnp.full((len(here), k), jnp.inf), jnp.zeros((len(here), k), classifier.labels(rows).dtype))
    return jax.lax.fori_loop(0, _chunks(memory), look, nobody)


def _chunks(shard: Shard) -> Scalar:
    return jnp.asarray((shard.size + _CHUNK - 1) // _CHUNK)


def _chunk(shard: Shard, number: Scalar) -> tuple[Batch, jax.Array, jax.Array]:
    """Some rows of a shard, whether each counts, and its place in the shard; one program serves shards of all sizes."""
    places = number * _CHUNK + jnp.arange(_CHUNK)
    index = shard.start + jnp.minimum(places, shard.size - 1)
    return jax.tree.map(lambda store: store[index], shard.rows), places < shard.size, places
