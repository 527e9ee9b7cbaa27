"""`idiolect compare` on run folders made by hand."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from rich.console import Console

from idiolect.cli import main
from idiolect.comparison.contrasts import Contrast, OverClients
from idiolect.comparison.pairing import Paired
from idiolect.comparison.rendering import print_comparison
from idiolect.comparison.run_comparison import Compared, Comparison
from idiolect.experiments.describing import OWN
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.records import CellRecord, ClientRecord
from idiolect.results.beginning import begin_folder
from idiolect.results.folder import RECIPE, RunFolder, saved_tables
from idiolect.results.run import open_run

BASE = {"local": 0.5, "fedavg": 0.6}
SEEDS = [0, 1, 2]


def make_run(
    path: Path,
    means: dict[str, float],
    *,
    seeds: list[int] = SEEDS,
    metric: str = "accuracy",
    without: tuple[tuple[str, int], ...] = (),
    ended: tuple[tuple[str, int], ...] = (),
    samples: int = 10,
    **tables: Any,
) -> str:
    """A run whose clients score around the given means, by amounts that depend on seed and client alone.

    Personalized by 0.1 more than as received, and their own adaptation by 0.2.
    """
    algorithms = [{"name": "fedavg", "label": label} for label in means]
    experiment = parse_recipe({"name": path.name, "seeds": seeds, "algorithms": algorithms, **tables})
    with begin_folder(path, experiment) as folder:
        for label, mean in means.items():
            for seed in seeds:
                if (label, seed) not in without:
                    cell = _cell(label, seed, mean, metric, "diverged" if (label, seed) in ended else "", samples)
                    folder.add_cell(cell, {})
    return str(path)


def _cell(label: str, seed: int, mean: float, metric: str, ended: str, samples: int) -> CellRecord:
    def scores(client: int) -> dict[str, float]:
        # how much a label is worth differs a little between seeds, so that there is something to test
        received = mean * (1 + 0.1 * seed) + 0.05 * client
        return {"0": received, "1": received + 0.1, "5": received + 0.15, "own": 2 * received}

    clients = [ClientRecord(k, "participating", samples, scores(k), {}, 32.0, 4) for k in range(4)]
    stranger = ClientRecord(9, "unseen", 10, {"0": 77.0, "1": 77.0, "own": 77.0}, {}, 32.0, 4)
    return CellRecord(label, seed, metric, True, {}, 0.0, [], ended, True, [], [*clients, stranger])


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["compare", *arguments, "--json"]) == 0
    output: dict[str, Any] = json.loads(capsys.readouterr().out)
    return output


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["compare", *arguments]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith("idiolect: ")
    assert error.count("\n") == 1
    return error


def test_one_run_is_compared_with_its_first_algorithm(tmp_path, capsys):
    run = make_run(tmp_path / "one", {"local": 0.5, "fedavg": 0.6, "mine": 0.4})
    first, second = compared(capsys, run)["comparisons"]
    assert (first["first"]["label"], first["second"]["label"]) == ("local", "fedavg")
    assert second["second"]["label"] == "mine"
    # 0.1 (1 + seed / 10), and as much less
    assert first["over_seeds"]["mean"] == pytest.approx(0.11)
    assert second["over_seeds"]["mean"] == pytest.approx(-0.11)
    assert first["over_clients"]["better"] == second["over_clients"]["worse"] == 1
    assert first["over_clients"]["pairs"] == 12
    assert first["over_seeds"]["p_holm"] == pytest.approx(2 * first["over_seeds"]["p"])


def test_against_another_algorithm_and_with_another_model(tmp_path, capsys):
    run = make_run(tmp_path / "one", BASE)
    (found,) = compared(capsys, run, "--against", "fedavg", "--split", "own")["comparisons"]
    assert found["over_seeds"]["mean"] == pytest.approx(-0.22)
    assert found["first"]["mean"] == pytest.approx(2 * (0.66 + 0.075))


def test_runs_are_compared_label_by_label(tmp_path, capsys):
    one = make_run(tmp_path / "one", BASE)
    two = make_run(tmp_path / "two", {"fedavg": 0.7, "mine": 0.1}, horizon=77)
    found = compared(capsys, one, two)
    (row,) = found["comparisons"]
    assert (row["first"]["run"], row["second"]["run"]) == (one, two)
    assert row["over_seeds"]["mean"] == pytest.approx(0.11)
    assert "horizon" in found["notes"][0]


def test_two_lone_algorithms_need_no_common_label(tmp_path, capsys):
    one, two = make_run(tmp_path / "one", {"a": 0.5}), make_run(tmp_path / "two", {"b": 0.6})
    assert compared(capsys, one, two)["comparisons"][0]["over_seeds"]["mean"] == pytest.approx(0.11)
    three = make_run(tmp_path / "three", {"c": 0.5, "d": 0.2})
    assert "--against" in refused(capsys, one, three)
    labels = [row["second"]["label"] for row in compared(capsys, one, three, "--against", "a")["comparisons"]]
    assert labels == ["c", "d"]


def test_the_table_says_what_its_numbers_can_be_trusted_for(tmp_path, capsys):
    assert main(["compare", make_run(tmp_path / "one", {**BASE, "mine": 0.4})]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "+0.11" in words
    assert "Holm for the 2 comparisons" in words
    assert "clients of one seed share a model" in words
    assert "after 1 gradient step of size 0.01" in words


def test_what_is_finished_is_compared_and_the_rest_told(tmp_path, capsys):
    run = make_run(tmp_path / "one", BASE, without=(("fedavg", 2),), ended=(("local", 1),))
    found = compared(capsys, run)
    assert found["comparisons"][0]["seeds"] == [0]
    assert found["comparisons"][0]["over_seeds"]["p"] is None
    told = " ".join(found["notes"])
    assert "1 of 6 cells are missing" in told
    assert "local, seed 1, ended before its time" in told


def test_other_models_are_noted_and_other_data_is_refused(tmp_path, capsys):
    one = make_run(tmp_path / "one", BASE)
    two = make_run(tmp_path / "two", BASE, problem={"name": "digits", "model": {"name": "linear"}})
    assert "problem.model" in compared(capsys, one, two)["notes"][0]
    three = make_run(tmp_path / "three", BASE, problem={"name": "digits", "clients": 7})
    assert "problem.clients is 30" in refused(capsys, one, three)


@pytest.mark.parametrize(
    ("other", "arguments", "needle"),
    [
        ({"metric": "loss"}, [], "metric"),
        ({"seeds": [7, 8]}, [], "no seed in common"),
        ({"evaluation": {"split": "validation"}}, [], "evaluation.split"),
        ({"evaluation": {"steps": [0, 5]}}, [], "personalized score"),
        ({"evaluation": {"step_size": 0.5}}, [], "personalized score"),
        ({"evaluation": {"batch_size": 5}}, ["--split", "own"], "own score"),
        ({"samples": 11}, [], "not the same clients"),
    ],
)
def test_what_cannot_be_paired_is_refused(tmp_path, capsys, other, arguments, needle):
    one, two = make_run(tmp_path / "one", BASE), make_run(tmp_path / "two", BASE, **other)
    assert needle in refused(capsys, one, two, *arguments)


def test_runs_that_were_made_in_python_are_told_apart_by_their_descriptions(tmp_path, capsys):
    one, two, three = (make_run(tmp_path / name, BASE) for name in ("one", "two", "three"))
    for run, maker in ((one, "mine.py:make"), (two, "mine.py:make"), (three, "mine.py:other")):
        tables, cells = saved_tables(Path(run)), open_run(run).cells
        (Path(run) / RECIPE).write_text(tomli_w.dumps({**tables, "problem": {OWN: maker, "data": "x" * 200}}))
        for cell in cells:
            RunFolder(Path(run)).add_cell(cell, {})
    assert compared(capsys, one, two)["notes"] == []
    assert "problem.made_by is mine.py:make" in refused(capsys, one, three)


def test_the_model_as_received_needs_no_common_adaptation(tmp_path, capsys):
    one = make_run(tmp_path / "one", BASE)
    two = make_run(tmp_path / "two", BASE, evaluation={"steps": [0, 5], "step_size": 0.5})
    found = compared(capsys, one, two, "--split", "global")
    assert all(row["over_seeds"]["mean"] == 0 and row["over_seeds"]["p"] == 1 for row in found["comparisons"])


def test_folders_that_are_no_runs_are_refused(tmp_path, capsys):
    assert "is no run folder" in refused(capsys, str(tmp_path))
    one = make_run(tmp_path / "one", {"a": 0.5})
    assert "only one finished algorithm" in refused(capsys, one)
    assert "named twice" in refused(capsys, one, f"{one}/../one")
    assert "--against is 'b'" in refused(capsys, one, make_run(tmp_path / "two", {"b": 0.5}), "--against", "b")
    empty = make_run(tmp_path / "empty", {"a": 0.5}, without=tuple(("a", seed) for seed in SEEDS))
    assert "nothing to compare" in refused(capsys, empty)


def test_a_narrow_terminal_gets_lines_in_which_nothing_is_cut(tmp_path):
    paired = Paired(0.1, 0.02, -0.11111, 0.33333, 0.01, 3)
    found = Contrast([0, 1, 2], 0.5, 0.6, paired, 0.0123, OverClients(0.1, 0.0, 0.2, 0.5, 0.4, 0.04, 30), paired)
    rows = [Compared(("run", "fedavg"), ("run", "a_rather_long_label"), found, 0.0123, 0.0456)]
    comparison = Comparison("accuracy", True, "personalized", "the model", rows, [])
    for width in (40, 80, 100, 200):
        console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
        print_comparison(comparison, console)
        text = console.file.getvalue()
        assert all(len(line) <= width for line in text.splitlines())
        assert "…" not in text
        plain = " ".join(text.split())
        for number in ("0.0123", "0.0456", "[-0.111, +0.333]"):
            assert number in plain
