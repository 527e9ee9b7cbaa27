"""Metrics against all ways to break ties, losses and scorers that padding cannot reach, and users who learn."""

import math
import tomllib
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idiolect
from idiolect.catalog import PROBLEMS
from idiolect.engines.learner import fine_tune
from idiolect.errors import UserMistake
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.options import make
from idiolect.problems.ranking import Forest, ranking
from idiolect.problems.ranking.forest import forest_scores
from idiolect.problems.ranking.rank_metrics import normalized_mrr, rank_metrics, top
from idiolect.problems.ranking.search_ranking import LOSSES, MODELS, click_entropy, click_error
from idiolect.registry import Choice

PLACES = 5  # every list is padded to this length, so that each function is compiled once
METRICS = rank_metrics((1, 3))
METRIC = {name: jax.jit(judge) for name, (_, judge) in METRICS.items()}
LISTS = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 0.5, 2.0]), min_size=1, max_size=PLACES)


def padded(scores: list[float], garbage: float = 9.0) -> tuple[jax.Array, jax.Array]:
    """The scores in a row of PLACES, with something loud in the places without a candidate, and the mask."""
    row = np.full(PLACES, garbage, np.float32)
    row[: len(scores)] = scores
    return jnp.asarray(row), jnp.arange(PLACES) < len(scores)


def by_all_orders(scores: list[float], clicked: int) -> dict[str, float]:
    """Both metrics, averaged over every order of the candidates that puts none above one with a higher score."""
    length, ranks = len(scores), []
    for order in permutations(range(length)):
        sorted_scores = [scores[place] for place in order]
        if sorted_scores == sorted(scores, reverse=True):
            ranks.append(order.index(clicked) + 1)
    worst = 1 / length
    mrr = [1.0 if length == 1 else (1 / rank - worst) / (1 - worst) for rank in ranks]
    return {"mrr": float(np.mean(mrr)), **{f"top{k}": float(np.mean([rank <= k for rank in ranks])) for k in (1, 3)}}


@settings(max_examples=60, deadline=None)
@given(LISTS, st.data())
def test_metrics_are_the_mean_over_all_ways_to_break_ties(scores, data):
    clicked = data.draw(st.integers(0, len(scores) - 1))
    expected = by_all_orders(scores, clicked)
    for name, judge in METRIC.items():
        assert float(judge(*padded(scores), jnp.int32(clicked))) == pytest.approx(expected[name], abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(LISTS, st.randoms(use_true_random=False), st.data())
def test_neither_the_order_of_candidates_nor_padding_changes_a_metric(scores, random, data):
    clicked = data.draw(st.integers(0, len(scores) - 1))
    places = random.sample(range(PLACES), len(scores))  # anywhere in the row, holes between them
    row, mask = (
        np.full(PLACES, data.draw(st.sampled_from([-math.inf, 3.0, math.nan])), np.float32),
        np.zeros(PLACES, bool),
    )
    row[places], mask[places] = scores, True
    for judge in METRIC.values():
        assert judge(*padded(scores), jnp.int32(clicked)) == judge(row, mask, jnp.int32(places[clicked]))


def test_a_list_of_one_scores_one_and_a_list_without_its_click_scores_zero():
    for judge in METRIC.values():
        assert float(judge(*padded([-3.0]), jnp.int32(0))) == 1
        assert float(judge(*padded([]), jnp.int32(0))) == 0
        assert float(judge(*padded([1.0, 2.0]), jnp.int32(3))) == 0


def test_best_is_one_worst_is_zero_and_the_places_between_are_reciprocal():
    values = [float(METRIC["mrr"](*padded([4.0, 3.0, 2.0, 1.0]), jnp.int32(place))) for place in range(4)]
    np.testing.assert_allclose(values, [1, (1 / 2 - 1 / 4) / (3 / 4), (1 / 3 - 1 / 4) / (3 / 4), 0], atol=1e-7)


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_scores_that_are_not_numbers_gain_nothing(bad):
    assert float(METRIC["top1"](*padded([bad, 1.0, 0.0]), jnp.int32(0))) == 0
    assert float(METRIC["mrr"](*padded([bad, 1.0, 0.0]), jnp.int32(0))) == 0
    assert float(METRIC["top1"](*padded([bad] * 4), jnp.int32(0))) == 0.25


def test_metrics_take_lists_in_bulk():
    rows = [padded([1.0, 0.0]), padded([0.0, 1.0, 1.0])]
    scores, mask = (jnp.stack(parts) for parts in zip(*rows, strict=True))
    clicked = jnp.array([0, 2])
    np.testing.assert_allclose(top(1)(scores, mask, clicked), [1, 0.5])
    np.testing.assert_allclose(top(2)(scores, mask, clicked), [1, 1])
    np.testing.assert_allclose(normalized_mrr(scores, mask, clicked), [1, (0.75 - 1 / 3) / (2 / 3)], rtol=1e-6)


def test_losses_are_means_over_the_list_by_hand():
    scores, mask, clicked = *padded([0.3, -0.2, 0.7]), jnp.int32(1)
    entropy = [math.log1p(math.exp(0.3)), math.log1p(math.exp(0.2)), math.log1p(math.exp(0.7))]
    error = [0.3**2, 1.2**2, 0.7**2]
    for loss, each in ((click_entropy, entropy), (click_error, error)):
        assert float(loss(scores, mask, clicked, balance=False)) == pytest.approx(np.mean(each), rel=1e-6)
        balanced = each[1] / 2 + (each[0] + each[2]) / 4
        assert float(loss(scores, mask, clicked)) == pytest.approx(balanced, rel=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("garbage", [5.0, math.nan])
def test_losses_and_their_gradients_ignore_padding(name, garbage):
    loss = jax.jit(jax.value_and_grad(LOSSES[name]))
    value, gradient = loss(*padded([0.3, -0.2, 0.7], garbage), jnp.int32(1))
    assert value == loss(*padded([0.3, -0.2, 0.7], 0.0), jnp.int32(1))[0]
    assert np.all(np.asarray(gradient[:3]) != 0)
    assert np.all(np.asarray(gradient[3:]) == 0)
    nothing, still = loss(*padded([], garbage), jnp.int32(0))
    assert float(nothing) == 0
    assert np.all(np.asarray(still) == 0)
    assert float(loss(*padded([0.3]), jnp.int32(0))[0]) > 0


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_neither_scores_nor_gradients(name):
    """A list alone, and the same list in a longer row with garbage behind it."""
    scorer = MODELS[name](3, (4,))
    params, features = scorer.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (2, 4, 3))
    longer = jnp.concatenate([features, jnp.full((2, 3, 3), jnp.nan)], axis=1)
    mask = jnp.broadcast_to(jnp.arange(7) < 4, (2, 7))

    def total(params, features, mask):
        scores = scorer.apply(params, features, mask)
        return LOSSES["bce"](scores, mask, jnp.array([0, 3])).sum(), scores[:, :4]

    derive = jax.jit(jax.value_and_grad(total, has_aux=True))
    (_, scores), gradient = derive(params, features, mask[:, :4])
    (_, again), same = derive(params, longer, mask)
    np.testing.assert_allclose(again, scores, rtol=1e-5, atol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), same, gradient)


def test_an_mlp_sees_a_candidate_alone_and_a_convolution_sees_its_neighbours():
    features, mask = jax.random.normal(jax.random.key(1), (6, 3)), jnp.ones(6, bool)
    for name, reach in (("mlp", 0), ("mlp_cnn", 1)):
        scorer = MODELS[name](3, (4,))
        scores = scorer.apply(scorer.init(jax.random.key(0)), features, mask)
        moved = scorer.apply(scorer.init(jax.random.key(0)), features.at[2].add(1.0), mask)
        changed = set(np.flatnonzero(~np.isclose(scores, moved, atol=1e-6)).tolist())
        assert changed == set(range(2 - reach, 3 + reach))


def test_a_recipe_of_a_ranking_problem_is_written_and_read_again():
    recipe = parse_recipe({"problem": {"name": "ranking", "clients": 5}, "algorithms": [{"name": "local"}]})
    assert parse_recipe(tomllib.loads(write_experiment(recipe))) == recipe


def small(**options):
    crowd = {"clients": 4, "queries": (12, 20), "suggestions": (2, 6), "dimension": 4, "hidden": (8,)}
    return ranking(**{**crowd, **options})


def test_clients_are_users_and_rows_are_queries():
    problem = small(unseen=0.25)
    sizes = sum(getattr(problem.clients, part).sizes for part in ("train", "adapt", "validation", "test"))
    assert sorted(sizes.tolist()) == [12, 15, 17, 20]
    assert len(problem.clients.unseen) == 1
    assert problem.clients.train.rows["features"].shape == (64, 18, 4)
    assert problem.metric.name == "normalized reciprocal rank"
    assert small(metric="top1").metric.name == "top-1 accuracy"
    assert [metric.name for metric in small(metric="top2", top=(2,)).metrics] == [
        "top-2 accuracy",
        "normalized reciprocal rank",
    ]


@pytest.mark.slow
def test_personalized_asynchronous_learning_improves_the_ranking():
    outcome = idiolect.learn(
        small(queries=(40, 40), personal=0.5, noise=0.05),
        "persa_fl_me",
        objective={"lambda": 15.0},
        step_size=0.05,
        batch_size=8,
        horizon=150.0,
        points=1,
        budget=idiolect.Budget(steps=(0,)),
    )
    before, after = (point.scores["participating"]["own"].mean for point in outcome.points)
    assert after > before + 0.2


@pytest.mark.parametrize(("model", "loss"), [pytest.param("mlp_cnn", "bce", marks=pytest.mark.slow), ("mlp", "mse")])
def test_every_model_learns_with_every_loss(model, loss):
    """The loss falls on what was trained on, and the ranking of other queries leaves chance behind."""
    problem = small(
        clients=2, queries=(60, 60), personal=0.0, noise=0.05, extremes=0.0, model=model, loss=loss, scale=4.0
    )
    train, test = problem.clients.train.shard(0), problem.clients.test
    oracle = problem.oracle(train, 8)
    start = problem.init(jax.random.key(0))
    learned = jax.jit(lambda keys: fine_tune(oracle, start, keys, 0.05))(jax.random.split(jax.random.key(1), 200))
    value = jax.jit(problem.oracle(train, 64).value)
    assert value(learned, jax.random.key(2)) < 0.8 * value(start, jax.random.key(2))
    rows = test.starts[0] + np.arange(test.sizes[0])
    queries = {name: values[rows] for name, values in test.rows.items()}
    chance = METRIC["mrr"](jnp.zeros(queries["mask"].shape), queries["mask"], queries["clicked"]).mean()
    assert problem.metric.score(learned, queries) > chance + 0.15


def test_a_forest_beats_chance_pooled_and_alone():
    problem = small(clients=6, queries=(40, 40), personal=0.5, noise=0.05)
    store = problem.clients.test.rows
    constant = {
        name: judge(jnp.zeros(store["mask"].shape), store["mask"], store["clicked"]).mean()
        for name, judge in METRIC.items()
    }
    for pooled in (True, False):
        scores = forest_scores(problem.clients, problem.clients.test, METRICS, pooled=pooled, forest=Forest(trees=20))
        assert set(scores) == {"mrr", "top1", "top3"}
        for name, values in scores.items():
            assert values.shape == (6,)
            assert values.mean() > float(constant[name]) + 0.1


def test_a_forest_of_stumps_asks_one_question_and_knows_less():
    problem = small(clients=6, queries=(40, 40), personal=0.5, noise=0.05)
    deep, stumps = (
        forest_scores(problem.clients, problem.clients.test, METRICS, forest=Forest(trees=20, depth=depth, leaf=leaf))
        for depth, leaf in ((None, 5), (1, 5))
    )
    assert deep["mrr"].mean() > stumps["mrr"].mean() + 0.03


def test_the_catalog_s_problem_takes_a_table_and_refuses_options_of_the_crowd(tmp_path):
    path = tmp_path / "clicks.csv"
    lines = [
        f"u{user},q{query},{int(place == query % 3)},{place}.5,{user}"
        for user in range(2)
        for query in range(4)
        for place in range(3)
    ]
    path.write_text("\n".join(["user,query,clicked,position,who", *lines]))
    problem = make(PROBLEMS, "problem", Choice("ranking", {"table": str(path), "model": "mlp_cnn", "loss": "mse"}))
    assert problem.clients.total == 2
    assert problem.clients.train.rows["features"].shape == (8, 3, 2)
    with pytest.raises(
        UserMistake, match=r"problem\.clients is 7, but problem\.table has users of its own; leave clients out"
    ):
        make(PROBLEMS, "problem", Choice("ranking", {"table": str(path), "clients": 7}))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("queries", [2, 9]),
        ("suggestions", [0, 3]),
        ("personal", -1),
        ("clients", -5),
        ("candidates", -1),
        ("dimension", -2),
        ("extremes", 1.5),
        ("queries", []),
        ("metric", "ndcg"),
        ("metric", "top2"),
        ("top", [0]),
        ("forest", {"leaf": 0}),
        ("loss", "hinge"),
        ("hidden", [0]),
    ],
)
def test_bounds_of_the_options(option, value):
    with pytest.raises(UserMistake, match=rf"problem\.{option}"):
        make(PROBLEMS, "problem", Choice("ranking", {option: value}))
