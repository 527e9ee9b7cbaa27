"""Ditto, APFL and FedAsync's mixing server against NumPy loops, through the catalog."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Upload
from idiolect.engines import Workers
from idiolect.objectives import apfl
from idiolect.problems.synthetic import quadratics
from idiolect.testing.server_runs import server_cell
from idiolect.testing.small_clients import exact, noisy_quadratics

KEY = jax.random.key(3)
PROBLEM = quadratics(clients=2, dimension=3)
CURVES, TARGET = np.array([1.0, 2.0, 0.5]), np.array([1.0, -1.0, 2.0])
W, STEP, LOCAL = np.array([0.2, 0.4, -0.3]), 0.1, 4


def loss(w):
    return 0.5 * (CURVES * (w - TARGET) ** 2).sum()


def slope(w):
    return CURVES * (w - TARGET)


def taken(name: str, **options):
    """What a client keeps, and its shared model, after the local steps of one turn; and the objective."""
    objective = catalog.algorithm(name, PROBLEM, objective={**options, "step_size": 0.05}).objective
    oracle, params = exact(loss), jnp.asarray(W)
    own = objective.begin(params, 0, KEY)
    for _ in range(LOCAL):
        own, grads, _ = objective.gradient(oracle, own, params, jnp.asarray(W), KEY)
        params = params - STEP * grads
    return own, params, objective


def test_ditto_moves_the_shared_model_as_plain_and_its_own_towards_what_was_received():
    own, params, objective = taken("ditto", **{"lambda": 0.7})
    shared, personal = W.copy(), W.copy()
    for _ in range(LOCAL):
        shared = shared - STEP * slope(shared)
        personal = personal - 0.05 * (slope(personal) + 0.7 * (personal - W))
    np.testing.assert_allclose(params, shared, rtol=1e-5)
    np.testing.assert_allclose(own.model, personal, rtol=1e-5)
    np.testing.assert_allclose(objective.adapt(exact(loss), own, params, KEY).params, personal, rtol=1e-5)


def test_a_client_of_ditto_that_never_had_a_turn_tunes_what_it_receives():
    objective = catalog.algorithm("ditto", PROBLEM, objective={"lambda": 0.7, "tune_steps": 2}).objective
    fresh, received = objective.begin(jnp.zeros(3), 0, KEY), jnp.asarray(W)
    personal = W.copy()
    for _ in range(2):
        personal = personal - 0.01 * (slope(personal) + 0.7 * (personal - W))
    np.testing.assert_allclose(objective.adapt(exact(loss), fresh, received, KEY).params, personal, rtol=1e-5)


@pytest.mark.parametrize("learn_alpha", [True, False])
def test_apfl_moves_its_part_of_the_mixture_and_its_share(learn_alpha):
    own, params, objective = taken("apfl", alpha=0.3, learn_alpha=learn_alpha)
    shared, personal, alpha = W.copy(), W.copy(), 0.3
    for _ in range(LOCAL):
        mixed = slope(alpha * personal + (1 - alpha) * shared)
        moved = alpha - 0.05 * (personal - shared) @ mixed if learn_alpha else alpha
        shared, personal, alpha = shared - STEP * slope(shared), personal - 0.05 * alpha * mixed, moved
    np.testing.assert_allclose(params, shared, rtol=1e-5)
    np.testing.assert_allclose(own.model, personal, rtol=1e-5)
    np.testing.assert_allclose(own.alpha, alpha, rtol=1e-5)
    used = objective.adapt(exact(loss), own, params, KEY).params
    np.testing.assert_allclose(used, alpha * personal + (1 - alpha) * shared, rtol=1e-5)


@pytest.mark.parametrize("name", ["ditto", "apfl"])
@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous"])
def test_the_shared_model_is_that_of_plain(name, protocol):
    problem = noisy_quadratics(noise=0.5, kind=np.float32)
    training = {"step_size": 0.02, "local_steps": 4, "batch_size": 5}
    cells = [server_cell(problem, catalog.algorithm(f"{o}+{protocol}", problem, **training)) for o in ("plain", name)]
    with Workers(1) as workers:
        ends = [cell.run(workers)[-1].params for cell in cells]
    np.testing.assert_array_equal(*ends)


def test_a_mixing_server_replaces_a_share_of_its_model_and_less_by_an_old_one():
    """FedAsync, Alg. 1: x <- (1 - alpha s) x + alpha s x_new, with s = (staleness + 1)^-1/2."""
    server = catalog.protocol_of("fedasync_mixing", {"alpha": 0.5, "staleness": "polynomial"}).server
    state, new = jnp.array([1.0, 2.0]), jnp.array([3.0, -2.0])
    state = server.absorb(server.init(state, 4), Upload(new, np.int32(1)), jnp.float32(3))
    share = 0.5 * 4**-0.5
    np.testing.assert_allclose(server.read(state), (1 - share) * np.array([1.0, 2.0]) + share * np.asarray(new))


@pytest.mark.parametrize(
    ("b", "age", "weight"),
    [
        (4.0, 0, 1.0),
        (4.0, 3, 1.0),
        (4.0, 4, 1.0),
        (4.0, 8, 0.5),
        (4.0, 40, 0.1),
        (1.0, 0, 1.0),
        (1.0, 1, 1.0),
        (1.0, 2, 0.5),
    ],
)
def test_a_delay_adaptive_step_falls_with_the_delay_once_it_is_long(b, age, weight):
    server = catalog.protocol_of("fedasync", {"staleness": "delay_adaptive", "staleness_b": b}).server
    moved = server.absorb(jnp.zeros(1), Upload(jnp.ones(1), np.int32(1)), jnp.float32(age))
    np.testing.assert_allclose(moved, [-weight], rtol=1e-6)


@pytest.mark.parametrize(("own", "end"), [(TARGET, 1.0), (2 * W - TARGET, 0.0)])
def test_apfl_mixes_with_a_share_from_nothing_to_all(own, end):
    """A personal model at the target is worth more and more, one that lies as far on the other side less and less."""
    objective, params = apfl(alpha=0.5, step_size=10.0), jnp.asarray(W)
    kept = objective.begin(jnp.asarray(own), 0, KEY)
    after, _, _ = objective.gradient(exact(loss), kept, params, params, KEY)
    assert float(after.alpha) == end
