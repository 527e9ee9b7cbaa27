"""The same table from every library that may hold it; each is skipped where its library is not installed."""

import sys

import numpy as np
import pytest

from idiolect import UserMistake, data
from tests.data.tables import as_csv, visits


def made_from(source):
    return data.table(source, by="user", features=["age", "pages"], target="bought")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "visits.csv"
    path.write_text(as_csv(visits()))
    return made_from(path)


def same(found, expected):
    assert found.clients.names == expected.clients.names
    for name, rows in expected.clients.train.rows.items():
        np.testing.assert_allclose(found.clients.train.rows[name], rows, atol=1e-6)


def library(name):
    extra = "datasets" if name == "datasets" else "tables"
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'idiolect[{extra}]'")


def test_a_dict_of_lists(expected):
    same(made_from(visits()), expected)


def test_a_pandas_frame(expected):
    same(made_from(library("pandas").DataFrame(visits())), expected)


def test_a_pandas_frame_with_categories_and_an_index_of_its_own(expected):
    frame = library("pandas").DataFrame(visits()).astype({"user": "category", "pages": "Int64"})
    same(made_from(frame.set_index(np.arange(len(frame))[::-1])), expected)


def test_what_is_missing_in_a_pandas_frame_is_told():
    pandas = library("pandas")
    for column, kind in (("age", float), ("pages", "Int64"), ("bought", object)):
        frame = pandas.DataFrame(visits()).astype({column: kind})
        frame.loc[4, column] = None
        with pytest.raises(
            UserMistake, match=rf"column '{column}' is (nan|empty) in row 4 of the pandas frame \(client 'bob'\)"
        ):
            made_from(frame)
    frame = pandas.DataFrame(visits())
    frame["age"] = pandas.Timestamp("2020-01-01")
    with pytest.raises(UserMistake, match=r"column 'age' is Timestamp.* in row 0 of the pandas frame \(client 'ann'\)"):
        made_from(frame)


def test_a_polars_frame_eager_and_lazy(expected):
    polars = library("polars")
    same(made_from(polars.DataFrame(visits())), expected)
    same(made_from(polars.DataFrame(visits()).lazy()), expected)
    broken = {**visits(), "pages": [None, *visits()["pages"][1:]]}
    with pytest.raises(UserMistake, match=r"column 'pages' is empty in row 0 of the Polars frame \(client 'ann'\)"):
        made_from(polars.DataFrame(broken))


def test_a_parquet_file(expected, tmp_path):
    pyarrow = library("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(visits()), tmp_path / "visits.parquet")
    same(made_from(tmp_path / "visits.parquet"), expected)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UserMistake, match=r"broken.parquet is not Parquet that can be read"):
        made_from(tmp_path / "broken.parquet")


def test_a_parquet_file_by_polars_alone(expected, tmp_path, monkeypatch):
    polars = library("polars")
    polars.DataFrame(visits()).write_parquet(tmp_path / "visits.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    same(made_from(tmp_path / "visits.parquet"), expected)


def test_without_either_a_parquet_file_says_what_to_install(tmp_path, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "visits.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserMistake, match=r"need pyarrow or Polars; pip install 'idiolect\[tables\]'"):
        data.read_columns(tmp_path / "visits.parquet")


def test_a_hugging_face_data_set(expected, tmp_path):
    datasets = library("datasets")
    dataset = datasets.Dataset.from_dict(visits())
    same(made_from(dataset), expected)
    dataset.save_to_disk(str(tmp_path / "saved"))  # and from a local file, by the library's own loader
    same(made_from(datasets.load_from_disk(str(tmp_path / "saved"))), expected)
    order = np.random.default_rng(0).permutation(len(dataset))
    back = dataset.select(order).select(np.argsort(order))  # with indices of its own
    same(made_from(back), expected)
    tokens = datasets.Dataset.from_dict({"ids": [[1, 2, 3], [2, 1], [3, 3, 1, 2]] * 2})
    assert data.text(tokens, column="ids", by=[0] * 6, length=3).clients.train.rows["tokens"].shape == (6, 4)
    with pytest.raises(UserMistake, match=r"data is a DatasetDict of Hugging Face, .* take one of its splits"):
        made_from(datasets.DatasetDict({"train": dataset}))


def test_hugging_face_classes_and_pictures():
    datasets = library("datasets")
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'idiolect[images]'")
    pixels = [np.full((6, 6), 20 * k, np.uint8) for k in range(8)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    made = {"image": [image.fromarray(one) for one in pixels], "label": [0, 1] * 4}
    found = data.table(
        datasets.Dataset.from_dict(made, features=features), by=[0, 1] * 4, target="label", standardize="none"
    )
    assert found.clients.train.rows["features"].shape == (8, 6, 6)
    assert sorted(np.asarray(found.clients.train.rows["features"])[:, 0, 0].tolist()) == [20.0 * k for k in range(8)]


def test_pytorch_data_sets(expected):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")
    table = visits()

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(table["user"])

        def __getitem__(self, row):
            cells = {name: table[name][row] for name in ("user", "pages", "bought")}
            return {**cells, "age": torch.tensor(table["age"][row])}

    same(made_from(Rows()), expected)
    x, y = torch.arange(24.0).reshape(12, 2), torch.arange(12) % 2
    pairs = torch.utils.data.TensorDataset(x, y)
    made = data.table(pairs, by=[0, 1, 2] * 4, target="y", standardize="none")
    assert made.clients.train.rows["features"].shape == (12, 2)
    assert made.clients.names == ("0", "1", "2")

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(UserMistake, match="a PyTorch data set without a length"):
        data.read_columns(Endless())


def test_nothing_is_imported_for_what_is_not_used(tmp_path):
    import subprocess

    (tmp_path / "visits.csv").write_text(as_csv(visits()))
    code = "import sys; from idiolect import data\n"
    code += f"data.table({str(tmp_path / 'visits.csv')!r}, by='user', features=['age'], target='bought')\n"
    code += "print([n for n in ('pandas', 'polars', 'pyarrow', 'datasets', 'torch', 'PIL') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
