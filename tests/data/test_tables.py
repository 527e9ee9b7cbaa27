"""Tables as problems: clients by a column, parts, standardization, classes, regression, partitions."""

from functools import partial

import jax
import numpy as np
import pytest

import idiolect
from idiolect import data
from idiolect.problems.data import Shares, by_classes, dirichlet, iid
from idiolect.problems.models import linear, mlp
from tests.data.tables import USERS, as_csv, visits, write_visits

SMALL = partial(mlp, hidden=(4,))
PARTS = ("train", "adapt", "validation", "test")


def rows_of(clients, client, part, name="features"):
    split = getattr(clients, part)
    start, size = split.starts[client], split.sizes[client]
    return np.asarray(split.rows[name])[start : start + size]


def whole(clients, client, name="features"):
    return np.concatenate([rows_of(clients, client, part, name) for part in PARTS])


def test_every_value_of_the_column_is_a_client_and_holds_its_own_rows(tmp_path):
    made = data.table(write_visits(tmp_path), by="user", features=["age", "pages"], target="bought", standardize="none")
    assert made.clients.names == USERS
    table = visits()
    for client, user in enumerate(USERS):
        mine = [row for row, name in enumerate(table["user"]) if name == user]
        expected = sorted((table["age"][row], table["pages"][row], int(table["bought"][row] == "yes")) for row in mine)
        held = np.column_stack([whole(made.clients, client), whole(made.clients, client, "label")])
        np.testing.assert_allclose(sorted(map(tuple, held)), expected, rtol=1e-6)


def test_clients_called_by_numbers_come_in_the_order_of_numbers():
    owners = [10, 9, 2] * 4
    assert data.table({"x": np.arange(12.0), "y": [0, 1] * 6}, by=owners, target="y").clients.names == ("2", "9", "10")
    floats = np.array(owners, float)  # as pandas has them where one was missing once
    assert data.by_client({"x": np.arange(12.0)}, by=floats).names == ("2", "9", "10")


@pytest.mark.parametrize("how", ["together", "each"])
def test_standardization_sees_training_parts_of_participating_clients_only(how):
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(5), 40)
    x = rng.normal(3, 2, (200, 2)) + owners[:, None]
    raw = {"x": x, "y": rng.integers(0, 2, 200)}
    options = {"by": owners, "target": "y", "unseen": 0.2, "seed": 3}
    plain = data.table(raw, standardize="none", **options).clients
    scaled = data.table(raw, standardize=how, **options).clients
    assert plain.unseen == scaled.unseen
    assert plain.unseen
    seen = [client for client in range(5) if how == "each" or client not in plain.unseen]
    training = {client: rows_of(plain, client, "train") for client in seen}
    everyone = np.concatenate(list(training.values()))
    for client in range(5):
        fit = training[client] if how == "each" else everyone
        for part in PARTS:
            expected = (rows_of(plain, client, part) - fit.mean(0)) / fit.std(0)
            np.testing.assert_allclose(rows_of(scaled, client, part), expected, atol=1e-5)


def test_what_is_constant_in_training_is_not_blown_up():
    made = data.table({"x": np.full(12, 0.1), "y": [0, 1] * 6}, by=[0, 1, 2] * 4, target="y")
    np.testing.assert_allclose(made.clients.train.rows["features"], 0, atol=1e-6)


def test_what_was_done_is_said(tmp_path):
    notes = data.table(write_visits(tmp_path), by="user", features=["age"], target="bought").notes
    assert any("training parts" in note for note in notes)
    assert "table: bought has 2 classes: no, yes" in notes


def test_classes_are_in_order_or_as_given():
    columns = {"x": np.arange(12.0), "y": ["b", "a", "c"] * 4}
    by_name = data.table(columns, by=[0] * 12, target="y", standardize="none", model=linear)
    given = data.table(columns, by=[0] * 12, target="y", classes=["c", "b", "a", "d"], standardize="none", model=linear)
    order = np.argsort(whole(by_name.clients, 0)[:, 0])
    assert whole(by_name.clients, 0, "label")[order].tolist() == [1, 0, 2] * 4
    assert whole(given.clients, 0, "label")[order].tolist() == [1, 2, 0] * 4
    sizes = [jax.eval_shape(made.init, jax.random.key(0))[0]["weight"].shape[1] for made in (by_name, given)]
    assert sizes == [3, 4]


def test_classes_may_be_truths_and_whole_numbers_however_they_are_written():
    for labels in ([True, False], [1, 0], [1.0, 0.0], ["1", "0"], ["1.0", "0"]):
        made = data.table({"x": np.arange(12.0), "y": labels * 6}, by=[0] * 12, target="y", standardize="none")
        order = np.argsort(whole(made.clients, 0)[:, 0])
        assert whole(made.clients, 0, "label")[order].tolist() == [1, 0] * 6


def test_regression_predicts_numbers_whose_error_is_relative(tmp_path):
    made = data.table(
        write_visits(tmp_path), by="user", features=["age", "pages"], target="paid", task="regression", model=linear
    )
    shard = rows_of(made.clients, 0, "test"), rows_of(made.clients, 0, "test", "target")
    params = [{"weight": np.array([[0.3], [0.5]]), "bias": np.array([0.1])}]
    expected = ((shard[0] @ [0.3, 0.5] + 0.1 - shard[1]) ** 2).mean()
    batch = {"features": shard[0], "target": shard[1]}
    assert float(made.metric.score(params, batch)) == pytest.approx(expected, rel=1e-5)
    assert (made.metric.name, made.metric.higher_is_better) == ("relative_squared_error", False)
    training = np.concatenate([rows_of(made.clients, client, "train", "target") for client in range(3)])
    zero = jax.tree.map(np.zeros_like, params)
    everyone = np.concatenate([rows_of(made.clients, client, "train") for client in range(3)])
    score = made.metric.score(zero, {"features": everyone, "target": training})
    assert float(score) == pytest.approx(1, rel=1e-5), "the mean of the training parts has error 1"


@pytest.mark.parametrize("partition", [iid, partial(by_classes, classes=2), partial(dirichlet, a=1.0)])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_partitions_deal_rows_without_owners(partition, task):
    rng = np.random.default_rng(0)
    raw = {"x": rng.normal(size=200), "y": rng.integers(0, 4, 200), "z": rng.normal(size=200)}
    target = "y" if task == "classification" else "z"
    made = data.table(raw, features=["x"], target=target, task=task, clients=5, partition=partition, seed=1)
    assert made.clients.total == 5
    assert made.clients.names == ()
    if getattr(partition, "func", None) is by_classes and task == "classification":
        assert all(len(np.unique(whole(made.clients, client, "label"))) == 2 for client in range(5))


def test_some_of_the_clients_can_be_left_out_and_drawn():
    owners = np.repeat(np.arange(6), [2, 12, 12, 12, 12, 12])
    columns = {"x": np.arange(62.0), "y": np.arange(62) % 2}
    made = data.table(columns, by=owners, target="y", smallest=5)
    assert made.clients.names == ("1", "2", "3", "4", "5")
    assert "table: 1 of 6 clients have fewer than 5 rows and are left out" in made.notes
    drawn = [data.table(columns, by=owners, target="y", smallest=5, clients=3, seed=seed) for seed in (0, 1)]
    assert drawn[0].clients.total == 3
    assert drawn[0].clients.names == drawn[1].clients.names, "whatever the seed, so that programs serve all seeds"


def test_several_files_are_one_table(tmp_path):
    columns = visits()
    halves = [{name: cells[part] for name, cells in columns.items()} for part in (slice(0, 16), slice(16, None))]
    for number, half in enumerate(halves):
        (tmp_path / f"{number}.csv").write_text(as_csv(half))
    together = data.table([tmp_path / "0.csv", tmp_path / "1.csv"], by="user", features=["age"], target="bought")
    alone = data.table(write_visits(tmp_path), by="user", features=["age"], target="bought")
    np.testing.assert_array_equal(together.clients.train.rows["features"], alone.clients.train.rows["features"])


def test_arrays_in_their_own_shape_reach_the_model():
    raw = {"image": np.zeros((12, 8, 8, 1)), "y": [0, 1] * 6}
    made = data.table(raw, by=[0, 1, 2] * 4, target="y")
    assert made.clients.train.rows["features"].shape == (12, 8, 8, 1)


def test_tabs_quotes_blank_lines_and_a_byte_order_mark_are_read(tmp_path):
    (tmp_path / "a.tsv").write_text('﻿user\tnote\n"ann"\t"one\ntwo"\n\nbob\tx\n', "utf-8")
    found = data.read_columns(tmp_path / "a.tsv")
    assert found.values["user"].tolist() == ["ann", "bob"]
    assert found.values["note"].tolist() == ["one\ntwo", "x"]
    assert [found.place(row).split(" of ")[0] for row in (0, 1)] == ["line 2", "line 5"]


def test_rows_by_client_serve_a_loss_of_ones_own():
    found = data.by_client({"x": np.arange(30.0), "y": np.arange(30)}, by=[f"u{k % 3}" for k in range(30)])
    assert found.names == ("u0", "u1", "u2")
    assert found.rows[1]["y"].tolist() == list(range(1, 30, 3))
    problem = idiolect.problem(lambda key: np.zeros(()), lambda p, b: ((p - b["x"]) ** 2).mean(), found.rows)
    assert problem.clients.total == 3


@pytest.mark.parametrize("algorithm", ["fedavg", "persa_fl_me", "pars_push"])
def test_a_table_is_a_problem_like_any_other(algorithm):
    rng = np.random.default_rng(0)
    x = rng.normal(5, 3, (120, 2))
    made = data.table({"x": x, "y": x[:, 0] > 5}, by=np.arange(120) % 4, target="y", model=linear)
    result = idiolect.learn(made, algorithm, horizon=60.0, points=1, local_steps=4, step_size=0.5, batch_size=8)
    first, last = (point.scores["participating"]["own"].mean for point in (result.points[0], result.points[-1]))
    assert last > max(first, 0.8)


def test_shares_and_unseen_are_those_of_other_problems():
    made = data.table(
        {"x": np.arange(100.0), "y": np.arange(100) % 2},
        by=np.arange(100) % 5,
        target="y",
        shares=Shares(0.5, 0.2, 0.1),
        unseen=0.4,
    )
    assert [getattr(made.clients, part).sizes.tolist() for part in PARTS] == [[10] * 5, [4] * 5, [2] * 5, [4] * 5]
    assert len(made.clients.unseen) == 2
