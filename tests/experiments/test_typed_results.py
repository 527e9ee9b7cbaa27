"""Results as typed records: what a folder gives is what the run returned; and everything is built once."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idiolect
from idiolect import Run, UserMistake, interface
from idiolect.device import read_bundle
from idiolect.experiments import building
from idiolect.results import run as results
from tests.experiments.own import mine, quick


@pytest.fixture(scope="module")
def returned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return idiolect.run(mine(), out=tmp_path_factory.mktemp("typed") / "out")


def test_a_folder_gives_what_the_run_returned(returned):
    for found in (idiolect.open_run(returned.path), idiolect.open_run(returned.path, mine())):
        assert list(found.points) == list(returned.points)
        assert list(found.clients) == list(returned.clients)
        assert found.cells == returned.cells
        assert found.summary == returned.summary
        assert found.experiment.labels == returned.experiment.labels
        assert found.missing == 0
        assert repr(found) == repr(returned)


def test_points_and_clients_are_those_of_the_files(returned):
    lines = [json.loads(line) for line in (returned.path / "metrics.jsonl").read_text().splitlines()]
    wanted = [
        (line["algorithm"], line["seed"], line["time"], line["updates"], "participating", budget, *spread.values())
        for line in lines
        for budget, spread in line["participating"].items()
    ]
    assert [tuple(row) for row in returned.points] == wanted
    assert len(returned.points) == 2 * 2 * 3 * 3  # algorithms, seeds, times, budgets
    assert [(row.algorithm, row.seed, row.record.client) for row in returned.clients] == [
        (label, seed, client) for label in ("leaning", "fedavg") for seed in (0, 1) for client in range(4)
    ]


def test_frames_have_a_column_for_each_number(returned):
    pytest.importorskip("pandas")
    points, clients = returned.points.frame(), returned.clients.frame()
    expected = "algorithm seed time updates group budget mean std worst_decile clients"
    assert list(points.columns) == expected.split()
    assert len(points) == len(returned.points)
    assert points["mean"].tolist() == [row.mean for row in returned.points]
    expected = "algorithm seed client group samples bits bytes after_0_steps after_1_steps own"
    assert list(clients.columns) == expected.split()
    assert clients["own"].tolist() == [row.record.scores["own"] for row in returned.clients]


def test_without_pandas_a_frame_is_one_sentence(returned, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserMistake, match=r"^a frame needs pandas; pip install 'idiolect\[pandas\]'$"):
        returned.points.frame()


def test_a_notebook_shows_the_labels_and_the_headline(returned):
    page = returned._repr_html_()
    for label in returned.experiment.labels:
        assert f"<td>{label}<" in page
    assert f"{returned.summary.algorithms['leaning'].participating['personalized'].mean:.3f} ± " in page
    assert "nearness" in page


def test_a_notebook_shows_texts_as_they_are_and_a_sentence_where_nothing_is_finished(returned):
    found = idiolect.open_run(returned.path)
    found.clock = "<b>"
    assert " at &lt;b&gt; time 20</p>" in found._repr_html_()
    found.cells, found._every = [], []
    assert found._repr_html_() == f"<p>{found.nothing_to_show}</p>"


def test_models_of_a_run_made_in_python_need_its_experiment(returned, tmp_path):
    with pytest.raises(UserMistake, match=r"made in Python; its models need it: idiolect\.open_run\(path, experiment"):
        idiolect.open_run(returned.path).model(0, "leaning")
    found = idiolect.open_run(returned.path, mine())
    server = found.parameters("leaning", 1)["server"]
    np.testing.assert_array_equal(found.model(2, "leaning", 1), server)
    out = tmp_path / "model.safetensors"
    (shipped,) = idiolect.export_models(found, out, client=2, algorithm="leaning", seed=1)
    (tensor,) = read_bundle(out).params.values()
    np.testing.assert_array_equal(tensor, server)
    assert shipped.score == found.cell("leaning", 1).clients[2].scores["own"]


def test_an_experiment_that_the_folder_does_not_belong_to_is_refused(returned):
    with pytest.raises(UserMistake, match=r"another experiment: horizon is 20\.0 there and 21\.0 here"):
        idiolect.open_run(returned.path, mine(horizon=21.0))


def test_timelines_and_traits_are_there_too(returned):
    table = returned.timeline("fedavg", 0)
    assert int(table.delivered.sum()) == returned.cell("fedavg", 0).end.updates
    assert sorted(returned.traits(0)) == [0, 1, 2, 3]
    with pytest.raises(UserMistake, match=r"^algorithm is missing; the run has leaning, fedavg"):
        returned.timeline()
    with pytest.raises(UserMistake, match=r"has no finished run of fedavg with seed 9; its seeds are \[0, 1\]"):
        returned.cell("fedavg", 9)


def test_one_folder_need_not_stand_in_a_list(returned, tmp_path):
    path = returned.path
    assert idiolect.compare_runs(str(path)) == idiolect.compare_runs(path) == idiolect.compare_runs([path])
    assert idiolect.write_report(str(path), str(tmp_path / "page.html")) == tmp_path / "page.html"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: idiolect.open_run(3), "path is 3, but input is not a valid path"),
        (lambda run: idiolect.compare_runs("nowhere"), "nowhere is no run folder"),
        (lambda run: idiolect.compare_runs([]), "paths is empty, but must name at least one run folder"),
        (lambda run: idiolect.write_report([], "page.html"), "paths is empty, but must name at least one run folder"),
        (lambda run: idiolect.open_run(run.path, mine()).model(9, "fedavg"), "client is 9, but the run has clients 0"),
        (lambda run: idiolect.open_run(run.path, mine()).model("a", "fedavg"), "client is 'a', but the run has"),
    ],
)
def test_what_a_run_does_not_have_is_told_in_python_s_words(returned, ask, said):
    with pytest.raises(UserMistake) as raised:
        ask(returned)
    assert said in str(raised.value)
    assert "--" not in str(raised.value)


def test_a_run_builds_everything_once_a_seed_and_sums_up_once(tmp_path, monkeypatch):
    calls: dict[str, list[Any]] = {}

    def counted(place: Any, name: str, told: Any) -> None:
        original = getattr(place, name)

        def counting(*args: Any, **options: Any) -> Any:
            calls.setdefault(name, []).append(told(*args))
            return original(*args, **options)

        monkeypatch.setattr(place, name, counting)

    counted(building, "build_problem", lambda experiment, seed, *_: seed)
    counted(building, "build_algorithm", lambda experiment, line, problem: line.name)
    counted(building, "build_timeline", lambda experiment, algorithm, problem, seed: (algorithm.name, seed))
    counted(results, "summarize", lambda *_: "summary")
    counted(interface, "write_summary", lambda *_: "written")
    labels = ["fedavg", "fedasync", "rasgp"]
    idiolect.run(quick(algorithms=labels, seeds=[0, 1]), out=tmp_path / "out")
    assert calls == {
        "build_problem": [0, 1],
        "build_algorithm": [*labels, *labels],
        "build_timeline": [(label, seed) for seed in (0, 1) for label in labels],
        "summarize": ["summary"],
        "write_summary": ["written"],
    }


def test_a_path_may_be_a_string_and_must_be_a_run(returned, tmp_path: Path):
    assert idiolect.open_run(str(returned.path)).cells == returned.cells
    with pytest.raises(UserMistake, match="is no run folder"):
        idiolect.open_run(tmp_path)


def test_curves_are_one_tidy_table(returned):
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(returned.path / "metrics.csv", dtype={"budget": str})
    pandas.testing.assert_frame_equal(table, returned.frame())


def test_learn_shows_how_far_it_is_to_whoever_asks(capsys):
    heard: list[Any] = []
    problem = idiolect.problems.synthetic.quadratics(clients=2, dimension=2)
    result = idiolect.learn(problem, "fedavg", horizon=30.0, points=1, progress=heard.append)
    assert (heard[0].compiling, heard[-1].time, heard[-1].metric) == (True, 30.0, "loss")
    assert repr(result).startswith("Result(fedavg, seed 0, loss ")
    assert "\n" not in repr(result)
    assert capsys.readouterr().err == "", "nobody watches"
