"""Rows of a machine's owner: a function's or a table's, read as everybody's are; mistakes are one sentence."""

import csv
from pathlib import Path

import jax
import numpy as np
import pytest

from idiolect.deploy.assignment import assignment
from idiolect.deploy.joining.own_data import own_data
from idiolect.deploy.own_rows import own_problem
from idiolect.deploy.peers.graph_files import PeerGraph
from idiolect.deploy.peers.peer_setup import OwnRows, network_rules
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_problem
from idiolect.experiments.recipe_files import load_recipe
from tests.deploy.small_world import small_experiment

RECIPE = """
[problem]
name = "table"
file = "EVERYBODY"
by = "user"
target = "bought"
MORE
model = { name = "mlp", hidden = [4] }

[training]
local_steps = 2
step_size = 0.1
batch_size = 4

[[algorithms]]
name = "plain+PROTOCOL"
"""
TOLD = 'features = ["age", "pages"]\nclasses = ["no", "yes"]\nstandardize = "each"'


def rows(users: int = 3, each: int = 20) -> list[dict[str, str]]:
    rng = np.random.default_rng(0)
    values = [(user, rng.normal(40 + user, 9), rng.integers(1, 20)) for user in range(users) for _ in range(each)]
    return [
        {"user": f"u{user}", "age": f"{age:.3f}", "pages": str(pages), "bought": "yes" if pages > 9 else "no"}
        for user, age, pages in values
    ]


def write(path: Path, content: list[dict[str, str]], columns: list[str]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(content)
    return str(path)


def experiment(tmp_path: Path, more: str = "", *, example: bool = True, protocol: str = "asynchronous"):
    everybody = tmp_path / "everybody.csv"
    if example:
        write(everybody, rows(), ["user", "age", "pages", "bought"])
    text = RECIPE.replace("EVERYBODY", str(everybody)).replace("MORE", more).replace("PROTOCOL", protocol)
    (tmp_path / "recipe.toml").write_text(text)
    return load_recipe(tmp_path / "recipe.toml")


def own_table(tmp_path: Path, client: int = 1) -> str:
    """The rows of one client, with the columns in another order and one that nobody asked for."""
    mine = [{**row, "note": "x"} for row in rows() if row["user"] == f"u{client}"]
    return write(tmp_path / "mine.csv", mine, ["note", "bought", "pages", "age"])


def all_rows(problem, client: int) -> list[tuple]:
    """What a client holds in all of its parts, in an order of its own."""
    found = []
    for part in ("train", "adapt", "validation", "test"):
        split = getattr(problem.clients, part)
        at = slice(int(split.starts[client]), int(split.starts[client] + split.sizes[client]))
        store = {name: np.asarray(cells)[at] for name, cells in split.rows.items()}
        found += [(*features, label) for features, label in zip(store["features"], store["label"], strict=True)]
    return sorted(found)


def test_a_table_is_read_with_the_columns_classes_and_scales_of_the_recipes_file(tmp_path):
    recipe = experiment(tmp_path)
    mine, everybody = own_problem(own_table(tmp_path), recipe, 0), build_problem(recipe, 0)
    np.testing.assert_allclose(all_rows(mine, 0), all_rows(everybody, 1), rtol=1e-6)
    assert jax.eval_shape(mine.init, jax.random.key(0)) == jax.eval_shape(everybody.init, jax.random.key(0))


def test_without_the_recipes_file_the_recipe_must_tell_what_it_would_have_told(tmp_path):
    told = own_problem(own_table(tmp_path), experiment(tmp_path, TOLD, example=False), 0)
    everybody = build_problem(experiment(tmp_path, TOLD), 0)
    assert jax.eval_shape(told.init, jax.random.key(0)) == jax.eval_shape(everybody.init, jax.random.key(0))
    train = told.clients.train.shard(0)
    at = slice(int(train.start), int(train.start + train.size))
    features = np.asarray(train.rows["features"])[at]
    np.testing.assert_allclose([*features.mean(0), *features.std(0)], [0, 0, 1, 1], atol=1e-5)
    (tmp_path / "everybody.csv").unlink()
    for left_out, said in [
        ('features = ["age", "pages"]', "problem.features is missing"),
        ('classes = ["no", "yes"]', "problem.classes is missing"),
        ('standardize = "each"', "problem.standardize is 'together'"),
    ]:
        with pytest.raises(UserMistake, match=said):
            own_problem(own_table(tmp_path), experiment(tmp_path, TOLD.replace(left_out, ""), example=False), 0)


def test_a_bad_table_is_one_sentence_that_names_column_and_row(tmp_path):
    recipe, good = experiment(tmp_path), [row for row in rows() if row["user"] == "u1"]
    for change, columns, said in [
        ({"age": "old"}, ["age", "pages", "bought"], r"column 'age' is 'old' in line 4 of .*mine.csv, but must be"),
        ({"bought": "maybe"}, ["age", "pages", "bought"], r"column 'bought' is 'maybe' in line 4 of .*, a class that"),
        ({}, ["age", "bought"], r"features has 'pages', but .*mine.csv has no such column"),
        ({}, ["age", "pages"], r"target has 'bought', but .*mine.csv has no such column"),
    ]:
        table = write(tmp_path / "mine.csv", [*good[:2], {**good[2], **change}, *good[3:]], columns)
        with pytest.raises(UserMistake, match=said):
            own_problem(table, recipe, 0)
    with pytest.raises(UserMistake, match=r"there is no such file"):
        own_problem("nowhere.parquet", recipe, 0)
    with pytest.raises(UserMistake, match="but the recipe's problem is quadratics; name a function"):
        own_problem(own_table(tmp_path), small_experiment(), 0)


def test_a_parquet_file_is_read_as_a_csv_file_is(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    mine = [row for row in rows() if row["user"] == "u1"]
    kinds = {"pages": int, "age": float, "bought": str}
    cells = {name: [kind(row[name]) for row in mine] for name, kind in kinds.items()}
    parquet.write_table(arrow.table(cells), tmp_path / "mine.parquet")
    recipe = experiment(tmp_path)
    found = own_problem(str(tmp_path / "mine.parquet"), recipe, 0)
    np.testing.assert_allclose(all_rows(found, 0), all_rows(own_problem(own_table(tmp_path), recipe, 0), 0), rtol=1e-6)


def test_a_devices_rows_are_cut_into_parts_and_its_work_is_the_servers(tmp_path):
    recipe = experiment(tmp_path)
    served, work = assignment(recipe, None), assignment(recipe, None, own=own_table(tmp_path))
    assert work.identity == served.identity
    data, wants = own_data("mine.csv", work)
    assert wants is None
    assert (int(data.train.size), int(data.adapt.size)) == (12, 3)


def test_a_functions_rows_must_be_like_the_recipes(monkeypatch):
    recipe = small_experiment()
    good = jax.tree.map(lambda leaf: np.asarray(leaf)[:20], build_problem(recipe, 0).clients.train.rows)
    for changed, said in [
        (good, ""),
        (jax.tree.map(lambda leaf: leaf[..., None], good), "rows of"),
        ([good], "returns a tree"),
    ]:
        monkeypatch.setattr("idiolect.deploy.own_rows.import_reference", lambda name, it=changed: lambda: it)
        if said:
            with pytest.raises(UserMistake, match=said):
                own_problem("mine.py:load", recipe, 0)
        else:
            assert int(own_problem("mine.py:load", recipe, 0).clients.train.sizes[0]) == 12


def test_a_peer_has_its_own_rows_at_its_own_place(tmp_path):
    peers = {f"a{k}": f"tls/127.0.0.1:745{k}" for k in range(3)}
    graph = PeerGraph("office", peers, {"a0": ("a1",), "a1": ("a2",), "a2": ("a0",)})
    recipe = experiment(tmp_path, protocol="running_sum")
    rules = network_rules(recipe, graph, None, own=OwnRows("a2", own_table(tmp_path)))
    clients = rules.problem.clients
    assert clients.train.sizes.tolist() == [0, 0, 12]
    np.testing.assert_allclose(all_rows(rules.problem, 2), all_rows(build_problem(recipe, 0), 1), rtol=1e-6)
