"""The catalogue of mistakes in data: one sentence that names column, row and client, through Python and the shell."""

import json

import numpy as np
import pytest

from idiolect import UserMistake, data
from idiolect.cli import main
from tests.data.tables import as_csv, visits, write_visits

RECIPE = """
horizon = 20

[problem]
name = "table"
file = {file}
by = "user"
features = ["age", "pages"]
target = "bought"

[[algorithms]]
name = "fedavg"
"""
# What is changed in the file, what is changed in the options, and what the sentence must say. Row 4 is line 6, of bob.
TABLES = {
    "number as text": ({"age": (4, "n/a")}, {}, "column 'age' is 'n/a' in line 6 of visits.csv (client 'bob')"),
    "empty": ({"pages": (4, "")}, {}, "column 'pages' is empty in line 6 of visits.csv (client 'bob')"),
    "NaN": ({"age": (4, "nan")}, {}, "column 'age' is nan in line 6 of visits.csv (client 'bob')"),
    "infinite": ({"age": (4, "1e999")}, {}, "column 'age' is inf in line 6 of visits.csv (client 'bob')"),
    "too large for 32 bits": ({"age": (4, "1e99")}, {}, "column 'age' is 1e+99 in line 6"),
    "bars": ({"age": (4, "1_0")}, {}, "column 'age' is '1_0' in line 6"),
    "no class": ({"bought": (4, "")}, {}, "column 'bought' is empty in line 6 of visits.csv (client 'bob')"),
    "half a class": ({"bought": (4, "0.5")}, {}, "column 'bought' is 0.5 in line 6 of visits.csv (client 'bob')"),
    "no owner": ({"user": (4, "")}, {}, "column 'user' is empty in line 6 of visits.csv"),
    "lone client": ({"user": (4, "zoe")}, {}, "client 'zoe' has 1 rows (the first in line 6 of visits.csv)"),
    "unknown class": ({}, {"classes": ["no"]}, "column 'bought' is 'yes' in line 3 of visits.csv (client 'bob')"),
    "class twice": ({}, {"classes": ["no", "no"]}, "classes has 'no' twice"),
    "one class": ({}, {"target": "user", "by": "bought", "classes": ["ann"]}, "column 'user' is 'bob' in line 3"),
    "no such feature": ({}, {"features": ["aeg"]}, "features has 'aeg', but visits.csv has no such column (did"),
    "no such target": ({}, {"target": "sold"}, "target has 'sold', but visits.csv has no such column"),
    "no such owner": ({}, {"by": "person"}, "by has 'person', but visits.csv has no such column"),
    "target as feature": ({}, {"features": ["age", "bought"]}, "features has 'bought', which is the target"),
    "feature twice": ({}, {"features": ["age", "age"]}, "features has 'age', which is there twice"),
    "text feature": ({}, {"features": ["user"], "by": "bought"}, "column 'user' is 'ann' in line 2"),
    "no features": ({}, {"features": []}, "features is empty"),
    "classes of numbers": ({}, {"task": "regression", "target": "paid", "classes": [1]}, "classes is given, but"),
    "text to predict": ({}, {"task": "regression"}, "column 'bought' is 'no' in line 2 of visits.csv (client 'ann')"),
    "by and partition": ({}, {"partition": {"name": "by_classes"}}, "partition is given, but by says already"),
    "too many clients": ({}, {"clients": 9}, "clients is 9, but there are only 3"),
    "nobody is that large": ({}, {"smallest": 99}, "smallest is 99, but no client has that many rows"),
    "images wanted": ({}, {"model": {"name": "cnn"}}, "model is cnn, which takes images"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    changed, options, said = TABLES[name]
    write_visits(tmp_path, **changed)
    tables = RECIPE.format(file='"visits.csv"')
    settings = [f"problem.{key}={_toml(value)}" for key, value in options.items()]
    (tmp_path / "mine.toml").write_text(tables)
    assert main(["run", "mine.toml", "--out", "out", *(["--set", *settings] if settings else [])]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "out").exists()


def _toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


IN_PYTHON = {name: case for name, case in TABLES.items() if not {"partition", "model"} & set(case[1])}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_python_gets_the_same_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changed, options, said = TABLES[name]
    write_visits(tmp_path, **changed)
    whole = {"by": "user", "features": ["age", "pages"], "target": "bought", **options}
    with pytest.raises(UserMistake) as raised:
        data.table("visits.csv", **whole)
    assert said in str(raised.value)


FILES = {
    "not there": (None, "problem.file is 'data.csv', but there is no such file"),
    "nothing in it": (b"", "file data.csv is empty"),
    "no rows": (b"user,age,pages,bought\n", "file data.csv has column names, but no rows"),
    "ragged": (b"user,age,pages,bought\nann,1,2,no\nann,1,2\n", "line 3 of data.csv has 3 cells, but the header has 4"),
    "nameless": (b"user,,pages,bought\nann,1,2,no\n", "line 1 of data.csv has no name for column 2"),
    "named twice": (b"user,age,age,bought\nann,1,2,no\n", "line 1 of data.csv has the column 'age' twice"),
    "not UTF-8": (b"user,age\n\xff\xfe,1\n", "file data.csv is not UTF-8"),
    "an open quote": (b'user,age\n"ann,1\n', "of data.csv is not CSV"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_one_sentence(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content, said = FILES[name]
    if content is not None:
        (tmp_path / "data.csv").write_bytes(content)
    (tmp_path / "mine.toml").write_text(RECIPE.format(file='"data.csv"'))
    assert main(["run", "mine.toml", "--out", "out"]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_later_files_must_have_the_columns_and_the_classes_of_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_visits(tmp_path, "jan.csv")
    write_visits(tmp_path, "feb.csv", bought=(4, "maybe"))
    options = {"by": "user", "features": ["age"], "target": "bought"}
    with pytest.raises(UserMistake, match=r"column 'bought' is 'maybe' in line 6 of feb.csv \(client 'bob'\), a class"):
        data.table(["jan.csv", "feb.csv"], **options)
    assert data.table(["jan.csv", "feb.csv"], **options, classes=["no", "yes", "maybe"]).clients.total == 3
    columns = visits()
    del columns["age"]
    (tmp_path / "mar.csv").write_text(as_csv(columns))
    with pytest.raises(UserMistake, match=r"mar.csv has no column 'age', which jan.csv has; it has user, pages"):
        data.table(["jan.csv", "mar.csv"], **options)


def test_a_file_that_is_no_table_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserMistake, match=r"notes.txt must end in one of .csv, .tsv, .parquet"):
        data.read_columns(tmp_path / "notes.txt")


def test_arrays_must_be_alike_and_owners_for_every_row():
    with pytest.raises(UserMistake, match="equally many rows, but the arrays have x 3, y 4"):
        data.read_columns({"x": np.zeros(3), "y": np.zeros(4)})
    with pytest.raises(UserMistake, match=r"by has shape \(2,\), but must say for each of 3 rows"):
        data.table({"x": np.zeros(3), "y": [0, 1, 0]}, by=["a", "b"], target="y")
    with pytest.raises(UserMistake, match=r"column 'x' has shape \(3,\) in row 1 .* but \(2,\) in row 0"):
        data.table({"x": [[1, 2], [1, 2, 3]], "y": [0, 1]}, by=[0, 0], target="y")
    with pytest.raises(UserMistake, match=r"column 'x' is nan in row 2 of the arrays \(client '0'\)"):
        data.table({"x": [[1.0, 2.0], [1.0, 3.0], [np.nan, 1.0]], "y": [0, 1, 0]}, by=[0] * 3, target="y")
    with pytest.raises(UserMistake, match="data is int, but must be a file's path"):
        data.read_columns(3)


def test_without_owners_the_number_of_clients_is_needed():
    columns = {"x": np.arange(12.0), "y": [0, 1] * 6}
    with pytest.raises(UserMistake, match="by is missing: name the column"):
        data.table(columns, target="y")
    with pytest.raises(UserMistake, match="smallest leaves out clients that by names"):
        data.table(columns, target="y", clients=2, smallest=4)


def test_one_class_is_nothing_to_learn():
    with pytest.raises(UserMistake, match="column 'y' has one class only, 1"):
        data.table({"x": np.arange(12.0), "y": [1] * 12}, by=[0] * 12, target="y")
