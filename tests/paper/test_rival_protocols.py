"""FedDyn, CA2FL and IFCA against NumPy loops on the same timeline, through the catalog."""

import jax.numpy as jnp
import numpy as np
import pytest

import idiolect
from idiolect import Evaluation, Experiment, catalog, objectives
from idiolect.contracts import Upload
from idiolect.engines import Workers, prepare, simulate
from idiolect.errors import UserMistake
from idiolect.network.timelines import ARRIVAL, OFFER, events
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres
from idiolect.testing.server_runs import server_cell
from idiolect.testing.small_clients import noisy_quadratics
from tests.paper.test_against_numpy import ETA, D, N, Q, gradients, local_descent, ours, problem  # noqa: F401


def cohorts(table):
    for number in range(table.round.max() + 1):
        yield table.client[(table.round == number) & table.delivered]


def test_feddyn(problem, gradients):  # noqa: F811
    """Acar et al., Algorithm 1, with half of the m clients a round."""
    alpha = 0.3
    found, table = ours(problem, "feddyn", protocol={"alpha": alpha, "participation": 0.5})
    theta, h, own = np.zeros(D), np.zeros(D), np.zeros((N, D))  # own: grad L_k(theta_k^{t-1})
    for cohort in cohorts(table):
        reached = []
        for k in cohort:
            last = own[k].copy()
            bent = lambda w, start, k=k, g=last: gradients[0][k](w) - g + alpha * (w - start)  # noqa: E731
            reached.append(local_descent(theta, bent))
            own[k] = last - alpha * (reached[-1] - theta)
        if reached:
            h = h - alpha / N * sum(model - theta for model in reached)
            theta = np.mean(reached, axis=0) - h / alpha
    assert np.abs(theta).max() > 0.1
    np.testing.assert_allclose(found, theta, rtol=2e-3, atol=2e-4)


def test_feddyn_finds_the_minimiser_of_the_average_where_fedavg_does_not(problem):  # noqa: F811
    exact = np.asarray(problem.optimum(objectives.plain(), 1))
    away = {}
    for name, options in (("fedavg", {}), ("feddyn", {"alpha": 1.0})):
        told = {"local_steps": 60, "step_size": 0.1, "batch_size": 1, "protocol": options}
        made = idiolect.learn(problem, name, horizon=800.0, points=1, **told)
        away[name] = float(np.abs(np.asarray(made.params) - exact).max())
    assert away["feddyn"] < 1e-3 < 0.03 < away["fedavg"]


def test_ca2fl(problem, gradients):  # noqa: F811
    """Wang et al., Algorithm 2, with the cache where the paper has it, at the server."""
    size, beta = 3, 0.8
    found, table = ours(problem, "ca2fl", protocol={"size": size, "beta": beta})
    x, cache, downloaded, total, filled = np.zeros(D), np.zeros((N, D)), {}, np.zeros(D), 0
    h = cache.mean(0)
    for event in events(table):
        i = table.client[event.turn]
        if event.kind == OFFER:
            downloaded[event.turn] = x
        elif event.kind == ARRIVAL:
            start = downloaded[event.turn]
            delta = local_descent(start, lambda w, _, i=i: gradients[0][i](w)) - start
            total, filled = total + delta - cache[i], filled + 1
            cache[i] = delta
            if filled == size:
                x, total, filled = x + beta * (h + total / size), np.zeros(D), 0
                h = cache.mean(0)
    assert np.abs(x).max() > 0.1
    np.testing.assert_allclose(found, x, rtol=2e-3, atol=2e-4)


def own_models(table, first, gradients, share, steps):  # noqa: F811
    """Hanzely and Richtarik, Algorithm 1, with a fixed number of local steps: everybody's model, and their average."""
    x, begun, average = np.tile(first, (N, 1)), np.zeros(N, bool), first
    for cohort in cohorts(table):
        for i in cohort:
            x[i] = x[i] if begun[i] else average
            x[i] = (1 - share) * x[i] + share * average
            for _ in range(steps):
                x[i] = x[i] - ETA * gradients[0][i](x[i])
            begun[i] = True
        average = x.mean(0)
    return x, average


def test_l2gd(problem, gradients):  # noqa: F811
    found, table = ours(problem, "l2gd", protocol={"lambda": 2.0, "participation": 0.5})
    _, average = own_models(table, np.zeros(D), gradients, 2.0 * ETA * Q, Q)
    assert np.abs(average).max() > 0.1
    np.testing.assert_allclose(found, average, rtol=2e-3, atol=2e-4)


def test_l2gd_minimises_losses_and_distances_to_the_average(problem):  # noqa: F811
    """Its cost has the gradient grad f_i(x_i) + lambda (x_i - average), for every client."""
    told = {"local_steps": 1, "step_size": 0.02, "batch_size": 1, "protocol": {"lambda": 0.7}}
    made = idiolect.learn(problem, "l2gd", horizon=4000.0, points=1, **told)
    matrices, centres = curvatures_and_centres(problem.clients)
    for i in range(N):
        x = np.asarray(made.received(i), float)
        slope = matrices[i] @ (x - centres[i]) + 0.7 * (x - np.asarray(made.params))
        assert np.abs(slope).max() < 0.05 * np.abs(matrices[i] @ (x - centres[i])).max()


def test_l2gd_refuses_to_take_more_than_all_of_the_average(problem):  # noqa: F811
    with pytest.raises(
        UserMistake, match=r"protocol.lambda is 30, which .* takes 3 of the average; it must be at most 10$"
    ):
        idiolect.learn(problem, "l2gd", horizon=10.0, protocol={"lambda": 30.0})


def losses(problem):  # noqa: F811
    matrices, centres = curvatures_and_centres(problem.clients)
    return [lambda w, a=a, m=m: 0.5 * (w - m) @ a @ (w - m) for a, m in zip(matrices, centres, strict=True)]


def test_ifca(problem, gradients):  # noqa: F811
    """Ghosh et al., Algorithm 1, option II, with half of the clients a round."""
    protocol = {"models": 3, "participation": 0.5, "beta": 0.9, "spread": 2.0}
    algorithm = catalog.algorithm("ifca", problem, local_steps=Q, step_size=ETA, batch_size=3, protocol=protocol)
    first = algorithm.protocol.server.init(jnp.zeros(D), N).models
    found, table = ours(problem, "ifca", protocol=protocol)
    theta, value, seen = np.asarray(first, float), losses(problem), set()
    latest = np.zeros(3)
    for cohort in cohorts(table):
        groups = [[], [], []]
        for i in cohort:
            j = int(np.argmin([value[i](model) for model in theta]))
            groups[j].append(local_descent(theta[j], lambda w, _, i=i: gradients[0][i](w)))
            seen.add(j)
        latest = np.array([len(group) for group in groups]) if len(cohort) else latest
        theta = np.array([0.1 * m + 0.9 * np.mean(g, axis=0) if g else m for m, g in zip(theta, groups, strict=True)])
    assert len(seen) > 1, "everybody chose the same"
    np.testing.assert_allclose(found, theta[np.argmax(latest)], rtol=2e-3, atol=2e-4)
    with Workers(1) as workers:
        run = simulate(prepare(problem, algorithm), problem.clients, table, workers, seed=0, times=[150.0])
        end = list(run)[-1]
    np.testing.assert_allclose(end.groups, theta, rtol=2e-3, atol=2e-4)
    for client in range(N):  # at the end, everybody's model is the one that is best for it now
        best = theta[np.argmin([value[client](model) for model in theta])]
        np.testing.assert_allclose(end.model(client), best, rtol=2e-3, atol=2e-4)


def test_ifca_with_one_model_is_synchronous():
    problem = noisy_quadratics(noise=0.0, kind=np.float32)  # noqa: F811
    options = {"step_size": 0.02, "local_steps": 4, "batch_size": 5}
    cells = [
        server_cell(problem, catalog.algorithm(name, problem, protocol=told, **options))
        for name, told in (("fedavg", {}), ("ifca", {"models": 1}))
    ]
    with Workers(1) as workers:
        ends = [cell.run(workers)[-1] for cell in cells]
    np.testing.assert_allclose(ends[0].params, ends[1].params, rtol=1e-6)


RULE = np.array([2.0, -1.0, 0.5])


@pytest.fixture(scope="module")
def two_worlds():
    """Clients whose labels follow one of two rules, some of them unseen."""
    rng, data = np.random.default_rng(0), []
    for client in range(12):
        x = rng.standard_normal((60, 3)).astype(np.float32)
        data.append({"x": x, "y": (x @ RULE * (1 if client % 2 else -1)).astype(np.float32)})

    def loss(w, batch):
        return ((batch["x"] @ w - batch["y"]) ** 2).mean()

    return idiolect.problem(lambda key: jnp.zeros(3), loss, data, unseen=0.34)


def test_groups_are_found_also_by_clients_that_never_had_a_turn_and_are_in_the_run_folder(two_worlds, tmp_path):
    training = idiolect.Training(local_steps=5, step_size=0.05, batch_size=20)
    plan = Evaluation(points=1, steps=[0])
    made = Experiment(two_worlds, ["ifca"], horizon=150.0, training=training, evaluation=plan)
    ran = idiolect.run(made, out=tmp_path / "run")
    (cell,) = ran.cells
    assert {"participating", "unseen"} == set(cell.points[-1].scores)
    for group in cell.points[-1].scores.values():
        assert group["0"].worst_decile < 0.01  # the mean of the two rules would have a loss of about 5
    for client in range(two_worlds.clients.total):
        np.testing.assert_allclose(ran.model(client), (1 if client % 2 else -1) * RULE, atol=0.1)


def test_ifca_hands_on_the_model_of_the_group_that_was_heard_last():
    """Also where a single client of a round comes through; a round of which nothing comes changes nothing."""
    server = catalog.protocol_of("ifca", {"models": 3}).server
    state = server.init(jnp.zeros(D), N)
    for group in (1, 2):
        state = server.close(
            server.absorb(state, Upload(jnp.zeros(D), jnp.int32(1), about=jnp.int32(group)), jnp.float32(0))
        )
        np.testing.assert_array_equal(server.read(state), state.models[group])
    np.testing.assert_array_equal(server.read(server.close(state)), state.models[2])


@pytest.mark.parametrize("size", [0.0, 0.1, 3.0])
def test_the_models_of_ifca_begin_at_the_start_and_around_it(size):
    """As far from it as its own numbers are large, half of that by default; from nothing, half of one."""
    start = jnp.full(20_000, size)
    models = catalog.protocol_of("ifca", {"models": 3}).server.init(start, N).models
    np.testing.assert_array_equal(models[0], start)
    for other in models[1:]:
        assert float(jnp.std(other - start)) == pytest.approx(0.5 * (size or 1), rel=0.05)
    assert float(jnp.abs(models[1] - models[2]).max()) > 0
