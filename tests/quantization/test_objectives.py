"""Objectives that keep weights and levels of their own: what they must agree with, and what they leave behind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.engines import Workers, prepare, simulate
from idiolect.network import Network, draw_timeline
from idiolect.objectives import binary_relax, post_training, quantized
from idiolect.problems.synthetic import quadratics
from idiolect.quantization.personal import Own
from idiolect.quantization.rates import Changing
from idiolect.testing.small_clients import CLIENTS, exact

N, D = 4, 6
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def problem():
    start = jnp.array([-1.1, -0.4, 0.13, 0.3, 0.9, 1.7])
    return quadratics(clients=N, dimension=D, noise=0.1, unseen=0.25, seed=5)._replace(init=lambda key: start)


def end_of(problem, name, objective, horizon=30.0, step_size=0.5):
    algorithm = catalog.algorithm(name, problem, objective=objective, local_steps=4, step_size=step_size, batch_size=3)
    schedule = algorithm.protocol.schedule
    table = draw_timeline(Network(), problem.clients.participating, schedule, horizon=horizon, seed=1)
    with Workers(2) as workers:
        return list(simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=0, times=[horizon]))[-1]


def same(left, right, **tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), left, right)


def test_full_precision_and_alone_it_is_plain_training(problem):
    ours = end_of(problem, "local_quantized", {"bits": 32, "step_size": 0.05})
    plain = end_of(problem, "local", {}, step_size=0.05)
    for client in problem.clients.participating:
        same(ours.own(client).weights, plain.model(client), rtol=1e-6)
        assert ours.own(client).levels == {}


def test_without_a_pull_and_without_learning_levels_weights_are_those_of_full_precision(problem):
    free = {"keep": [], "lambda": 0.0, "centers_step_size": 0.0, "lambda_p": 0.3}
    rounded, full = (end_of(problem, "qupel", free | {"bits": bits}) for bits in (2, 32))
    same(rounded.params, full.params, rtol=1e-6)
    same(rounded.own(0).weights, full.own(0).weights, rtol=1e-6)


def test_clients_have_the_widths_they_were_dealt(problem):
    end = end_of(problem, "qupel", {"keep": [], "bits": {3: 1, 1: 2, 32: 1}, "lambda_p": 0.3})
    counts = [[len(levels) for levels in end.own(client).levels.values()] for client in range(N)]
    assert counts == [[8], [2], [2], []]


def test_after_fine_tuning_every_weight_is_a_level_and_the_rest_is_free(problem):
    end = end_of(problem, "qupel", {"keep": [], "bits": 1, "lambda_p": 0.3, "fine_tune_after": 6})
    (client, *_) = problem.clients.participating
    own = end.own(client)
    assert int(own.steps) > 6
    assert set(np.asarray(own.weights).tolist()) <= set(np.asarray(next(iter(own.levels.values()))).tolist())


def test_an_unseen_client_rounds_the_model_it_receives(problem):
    objective = {"keep": [], "bits": 1, "lambda_p": 0.3, "centers": "quantiles"}
    end = end_of(problem, "qupel", objective)
    (stranger,) = problem.clients.unseen
    same(end.own(stranger).weights, end.params)
    (levels,) = end.own(stranger).levels.values()
    same(levels, np.quantile(np.asarray(end.params), [0.25, 0.75]), rtol=1e-5)


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] * (k == "small_net")) for k in CLIENTS])
def test_the_value_is_equation_2_and_its_slope_in_the_shared_model_is_line_8(kind):
    oracle, params = CLIENTS[kind]()
    objective = quantized(levels=3, keep=["vectors"], lambda_=0.7, lambda_p=0.4, sharpness=2.0, centers="quantiles")
    own = objective.begin(params, 0, KEY)
    shared = jax.tree.map(lambda leaf: leaf + 0.3, params)
    leaves = jax.tree.leaves(params)
    rounded = objective.adapt(oracle, own, shared, KEY)
    apart = sum(
        np.abs(np.asarray(a) - np.asarray(b)).sum()
        for a, b in zip(leaves, jax.tree.leaves(rounded.params), strict=True)
    )
    soft = _soft_value(oracle, params, own)
    by_hand = oracle.value(params, KEY) + soft + 0.7 * 0.5 * apart + 0.5 * 0.4 * 0.09 * sum(a.size for a in leaves)
    assert float(objective.value(oracle, own, shared, shared, KEY)) == pytest.approx(float(by_hand), rel=1e-5)
    moved, slope, _ = objective.gradient(oracle, own, shared, shared, KEY)
    derivative = jax.grad(lambda w: objective.value(oracle, moved, w, shared, KEY))(shared)
    same(slope, derivative, rtol=1e-4, atol=1e-6)


def test_the_value_in_full_precision_has_no_term_of_rounded_weights():
    oracle, start = CLIENTS["quadratic"]()
    objective = quantized(bits=32, lambda_=0.7, lambda_p=0.4)
    own, shared = objective.begin(start, 0, KEY), start + 0.3
    by_hand = float(oracle.value(start, KEY)) + 0.5 * 0.4 * 0.09 * start.size
    assert float(objective.value(oracle, own, shared, shared, KEY)) == pytest.approx(by_hand, rel=1e-5)


def _soft_value(oracle, params, own: Own):
    """f at sums of sigmoids, written out over the named leaves."""
    flat, tree = jax.tree_util.tree_flatten_with_path(params)
    levels = iter(own.levels.values())
    matrices = any(leaf.ndim > 1 for _, leaf in flat)
    rounded = []
    for _, leaf in flat:
        if matrices and leaf.ndim < 2:
            rounded.append(leaf)
            continue
        c = np.asarray(next(levels))
        sigma = 1 / (1 + np.exp(-2.0 * (np.asarray(leaf)[..., None] - (c[1:] + c[:-1]) / 2)))
        rounded.append(jnp.asarray(c[0] + sigma @ np.diff(c), leaf.dtype))
    return oracle.value(jax.tree.unflatten(tree, rounded), KEY)


def test_binary_relax_against_a_loop():
    oracle, start = CLIENTS["quadratic"]()
    objective = binary_relax(keep=[], lambda_=1.5, step_size=0.1, fine_tune_after=12)
    own, y = objective.begin(start, 0, KEY), np.asarray(start, np.float64)
    for t in range(20):
        own, slope, _ = objective.gradient(oracle, own, start, start, KEY)
        projected = np.abs(y).mean() * np.sign(y)  # the best s {-1, 1}: Yin et al., Sec. 2
        x = (1.5 * projected + y) / 2.5 if t < 12 else projected
        y = y - 0.1 * np.asarray(oracle.gradient(jnp.asarray(x, jnp.float32), KEY)[1], np.float64)
        assert float(jnp.abs(slope).max()) == 0.0
    np.testing.assert_allclose(own.weights, y, rtol=1e-4)
    np.testing.assert_allclose(
        objective.adapt(oracle, own, start, KEY).params, np.abs(y).mean() * np.sign(y), rtol=1e-4
    )


def test_binary_relax_of_two_bits_begins_at_the_scale_that_fits_its_first_rounding():
    """Yin et al., Sec. 2, for more than two levels: round with a scale that keeps the mean size, then fit the scale."""
    weights = np.random.default_rng(4).standard_normal((7, 9)).astype(np.float32) ** 3
    own = binary_relax(bits=2, keep=[]).begin({"weight": jnp.asarray(weights)}, 0, KEY)
    grid = np.array([-3.0, -1.0, 1.0, 3.0])
    scale = np.abs(weights).mean() / 2  # the grid's own mean size is two
    rounded = grid[np.abs(weights[..., None] - scale * grid).argmin(-1)]
    best = (weights * rounded).sum() / (rounded**2).sum()
    np.testing.assert_allclose(own.levels["weight"], best * grid, rtol=1e-5)


def test_post_training_trains_in_full_precision_and_rounds_at_the_end():
    oracle, start = CLIENTS["small_net"]()
    rounding, plain = post_training(bits=1, keep=["vectors"], step_size=0.1), quantized(bits=32, step_size=0.1)
    own, free = rounding.begin(start, 0, KEY), plain.begin(start, 0, KEY)
    for _ in range(3):
        own, free = (
            rounding.gradient(oracle, own, start, start, KEY)[0],
            plain.gradient(oracle, free, start, start, KEY)[0],
        )
    same(own.weights, free.weights)
    model = rounding.adapt(oracle, own, start, KEY)
    assert [len(np.unique(leaf)) for leaf in jax.tree.leaves(model.params) if leaf.ndim > 1] == [2, 2]
    same(model.params[0][1], free.weights[0][1])  # biases stay
    for name, levels in model.levels.items():
        layer = np.asarray(own.weights[int(name[0])][0]).ravel()
        nearest = np.abs(layer[:, None] - np.asarray(levels)).argmin(1)
        same(levels, [layer[nearest == j].mean() for j in range(2)], rtol=1e-4)  # each the mean of its weights


ETA1 = Changing(value=0.08, decay=0.8, every=2)
ETA2 = Changing(value=0.03, at=[3, 7], drop=0.5)
PULL = Changing(value=0.1, growth=0.2, every=2)
START = {"body": np.array([[-1.1, -0.4, 0.13], [0.3, 0.9, 1.7]]), "offset": np.array([0.6, -0.8])}
FIRST_LEVELS = np.array([-1.0, 0.1, 1.2]) * np.abs(START["body"]).mean()


def momentum_by_hand(mu=0.6):
    memory = np.zeros(8)

    def direction(g):
        memory[:] = g + mu * memory
        return memory

    return direction


def adam_by_hand():
    m, v, t = np.zeros(8), np.zeros(8), 0

    def direction(g):
        nonlocal t
        m[:], v[:], t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2, t + 1
        return m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)

    return direction


@pytest.mark.parametrize(
    ("options", "by_hand"),
    [({}, lambda: lambda g: g), ({"momentum": 0.6}, momentum_by_hand), ({"optimizer": "adam"}, adam_by_hand)],
    ids=["sgd", "momentum", "adam"],
)
def test_schedules_decay_optimizers_and_a_kept_layer_against_a_loop(options, by_hand):
    """Six steps of training and six of fine tuning: QuPeL, Algorithm 2, l. 4-8, and Sec. 7.2, of a matrix with levels.

    The offsets, kept in full precision, are the last two of eight numbers, and learn all the time.
    """
    rng = np.random.default_rng(3)
    root, centre = rng.standard_normal((8, 8)) / 3, rng.standard_normal(8)
    matrix, w = root @ root.T + np.eye(8) / 2, rng.standard_normal(8)
    eta1, eta2 = [0.08 * 0.8 ** (t // 2) for t in range(12)], [0.03] * 3 + [0.015] * 4 + [0.0075] * 5
    pull = [0.1 + 0.2 * (t // 2) for t in range(12)]
    x, c, direction = np.append(START["body"], START["offset"]), FIRST_LEVELS, by_hand()
    path = []
    for t in range(12):
        mine = np.abs(x[:6, None] - c).argmin(1)
        at = x if t < 6 else np.append(c[mine], x[6:])
        slope = matrix @ (at - centre)
        y = x - eta1[t] * direction(slope + 0.4 * (x - w) + 0.3 * x)  # lambda_p and the decay
        if t < 6:
            mine = np.abs(y[:6, None] - c).argmin(1)
            apart = y[:6] - c[mine]
            drawn = c[mine] + np.sign(apart) * np.maximum(np.abs(apart) - pull[t] * eta1[t] / 2, 0)
            x = np.append(drawn, y[6:])
            mine = np.abs(drawn[:, None] - c).argmin(1)
            slope = matrix @ (np.append(c[mine], y[6:]) - centre)
            sides = np.array([np.sign(drawn[mine == j] - c[j]).sum() for j in range(3)])
        else:
            sides = np.zeros(3)
        h = np.array([slope[:6][mine == j].sum() for j in range(3)])
        c = c - eta2[t] * h + pull[t] * eta2[t] / 2 * sides
        if t >= 6:
            x = np.append(c[mine], y[6:])
        c = np.sort(c)
        path.append((x, c, 0.4 * (w - x)))

    with jax.enable_x64(True):
        oracle = exact(lambda model: _bowl(matrix, jnp.append(model["body"], model["offset"]) - centre))
        centers = [-1.0, 0.1, 1.2]
        rates = {"step_size": ETA1, "centers_step_size": ETA2, "lambda_": PULL}
        others = {"lambda_p": 0.4, "weight_decay": 0.3, "fine_tune_after": 6} | options
        objective = quantized(levels=3, keep=["vectors"], centers=centers, **rates, **others)
        start, shared = jax.tree.map(jnp.asarray, START), {"body": jnp.asarray(w[:6].reshape(2, 3)), "offset": w[6:]}
        own, step = (
            objective.begin(start, 0, KEY),
            jax.jit(lambda own: objective.gradient(oracle, own, shared, shared, KEY)),
        )
        for x, c, slope in path:
            own, found, _ = step(own)
            same(own.levels, {"body": c}, rtol=1e-5)
            for ours, expected in ((own.weights, x), (found, slope)):
                same(np.append(ours["body"], ours["offset"]), expected, rtol=1e-5, atol=1e-7)


def _bowl(matrix, apart):
    return 0.5 * apart @ matrix @ apart


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_momentum_and_adam_reach_lower_losses_than_they_started_from(optimizer):
    oracle, start = CLIENTS["small_net"]()
    objective = quantized(
        bits=2,
        keep=["last", "vectors"],
        step_size=0.02,
        optimizer=optimizer,
        momentum=0.9,
        weight_decay=1e-4,
        lambda_=1e-3,
    )
    own = objective.begin(start, 0, KEY)
    step = jax.jit(lambda own: objective.gradient(oracle, own, start, start, KEY)[0])
    for _ in range(60):
        own = step(own)
    models = [objective.adapt(oracle, o, start, KEY).params for o in (objective.begin(start, 0, KEY), own)]
    before, after = (oracle.value(model, KEY) for model in models)
    assert after < before - 0.1


@pytest.mark.parametrize("factory", [quantized, binary_relax, post_training])
def test_the_pull_to_the_shared_model_is_half_of_lambda_p_times_the_squared_distance(factory):
    oracle, start = CLIENTS["quadratic"]()
    free, pulled = (factory(keep=[], lambda_p=lambda_p) for lambda_p in (0.0, 0.6))
    shared = start + jnp.arange(start.size, dtype=start.dtype).reshape(start.shape)
    costs = [made.value(oracle, made.begin(start, 0, KEY), shared, shared, KEY) for made in (free, pulled)]
    assert float(costs[1] - costs[0]) == pytest.approx(0.3 * float(((shared - start) ** 2).sum()), rel=1e-4)
