"""The generated crowd has the sizes and laws it claims; tables are read as written, or refused in a sentence."""

import builtins
import csv

import numpy as np
import pytest

from idiolect.errors import UserMistake
from idiolect.problems.ranking.click_tables import read_clicks
from idiolect.problems.ranking.search_data import Crowd, draw_preferences, draw_searches, taste

SMALL = Crowd(clients=6, queries=(5, 9), suggestions=(2, 4), dimension=3)


def test_the_defaults_are_the_sizes_of_the_seminar():
    crowd = Crowd()
    assert (crowd.clients, crowd.queries, crowd.suggestions, crowd.candidates) == (200, (30, 100), (2, 25), 3)
    searches = draw_searches(crowd._replace(dimension=1))
    counts = [len(user["clicked"]) for user in searches]
    assert (len(counts), min(counts), max(counts)) == (200, 30, 100)
    lengths = np.concatenate([user["mask"].sum(1) for user in searches])
    assert set(lengths.tolist()) == {3 * shown for shown in range(2, 26)}
    assert searches[0]["features"].shape[1:] == (75, 1)


@pytest.mark.parametrize("seed", [0, 1])
def test_candidates_come_first_padding_is_zero_and_the_click_is_among_those_shown(seed):
    for user in draw_searches(SMALL, seed=seed):
        lengths = user["mask"].sum(1)
        assert user["features"].dtype == np.float32
        np.testing.assert_array_equal(user["mask"], np.arange(12) < lengths[:, None])
        assert np.all(user["features"][~user["mask"]] == 0)
        assert np.all(user["features"][user["mask"]] != 0)
        assert np.all(user["clicked"] < lengths // 3)


def test_the_seed_decides_everything_and_shapes_do_not_depend_on_it():
    first, again, other = draw_searches(SMALL, seed=3), draw_searches(SMALL, seed=3), draw_searches(SMALL, seed=4)
    for a, b in zip(first, again, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert not np.array_equal(first[0]["features"][0], other[0]["features"][0])
    assert sorted(len(user["clicked"]) for user in first) == sorted(len(user["clicked"]) for user in other)


@pytest.mark.parametrize("personal", [0.0, 0.5, 2.0])
def test_preferences_share_a_common_part_of_the_promised_size(personal):
    crowd = Crowd(clients=200, dimension=200, personal=personal)
    common, preferences = draw_preferences(crowd, np.random.default_rng(0))
    similarity = np.corrcoef(preferences)[np.triu_indices(200, 1)].mean()
    assert similarity == pytest.approx(1 / (1 + personal**2), abs=0.02)
    assert np.corrcoef(preferences.mean(0), common)[0, 1] > 0.9
    assert np.linalg.norm(preferences, axis=1).mean() == pytest.approx(1, abs=0.1)


def test_taste_has_mean_zero_and_variance_one():
    values = taste(np.random.default_rng(0).standard_normal((50_000, 2)))
    np.testing.assert_allclose(values.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(values.var(0), 1, atol=0.03)


def test_without_noise_the_engine_sorts_by_common_taste_and_the_user_clicks_the_best_shown():
    crowd = SMALL._replace(noise=0.0)
    common, preferences = draw_preferences(crowd, np.random.default_rng(0))
    for user, preference in zip(draw_searches(crowd, seed=0), preferences, strict=True):
        for features, mask, clicked in zip(user["features"], user["mask"], user["clicked"], strict=True):
            tastes = taste(features[mask].astype(float))
            assert np.all(np.diff(tastes @ common) <= 1e-6)
            shown = len(tastes) // 3
            assert clicked == (tastes[:shown] @ preference).argmax()


@pytest.mark.parametrize("field", ["queries", "suggestions"])
def test_a_range_that_ends_before_it_begins_is_refused(field):
    with pytest.raises(UserMistake, match=rf"problem\.{field} is \[9, 4\]"):
        draw_searches(SMALL._replace(**{field: (9, 4)}))


def write(path, rows, header=("user", "query", "clicked", "a", "b")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


ROWS = [[user, query, int(place == 1), place, 0.5] for user in ("ann", "bob") for query in "xyz" for place in range(2)]


def test_a_table_is_read_as_it_was_written(tmp_path):
    searches = draw_searches(SMALL, seed=1)
    rows = []
    for number, user in enumerate(searches):
        for query, (features, mask, clicked) in enumerate(zip(*user.values(), strict=True)):
            for place, candidate in enumerate(features[mask]):
                rows.append([f"user {number}", query, str(place == clicked), *candidate.tolist()])
    rows.sort(key=lambda row: str(row[1]))  # queries of all users mixed; the order within one stays
    clicks = read_clicks(write(tmp_path / "all.csv", rows, ("user", "query", "clicked", "a", "b", "c")))
    assert clicks.features == ["a", "b", "c"]
    assert sorted(clicks.users) == [f"user {number}" for number in range(6)]
    longest = max(user["mask"].sum(1).max() for user in searches)
    for name, read in zip(clicks.users, clicks.searches, strict=True):
        written = searches[int(name.split()[1])]
        np.testing.assert_array_equal(read["features"], written["features"][:, :longest])
        np.testing.assert_array_equal(read["mask"], written["mask"][:, :longest])
        np.testing.assert_array_equal(read["clicked"], written["clicked"])


def changed(row, column, value):
    rows = [list(cells) for cells in ROWS]
    rows[row][column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            changed(1, 2, 0),
            "line 2: query 'x' of user 'ann' has 0 clicks among 2 candidates, but must have exactly one",
        ),
        (changed(2, 2, 1), "line 4: query 'y' of user 'ann' has 2 clicks"),
        (changed(3, 2, "maybe"), "line 5: clicked is 'maybe', but must be 1 or 0"),
        (changed(3, 1, " "), "line 5: query is empty"),
        (changed(4, 0, ""), "line 6: user is empty"),
        (changed(5, 3, "tall"), "line 7: a is 'tall', but a feature must be a finite number"),
        (changed(5, 4, ""), "line 7: b is empty, but a feature"),
        (changed(5, 4, "nan"), "line 7: b is 'nan'"),
        (changed(5, 4, "1e300"), "line 7: b is '1e300'"),
        ([*ROWS, ["eve", "x", 1]], "line 14 has 3 cells, but the header has 5"),
        ([*ROWS, ["eve", "x", 1, 0, 0]], "user 'eve' has only 1 queries, but needs at least 3"),
        ([], "has no rows"),
    ],
)
def test_a_mistake_in_a_row_is_named_with_its_place(tmp_path, rows, words):
    path = write(tmp_path / "bad.csv", rows)
    with pytest.raises(UserMistake) as refusal:
        read_clicks(path)
    assert str(refusal.value).startswith(str(path))
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (("user", "query", "clicks", "a", "b"), "has no column 'clicked', .* it has user, query, clicks, a, b"),
        (("user", "user", "clicked", "a", "b"), "has two columns 'user'"),
    ],
)
def test_a_header_must_name_what_is_needed(tmp_path, header, words):
    with pytest.raises(UserMistake, match=words):
        read_clicks(write(tmp_path / "bad.csv", ROWS, header))
    with pytest.raises(UserMistake, match="needs at least one of features"):
        read_clicks(write(tmp_path / "bare.csv", [row[:3] for row in ROWS], header=("user", "query", "clicked")))


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path):
    with pytest.raises(UserMistake, match=r"nowhere\.csv cannot be read: .*No such file"):
        read_clicks(tmp_path / "nowhere.csv")
    with pytest.raises(UserMistake, match="cannot be read"):
        read_clicks(tmp_path)
    (tmp_path / "bytes.csv").write_bytes(b"user,query,clicked,a\n\xff\xfe")
    with pytest.raises(UserMistake, match=r"bytes\.csv cannot be read"):
        read_clicks(tmp_path / "bytes.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UserMistake, match="has no column 'user'"):
        read_clicks(tmp_path / "empty.csv")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserMistake, match="pip install pyarrow"):
        read_clicks(tmp_path / "clicks.parquet")


def test_parquet_is_read_like_csv(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(("user", "query", "clicked", "a", "b"), map(list, zip(*ROWS, strict=True)), strict=True))
    parquet.write_table(pyarrow.table(columns), tmp_path / "clicks.parquet")
    read, expected = read_clicks(tmp_path / "clicks.parquet"), read_clicks(write(tmp_path / "clicks.csv", ROWS))
    assert (read.users, read.features) == (expected.users, expected.features)
    for a, b in zip(read.searches, expected.searches, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    for column, cell, words in (("user", 1.5, "row 1: user is 1.5"), ("query", ["x"], r"row 1: query is \['x'\]")):
        odd = {**columns, column: [cell] * len(ROWS)}
        parquet.write_table(pyarrow.table(odd), tmp_path / "odd.parquet")
        with pytest.raises(UserMistake, match=rf"{words}, but must be text or a whole number"):
            read_clicks(tmp_path / "odd.parquet")
    columns["a"][3] = None
    parquet.write_table(pyarrow.table(columns), tmp_path / "clicks.parquet")
    with pytest.raises(UserMistake, match="row 4: a is empty"):
        read_clicks(tmp_path / "clicks.parquet")
    (tmp_path / "clicks.parquet").write_bytes(b"no table")
    with pytest.raises(UserMistake, match="cannot be read"):
        read_clicks(tmp_path / "clicks.parquet")
