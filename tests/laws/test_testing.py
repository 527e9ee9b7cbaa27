"""`idiolect.testing` sees what is wrong: algorithms broken on purpose, and the law that each of them breaks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from idiolect import objectives, protocols
from idiolect.contracts import Mass, stateless
from idiolect.errors import UserMistake
from idiolect.testing import Training, check_objective, check_peer, check_protocol

SLOPE = "the gradient is the slope of the value"
TYPES = "gradient and adaptation keep structure, shapes and types"


def value(oracle, params, received, key):
    return oracle.value(params, key)


def gradient(oracle, params, received, key):
    loss, grads = oracle.gradient(params, key)
    return grads, {"loss": loss}


def with_gradient(change, report=lambda loss: {"loss": loss}):
    """The plain objective with its gradient, its parameters and its reports changed."""

    def changed(oracle, params, received, key):
        loss, grads = oracle.gradient(params, key)
        return change(grads, params), report(loss)

    return stateless(value, changed)


def one_key_for_all(oracle, params, received, key):
    return gradient(oracle, params, received, jax.random.key(0))


def coin():
    """Draws from elsewhere than the key, when it is traced."""
    rng = np.random.default_rng()
    return with_gradient(lambda grads, params: optax.tree.scale(1 + rng.random(), grads))


def wider_and_wider():
    """Keeps a list that grows by one with every gradient."""
    return objectives.plain()._replace(
        begin=lambda params, client, key: jnp.zeros(1),
        gradient=lambda oracle, own, params, received, key: (
            jnp.append(own, 0.0),
            *gradient(oracle, params, received, key),
        ),
    )


BROKEN_OBJECTIVES = {
    "wrong sign": (with_gradient(lambda grads, params: optax.tree.scale(-1, grads)), SLOPE),
    "gradient of another value": (with_gradient(lambda grads, params: optax.tree.add(grads, params)), SLOPE),
    "wrong type": (with_gradient(lambda grads, params: jax.tree.map(lambda g: g.astype(jnp.float16), grads)), TYPES),
    "wrong structure": (with_gradient(lambda grads, params: [grads]), TYPES),
    "adapts to nothing": (stateless(value, gradient, lambda oracle, params, key: ()), TYPES),
    "keeps more and more": (wider_and_wider(), TYPES),
    "no loss": (with_gradient(lambda grads, params: grads, lambda loss: {"cost": loss}), "a finite loss"),
    "infinite loss": (with_gradient(lambda grads, params: grads, lambda loss: {"loss": loss / 0.0}), "a finite loss"),
    "one batch for all": (stateless(value, one_key_for_all), "different batches differ"),
    "a coin": (coin(), "same key, same result"),
    "no JAX": (
        stateless(lambda oracle, params, received, key: float(oracle.value(params, key)), gradient),
        "objectives can be compiled",
    ),
}


@pytest.mark.parametrize("fault", BROKEN_OBJECTIVES)
def test_a_broken_objective_breaks_the_law_that_is_named(fault):
    objective, law = BROKEN_OBJECTIVES[fault]
    with pytest.raises(AssertionError, match=rf"^the law '[^']*{law}[^']*' is broken: .+"):
        check_objective(objective)


def test_a_slope_is_not_asked_where_it_is_not_meant_and_learning_is():
    """Uphill, but not held to its value: it does not learn."""
    uphill = with_gradient(lambda grads, params: optax.tree.scale(-0.1, grads))
    with pytest.raises(
        AssertionError, match=r"the law 'it learns' is broken: .* went from .* to .*, but must fall below"
    ):
        check_objective(uphill, exact=False)


def test_objectives_of_both_kinds_pass():
    check_objective(objectives.maml, exact=False, derivative="first_order", step_size=0.1)
    check_objective(objectives.post_training(keep=[], lambda_p=0.5, step_size=0.05))


def with_server(protocol=None, work=None, **functions):
    made = protocol or protocols.asynchronous()
    return made._replace(server=made.server._replace(**functions), work=work or made.work)


def favours_some(learner):
    """Clients send more the higher their number is."""
    made = protocols.asynchronous().work(learner)

    def turn(number, offer, shard, key):
        _, upload, info = made.turn((), offer, shard, key)
        return number, upload._replace(delta=optax.tree.scale(1 + number, upload.delta)), info

    return made._replace(init=lambda offer, client, key: jnp.float32(client / 10), turn=turn, own=lambda number: ())


def sends_pairs(learner):
    """Clients send their difference twice."""
    made = protocols.asynchronous().work(learner)

    def turn(own, offer, shard, key):
        own, upload, info = made.turn(own, offer, shard, key)
        return own, upload._replace(delta=(upload.delta, upload.delta)), info

    return made._replace(turn=turn)


def half_precision(state, upload, staleness):
    return (state - upload.delta).astype(jnp.float16)


BROKEN_PROTOCOLS = {
    "depends on the order of clients": (
        with_server(work=favours_some),
        "a permutation of the clients permutes the results",
    ),
    "changes types": (with_server(absorb=half_precision), "no update changes a type"),
    "sends what nobody expects": (
        with_server(work=sends_pairs),
        "what clients send has the structure of what they are offered",
    ),
    "goes uphill": (
        with_server(absorb=lambda state, upload, staleness: state + 0.1 * upload.delta),
        "it learns",
    ),
}


@pytest.mark.parametrize("fault", BROKEN_PROTOCOLS)
def test_a_broken_protocol_breaks_the_law_that_is_named(fault):
    protocol, law = BROKEN_PROTOCOLS[fault]
    with pytest.raises(AssertionError, match=f"^the law '{law}' is broken: yours: .+"):
        check_protocol(protocol)


def test_protocols_pass_that_do_not_learn_and_need_not():
    check_protocol(with_server(absorb=lambda state, upload, staleness: state + 0.1 * upload.delta), learns=False)


def leaky(node, gain):
    """A hundredth of what arrives is gone."""
    mass = optax.tree.add(node.mass, optax.tree.scale(0.99, gain))
    return node._replace(mass=Mass(mass.x, mass.y))


def single(node, descent, round):
    node, message = protocols.running_sum().emit(node, descent, round)
    return node._replace(mass=jax.tree.map(lambda leaf: leaf.astype(jnp.float32), node.mass)), message


BROKEN_PEERS = {
    "loses mass": (protocols.running_sum()._replace(settle=leaky), "mass is conserved"),
    "changes types": (protocols.running_sum()._replace(emit=single), "no waking changes a type"),
    "shares that are called sums": (
        protocols.push_sum()._replace(carries="sums"),
        "the fast and the stepwise engine agree",
    ),
}


@pytest.mark.parametrize("fault", BROKEN_PEERS)
def test_a_broken_peer_breaks_the_law_that_is_named(fault):
    peer, law = BROKEN_PEERS[fault]
    with pytest.raises(AssertionError, match=f"^the law '{law}' is broken: .+"):
        check_peer(peer)


def test_peers_pass():
    check_peer(protocols.gossip, training=Training(local_steps=1, step_size=0.05, batch_size=1))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(UserMistake, match="must be of the kind Objective"):
        check_objective(protocols.running_sum())
    with pytest.raises(UserMistake, match="mu are options of a factory"):
        check_objective(objectives.plain(), mu=1.0)
