"""Laws that every objective obeys, on every kind of client: values, gradients and limits agree with each other."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from idiolect import catalog
from idiolect.catalog import OBJECTIVES
from idiolect.contracts import Constants, Known, Objective, Oracle
from idiolect.objectives import maml, moreau, plain, proximal
from idiolect.problems.synthetic import quadratics
from idiolect.testing import objective_laws
from idiolect.testing.small_clients import CLIENTS, a_direction, exact
from idiolect.theory import admissible_step_size

KEY = jax.random.key(7)

# Accurate settings of every objective: with these, a gradient must be the derivative of its value.
ACCURATE: dict[str, Objective] = {
    "plain": plain(),
    "proximal": proximal(mu=0.7),
    "maml-0": maml(steps=0),
    "maml-1": maml(steps=1, step_size=0.1),
    "maml-3": maml(steps=3, step_size=0.1),
    "maml-3-shared": maml(steps=3, step_size=0.1, batches="shared"),
    "maml-2-hessian-free": maml(steps=2, step_size=0.1, derivative="hessian_free", delta=1e-5),
    "moreau": moreau(lambda_=6.0, accuracy=1e-7, iterations=5000, inner_step_size=0.1),
}
KEPT = {name: {"keep": []} for name in ("quantized", "binary_relax", "post_training")} | {"ditto": {}, "apfl": {}}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def assert_close(left, right, **tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), left, right)


def gradient(objective: Objective, oracle: Oracle, params, received):
    """Of an objective that keeps nothing."""
    return objective.gradient(oracle, (), params, received, KEY)[1:]


def test_every_objective_of_the_catalog_is_tested_here():
    # Those that keep something on the client have laws of their own, in tests/quantization and tests/sharing.
    shared = {
        name for name, factory in OBJECTIVES.items() if objective_laws.is_stateless(factory(**KEPT.get(name, {})))
    }
    assert {name.split("-")[0] for name in ACCURATE} == shared
    assert {*OBJECTIVES} - shared == {*KEPT}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ACCURATE)
def test_gradient_matches_finite_differences_of_the_value(name, client):
    objective_laws.gradient_is_the_slope(ACCURATE[name], client)


@pytest.mark.parametrize(
    ("name", "client"),
    [
        pytest.param(name, client, marks=[pytest.mark.slow] * (name in KEPT and client != "quadratic"))
        for name in (*ACCURATE, *KEPT)
        for client in CLIENTS
    ],
)
def test_gradient_and_adaptation_keep_the_shape_of_the_parameters_and_tell_the_loss(name, client):
    objective = ACCURATE[name] if name in ACCURATE else OBJECTIVES[name](**KEPT[name])
    objective_laws.everything_keeps_its_type(objective, client)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("derivative", ["exact", "first_order", "hessian_free"])
def test_maml_without_steps_or_with_steps_of_size_zero_is_plain(client, derivative):
    oracle, params = CLIENTS[client]()
    expected, _ = gradient(plain(), oracle, params, params)
    for objective in (maml(steps=0, derivative=derivative), maml(steps=2, step_size=0.0, derivative=derivative)):
        grads, _ = gradient(objective, oracle, params, params)
        assert_close(grads, expected, rtol=0, atol=0)


def test_maml_without_steps_draws_the_very_batch_that_plain_draws():
    noisy = noisy_oracle()
    expected, _ = gradient(plain(), noisy, jnp.ones(3), None)
    assert_close(gradient(maml(steps=0), noisy, jnp.ones(3), None)[0], expected, rtol=0, atol=0)


@pytest.mark.parametrize("client", CLIENTS)
def test_proximal_without_a_pull_or_at_the_received_model_is_plain(client):
    oracle, params = CLIENTS[client]()
    expected, _ = gradient(plain(), oracle, params, params)
    assert_close(gradient(proximal(mu=0.0), oracle, params, a_direction(params, 1))[0], expected, rtol=1e-12)
    assert_close(gradient(proximal(mu=3.0), oracle, params, params)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("client", CLIENTS)
def test_moreau_gradient_tends_to_the_plain_one_as_lambda_grows(client):
    oracle, params = CLIENTS[client]()
    expected, _ = gradient(plain(), oracle, params, params)

    @jax.jit
    def distance(lambda_):
        envelope = moreau(lambda_=lambda_, accuracy=1e-9, iterations=2000)
        return optax.tree.norm(optax.tree.sub(gradient(envelope, oracle, params, params)[0], expected))

    near, far = distance(1e2), distance(1e4)
    assert far < 1e-3 * float(optax.tree.norm(expected))
    assert 50 < near / far < 200  # first order in 1 / lambda


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("client", CLIENTS)
def test_exact_maml_equals_back_propagation_through_the_inner_loop(client, steps):
    oracle, params = CLIENTS[client]()
    objective = maml(steps=steps, step_size=0.2)

    def unrolled(params):
        for _ in range(steps):
            params = optax.tree.add_scale(params, -0.2, jax.grad(lambda w: oracle.value(w, KEY))(params))
        return oracle.value(params, KEY)

    assert_close(gradient(objective, oracle, params, params)[0], jax.grad(unrolled)(params), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 3])
def test_shared_batches_make_the_stochastic_gradient_unbiased_for_the_stochastic_value(steps):
    """PARS-Push: with the Hessian of step r on the batch of step r, gradient(key) is the derivative of value(key)."""
    objective, params, oracle = (
        maml(steps=steps, step_size=0.1, batches="shared"),
        jnp.array([0.3, -1.0, 2.0]),
        noisy_oracle(),
    )
    expected = jax.grad(lambda w: objective.value(oracle, (), w, w, KEY))(params)
    np.testing.assert_allclose(gradient(objective, oracle, params, params)[0], expected, rtol=1e-9)
    independent = maml(steps=steps, step_size=0.1, batches="independent")
    assert not np.allclose(gradient(independent, oracle, params, params)[0], expected, rtol=1e-3)


@pytest.mark.parametrize("client", ["logistic", "small_net"])
def test_hessian_free_tends_to_exact_with_the_square_of_delta(client):
    oracle, params = CLIENTS[client]()
    expected, _ = gradient(maml(steps=2, step_size=0.3), oracle, params, params)

    def error(delta):
        objective = maml(steps=2, step_size=0.3, derivative="hessian_free", delta=delta)
        return float(optax.tree.norm(optax.tree.sub(gradient(objective, oracle, params, params)[0], expected)))

    assert error(0.05) < 0.3 * error(0.1)  # a quarter, to second order
    assert error(1e-4) < 1e-7


@pytest.mark.parametrize("batches", ["independent", "shared"])
def test_hessian_free_takes_the_two_gradients_of_a_difference_on_one_batch(batches):
    """Per-FedAvg (117). On two batches the difference would be their noise, divided by 2 delta."""
    params, oracle = jnp.array([0.3, -1.0, 2.0]), noisy_oracle()
    exactly, free = (
        gradient(maml(steps=2, step_size=0.1, batches=batches, delta=1e-4, derivative=how), oracle, params, params)[0]
        for how in ("exact", "hessian_free")
    )
    np.testing.assert_allclose(free, exactly, rtol=1e-6)


def test_first_order_drops_the_hessian_and_nothing_else():
    oracle, params = CLIENTS["small_net"]()
    stepped = optax.tree.add_scale(params, -0.2, oracle.gradient(params, KEY)[1])
    grads, _ = gradient(maml(steps=1, step_size=0.2, derivative="first_order"), oracle, params, params)
    assert_close(grads, oracle.gradient(stepped, KEY)[1], rtol=1e-12)


def batches_drawn(objective: Objective) -> int:
    """By one gradient."""
    oracle, params = CLIENTS["quadratic"]()
    keys = set()

    def spy(function):
        def called(*args):
            keys.add(tuple(jax.random.key_data(args[-1]).tolist()))
            return function(*args)

        return called

    gradient(objective, Oracle(*map(spy, oracle)), params, params)
    return len(keys)


@pytest.mark.parametrize(("batches", "expected"), [("independent", 5), ("shared", 3)])
def test_maml_draws_as_many_batches_as_the_papers_say(batches, expected):
    """Two steps: two inner and one outer batch, and two more for the Hessians unless they are shared."""
    assert batches_drawn(maml(steps=2, batches=batches)) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("per_fedavg", 5), ("persa_fl_maml", 5), ("maml_rl", 5), ("pars_push", 3)]
)
def test_the_catalog_s_meta_learners_draw_as_many_batches_as_their_papers_say(name, expected):
    """PARS-Push, Alg. 1, l. 11: the Hessian of step r on the batch of step r."""
    made = catalog.algorithm(name, quadratics(clients=2, dimension=2, samples=3), objective={"steps": 2})
    assert batches_drawn(made.objective) == expected


def test_moreau_tells_what_it_reached_and_when_the_cap_cut_it_short():
    oracle, params = CLIENTS["quadratic"]()
    good = moreau(lambda_=5.0, accuracy=1e-6, iterations=10_000, inner_step_size=0.1)
    _, info = gradient(good, oracle, params, params)
    assert info["capped"] == 0
    theta = good.adapt(oracle, (), params, KEY).params
    at_theta = optax.tree.add_scale(oracle.gradient(theta, KEY)[1], 5.0, optax.tree.sub(theta, params))
    np.testing.assert_allclose(info["residual"], optax.tree.norm(at_theta), rtol=1e-3)
    assert info["residual"] <= 1e-6

    poor = moreau(lambda_=5.0, accuracy=1e-6, iterations=2, inner_step_size=0.1)
    _, info = gradient(poor, oracle, params, params)
    assert info["capped"] == 1
    assert info["residual"] > 1e-6


def test_moreau_with_no_accuracy_takes_exactly_the_number_of_steps():
    oracle, params = CLIENTS["quadratic"]()
    theta = params
    for _ in range(4):
        theta = theta - 0.05 * (oracle.gradient(theta, KEY)[1] + 3.0 * (theta - params))
    found = moreau(lambda_=3.0, iterations=4, inner_step_size=0.05).adapt(oracle, (), params, KEY).params
    np.testing.assert_allclose(found, theta, rtol=1e-12)


@pytest.mark.parametrize("lambda_", [2.0, 20.0])
def test_an_inner_step_of_moreau_is_one_over_twice_lambda_unless_told(lambda_):
    """From w, where lambda does not pull, theta = w - grad / (2 lambda): lambda (w - theta) is half the gradient.

    The second step, from there: theta - (grad(theta) + lambda (theta - w)) / (2 lambda).
    """
    oracle, w = CLIENTS["quadratic"]()
    slope = oracle.gradient(w, KEY)[1]
    np.testing.assert_allclose(gradient(moreau(lambda_=lambda_, iterations=1), oracle, w, w)[0], slope / 2, rtol=1e-12)
    once = w - slope / (2 * lambda_)
    twice = (once + w) / 2 - oracle.gradient(once, KEY)[1] / (2 * lambda_)
    found = moreau(lambda_=lambda_, iterations=2).adapt(oracle, (), w, KEY).params
    np.testing.assert_allclose(found, twice, rtol=1e-12)


def noisy_oracle() -> Oracle:
    """A random smooth function for every key."""

    def at(key):
        slope, bend = jax.random.normal(key, (2, 3))
        return lambda w: (jnp.cosh(0.5 * bend * w) + slope * w).sum()

    return Oracle(
        value=lambda w, key: at(key)(w),
        gradient=lambda w, key: jax.value_and_grad(at(key))(w),
        hessian_product=lambda w, v, key: jax.jvp(jax.grad(at(key)), (w,), (v,))[1],
    )


def test_a_personal_model_of_moreau_sees_as_many_batches_as_plain_steps_would():
    """Line 10 has one batch D for all inner steps; a client's own model must not see less than its rivals'."""
    oracle, w = noisy_oracle(), jnp.array([0.3, -0.2, 0.1])
    personal = training = w
    for step in range(4):
        personal = personal - 0.05 * (oracle.gradient(personal, jax.random.fold_in(KEY, step))[1] + 3 * (personal - w))
        training = training - 0.05 * (oracle.gradient(training, KEY)[1] + 3 * (training - w))
    made = moreau(lambda_=3.0, iterations=4, inner_step_size=0.05)
    np.testing.assert_allclose(made.adapt(oracle, (), w, KEY).params, personal, rtol=1e-10)
    np.testing.assert_allclose(gradient(made, oracle, w, w)[0], 3 * (w - training), rtol=1e-10)


def test_an_oracle_of_a_plain_function_is_enough():
    grads, _ = gradient(plain(), exact(lambda w: (w**2).sum()), jnp.array([1.0, 2.0]), None)
    np.testing.assert_allclose(grads, [2.0, 4.0])


def test_maml_warns_where_lemma_1_of_pars_push_keeps_the_cost_convex_no_longer():
    constants = Constants(1.0, 4.0, 2.0, 3.0)
    bound = admissible_step_size(constants, 2)
    for step_size, warnings in ((0.99 * bound, 0), (1.01 * bound, 1)):
        told = maml(steps=2, step_size=step_size).check(Known(4, 4.0, constants))
        assert len(told) == warnings
        assert all(f"above {bound:.3g}, up to which PARS-Push, Lemma 1" in line for line in told)
        assert not maml(steps=2, step_size=step_size).check(Known(4, 4.0)), "of constants that nobody knows"
    assert not maml(steps=0, step_size=9.0).check(Known(4, 4.0, constants))
