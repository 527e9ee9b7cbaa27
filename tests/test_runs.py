"""A run's folder: what is in it, that the same seed gives the same bytes, and that a run goes on where it stopped."""

import csv
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.cli import main
from idiolect.errors import UserMistake
from idiolect.experiments import building, running
from idiolect.experiments.recipe_files import load_recipe
from idiolect.files import write_atomically
from idiolect.network.timelines import Timeline, read_timeline, write_timeline
from idiolect.results.beginning import begin_folder, check_clock, claimed_folder
from tests.tiny_run import CELLS, LABELS, SEEDS, run_tiny, tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run, which the tests only read."""
    return run_tiny(tmp_path_factory.mktemp("finished"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_clocks(value: Any) -> Any:
    """Plain data without what the wall clock said."""
    if isinstance(value, dict):
        return {
            k: without_clocks(v) for k, v in value.items() if k not in ("seconds", "stopwatch", "wall_clock_seconds")
        }
    return [without_clocks(inner) for inner in value] if isinstance(value, list) else value


def contents(folder: Path) -> dict[str, Any]:
    """Every file of a run: bytes, or data without clocks where the wall clock is written down."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name: without_clocks(json.loads(path.read_text())) if name.endswith(".json") else path.read_bytes()
        for name, path in files.items()
        if name != "report.html"  # which tells seconds
    }


def test_the_folder_holds_what_it_should_and_nothing_else(finished):
    expected = {"recipe.toml", "metrics.csv", "metrics.jsonl", "clients.csv", "summary.json", "report.html", ".lock"}
    expected |= {f"traits/seed{seed}.json" for seed in SEEDS}
    for cell in CELLS:
        expected |= {f"cells/{cell}.json", f"timelines/{cell}.csv", f"params/{cell}.safetensors"}
    assert {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()} == expected


def test_the_saved_recipe_is_the_recipe(finished, tmp_path):
    assert load_recipe(str(finished / "recipe.toml")) == load_recipe(tiny(tmp_path))


def test_metrics_have_a_line_for_every_evaluation_of_every_cell(finished):
    metrics = lines(finished / "metrics.jsonl")
    expected = [(label, seed, time) for label in LABELS for seed in SEEDS for time in (0.0, 10.0, 20.0)]
    assert [(line["algorithm"], line["seed"], line["time"]) for line in metrics] == expected
    for line in metrics:
        assert line["participating"]["0"]["clients"] == 4
        assert line["unseen"]["own"]["clients"] == 1


def test_updates_are_those_that_the_timeline_delivers_by_then(finished):
    for line in lines(finished / "metrics.jsonl"):
        table = read_timeline(finished / "timelines" / f"{line['algorithm']}-seed{line['seed']}.csv")
        assert line["updates"] == (table.delivered & (table.arrived <= line["time"])).sum()


def test_clients_have_a_row_in_every_cell_and_the_means_are_those_of_the_metrics(finished):
    with (finished / "clients.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(CELLS) * 5
    for line in lines(finished / "metrics.jsonl"):
        if line["time"] == 20.0:
            mine = [r for r in rows if (r["algorithm"], r["seed"]) == (line["algorithm"], str(line["seed"]))]
            assert sorted(int(row["client"]) for row in mine) == [0, 1, 2, 3, 4]
            scores = [float(row["after_1_steps"]) for row in mine if row["group"] == "participating"]
            assert line["participating"]["1"]["mean"] == pytest.approx(np.mean(scores))


def test_the_summary_is_the_mean_and_the_deviation_over_seeds_at_the_end(finished):
    summary, metrics = json.loads((finished / "summary.json").read_text()), lines(finished / "metrics.jsonl")
    assert list(summary["algorithms"]) == LABELS
    assert (summary["metric"], summary["higher_is_better"], summary["virtual_time"]) == ("loss", False, 20.0)
    for label, entry in summary["algorithms"].items():
        ends = [line for line in metrics if line["algorithm"] == label and line["time"] == 20.0]
        for name, column in (("global", "0"), ("personalized", "1"), ("own", "own")):
            means = [end["participating"][column]["mean"] for end in ends]
            assert entry["participating"][name]["mean"] == pytest.approx(np.mean(means))
            assert entry["participating"][name]["std"] == pytest.approx(np.std(means, ddof=1))
        assert entry["seeds"] == SEEDS
        assert "personalized" in entry["unseen"]


def test_a_cell_s_timeline_is_the_one_that_its_seed_and_its_schedule_draw(finished, tmp_path):
    """And so one of the same schedule and seed has the same, whatever it learns."""
    recipe = load_recipe(tiny(tmp_path), ['algorithms=[{name="per_fedavg"},{name="persa_fl_maml"}]'])
    for seed in SEEDS:
        task = building.build_problem(recipe, seed)
        for label, table in zip(LABELS, recipe.lines, strict=True):
            drawn = building.build_timeline(recipe, building.build_algorithm(recipe, table, task), task, seed)
            assert write_timeline(drawn) == (finished / "timelines" / f"{label}-seed{seed}.csv").read_text()
    assert len({path.read_bytes() for path in (finished / "timelines").iterdir()}) == len(CELLS)


def test_parameters_can_be_loaded_and_clients_that_keep_something_have_theirs(finished):
    for cell in CELLS:
        tensors = load_file(finished / "params" / f"{cell}.safetensors")
        assert tensors["server"].shape == (3,)
        assert np.isfinite(tensors["server"]).all()
        table = read_timeline(finished / "timelines" / f"{cell}.csv")
        checkpointers = {f"client{client}.params" for client in table.client} if cell.startswith("mine") else set()
        assert set(tensors) == {"server", *checkpointers}


def test_what_clients_hold_is_noted_when_a_run_begins(finished):
    noted = json.loads((finished / "traits" / "seed0.json").read_text())["clients"]
    assert noted == {str(client): {"samples": 8, "label_skew": None, "name": ""} for client in range(5)}


def test_the_same_seeds_give_the_same_bytes(finished, tmp_path):
    assert main(["run", tiny(tmp_path), "--out", str(tmp_path / "again")]) == 0
    assert contents(tmp_path / "again") == contents(finished)


def test_a_finished_run_is_not_run_again_whether_by_its_recipe_or_by_the_saved_one(finished, monkeypatch, tmp_path):
    def nothing_to_do(*args: Any, **options: Any) -> None:
        raise AssertionError("this cell was finished")

    monkeypatch.setattr(running, "run_together", nothing_to_do)
    before = contents(finished)
    assert main(["run", tiny(tmp_path), "--out", str(finished)]) == 0
    assert main(["run", str(finished / "recipe.toml"), "--out", str(finished)]) == 0
    assert contents(finished) == before


def test_a_run_goes_on_in_whatever_order_its_settings_are_given(tmp_path):
    """The recipes are equal, and so must their texts be."""
    first, second = (
        load_recipe(tiny(tmp_path), settings)
        for settings in (
            ["problem.noise=0.5", "problem.heterogeneity=2"],
            ["problem.heterogeneity=2", "problem.noise=0.5"],
        )
    )
    assert first == second
    for experiment in (first, second):
        with begin_folder(tmp_path / "out", experiment):
            pass


def test_a_folder_keeps_to_its_recipe(finished, tmp_path, capsys):
    before = contents(finished)
    assert main(["run", tiny(tmp_path), "--out", str(finished), "--set", "horizon=21"]) == 2
    error = capsys.readouterr().err
    assert str(finished) in error
    assert "holds a run of another experiment: horizon is 20.0 there and 21.0 here; name a new folder" in error
    assert contents(finished) == before


def test_what_a_killed_run_left_is_swept_away_and_nothing_else(tmp_path):
    with begin_folder(tmp_path / "run", load_recipe(tiny(tmp_path))):
        pass
    left = tmp_path / "run" / "cells" / ".fedavg-seed0.json.x.unfinished"
    others = [tmp_path / "run" / "thesis.unfinished", tmp_path / "run" / "another" / ".recipe.toml.x.unfinished"]
    others[1].parent.mkdir()
    for file in (left, *others):
        file.touch()
    with begin_folder(tmp_path / "run", load_recipe(tiny(tmp_path))):
        assert not left.exists()
        assert all(file.exists() for file in others)


def test_a_run_that_was_killed_before_it_began_leaves_no_clock_behind(tmp_path):
    for name in ("real-clock", ".recipe.toml.x.unfinished"):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / name).touch()
    with begin_folder(tmp_path / "run", load_recipe(tiny(tmp_path))):
        pass
    check_clock(tmp_path / "run", "virtual")
    assert not (tmp_path / "run" / "real-clock").exists()


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path, capsys):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("mine")
    assert main(["run", tiny(tmp_path), "--out", str(tmp_path / "precious")]) == 2
    assert "is not empty and holds no run" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "precious").rglob("*")] == ["thesis.txt"]


def test_folders_without_a_name_are_counted_and_nobody_else_gets_them(tmp_path):
    runs = tmp_path / "runs"
    with ExitStack() as claims:
        names = [claims.enter_context(claimed_folder(runs, "demo")).name for _ in range(3)]
        (runs / "demo-2" / "recipe.toml").touch()
    assert names == ["demo", "demo-2", "demo-3"]
    assert [path.name for path in runs.iterdir()] == ["demo-2"], "what was of no use is gone"


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(source: str, target: Path) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(UserMistake, match="cannot be written: the disk is gone"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_timelines_in_the_folder_have_every_column(finished):
    header = (finished / "timelines" / "mine-seed0.csv").read_text().splitlines()[0]
    assert header == ",".join(Timeline._fields)
