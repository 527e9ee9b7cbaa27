"""Policies as triples of pure functions: parameters from a key, an action from an observation, and how likely it was.

All of them begin without a preference: the last layer of a network is zero, so that the first trajectories explore.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idiolect.contracts import Key, Params, PyTree, Scalar
from idiolect.problems.models.networks import Model, mlp


class Policy(NamedTuple):
    """pi(a | s; w) for a single observation; what it is a policy for must have actions of the same kind."""

    init: Callable[[Key], Params]
    sample: Callable[[Params, jax.Array, PyTree], jax.Array]  # (params, observation, a step's noise) -> action
    log_prob: Callable[[Params, jax.Array, jax.Array], Scalar]  # (params, observation, action)
    noise: Callable[[Key, int], PyTree] = jax.random.split  # what so many steps draw their actions from: a key each


def tabular_policy(cells: int, actions: int) -> Policy:
    """A softmax over one preference per cell and action; the observation is a cell's number, or a 1 in its place.

    An action takes one uniform number, drawn together with those of all other steps.
    """

    def cell(observation: jax.Array) -> jax.Array:
        return observation if observation.ndim == 0 else observation.argmax()

    def init(key: Key) -> Params:
        return jnp.zeros((cells, actions))

    def sample(params: Params, observation: jax.Array, uniform: jax.Array) -> jax.Array:
        bounds = jnp.cumsum(jax.nn.softmax(params), axis=1)[:, :-1]  # of the whole table: once for all trajectories
        return (uniform >= bounds[cell(observation)]).sum(dtype=jnp.int32)

    def log_prob(params: Params, observation: jax.Array, action: jax.Array) -> Scalar:
        return jax.nn.log_softmax(params)[cell(observation), action]

    return Policy(init, sample, log_prob, lambda key, steps: jax.random.uniform(key, (steps,)))


def softmax_policy(features: int, actions: int, hidden: Sequence[int] = (32,)) -> Policy:
    """A softmax over the outputs of a small network."""
    network = mlp((features,), actions, hidden=hidden, activation="tanh")
    return _softmax(_silent(network), _one(network))


def gaussian_policy(features: int, dimension: int, hidden: Sequence[int] = (), deviation: float = 0.5) -> Policy:
    """Normal actions around the output of a small network; their standard deviation is learned too, as its logarithm.

    Without hidden layers the mean is linear in the observation.
    """
    network = mlp((features,), dimension, hidden=hidden, activation="tanh")
    begin, apply = _silent(network), _one(network)

    def init(key: Key) -> Params:
        return {"mean": begin(key), "log_deviation": jnp.full(dimension, jnp.log(deviation))}

    def sample(params: Params, observation: jax.Array, key: Key) -> jax.Array:
        mean = apply(params["mean"], observation)
        return mean + jnp.exp(params["log_deviation"]) * jax.random.normal(key, mean.shape, mean.dtype)

    def log_prob(params: Params, observation: jax.Array, action: jax.Array) -> Scalar:
        scaled = (action - apply(params["mean"], observation)) * jnp.exp(-params["log_deviation"])
        return (-0.5 * scaled**2 - params["log_deviation"] - 0.5 * jnp.log(2 * jnp.pi)).sum()

    return Policy(init, sample, log_prob)


def _softmax(init: Callable[[Key], Params], logits: Callable[[Params, jax.Array], jax.Array]) -> Policy:
    def sample(params: Params, observation: jax.Array, key: Key) -> jax.Array:
        return jax.random.categorical(key, logits(params, observation))

    def log_prob(params: Params, observation: jax.Array, action: jax.Array) -> Scalar:
        return jax.nn.log_softmax(logits(params, observation))[action]

    return Policy(init, sample, log_prob)


def _silent(network: Model) -> Callable[[Key], Params]:
    """The network's first parameters, with nothing to say yet."""

    def init(key: Key) -> Params:
        *layers, last = network.init(key)
        return [*layers, jax.tree.map(jnp.zeros_like, last)]

    return init


def _one(network: Model) -> Callable[[Params, jax.Array], jax.Array]:
    """The network on a single observation."""
    return lambda params, observation: network.apply(params, observation[None], None)[0]
