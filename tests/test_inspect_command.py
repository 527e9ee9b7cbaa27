"""`idiolect inspect`: what it tells of each kind of problem, what it writes, and what it expects a run to take."""

import sys
from pathlib import Path

import numpy as np
import pytest

from idiolect.cli import main
from idiolect.experiments.building import build_seed
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.inspection.cost_estimate import Cost, Estimate, estimate, most_at_once
from idiolect.inspection.inspection_page import side_by_side
from idiolect.inspection.inspection_tables import cost_lines, duration, size
from idiolect.inspection.peak_memory import peak_bytes
from idiolect.network import timeline

HALF, NONE = {"law": "fixed", "mean": 0.5}, {"law": "fixed", "mean": 0.0}
NETWORK = {"download": HALF, "upload": HALF, "compute": NONE, "idle": NONE, "spread": 0.0}
TRAINING = {"local_steps": 2, "step_size": 0.1, "batch_size": 2}
QUADRATICS = {"name": "quadratics", "clients": 4, "dimension": 3, "samples": 8, "unseen": 0.25}


def recipe(problem, *algorithms, **tables):
    common = {"horizon": 12, "network": NETWORK, "training": TRAINING, "evaluation": {"points": 2}}
    return parse_recipe({**common, "problem": problem, "algorithms": list(algorithms), **tables})


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_costs_count_what_the_timeline_and_the_clients_hold():
    wild = {"name": "fedavg", "label": "wild", "training": {"local_steps": 50, "step_size": 1e6}}
    made = recipe(QUADRATICS, {"name": "moreau+local"}, {"name": "pars_push"}, wild, seeds=[0, 1])
    found = estimate(made, build_seed(made, 0))
    local, push, diverged = found.algorithms
    assert local.updates == diverged.updates == 36  # 3 clients take part, a turn takes 1
    assert 0 < push.updates < 36  # agents sleep
    assert found.model_bytes == 3 * 4
    assert local.kept_bytes == 3 * 3 * 4  # a model for each of them
    assert push.kept_bytes > 0
    assert found.data_bytes == 4 * 8 * (9 + 3) * 4
    for cost in (local, push):
        assert cost.turn_seconds > 0
        assert cost.score_seconds > 0
        assert cost.seconds > cost.compile_seconds
    assert found.seconds == pytest.approx(local.seconds + push.seconds)
    assert found.memory_bytes > found.process_bytes > found.data_bytes
    assert found.disk_bytes == 0
    assert "wild" in diverged.stopped  # and has not hidden the others


def test_without_the_module_resource_the_rest_is_told(monkeypatch):
    """As on Windows."""
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_bytes() is None
    cost = Cost("fedavg", 3, 1.0, 1.0, 1.0, 5.0, 200, 0)
    found = Estimate(4000, 100, [cost], peak_bytes(), 2**31, 1, 1, 1.0)
    assert found.memory_bytes == 4300
    assert "more than 4.2 KiB of memory (data is 3.91 KiB, a model 100 B; what the process" in cost_lines(found)[0]


def test_most_at_once_is_what_counting_finds():
    rng = np.random.default_rng(0)
    offered = rng.uniform(0, 10, 40)
    table = timeline(list(range(40)), offered, offered + rng.uniform(0.1, 3, 40))
    moments = [int(((table.offered <= now) & (table.arrived > now)).sum()) for now in table.offered]
    assert most_at_once(table) == max(moments)
    assert most_at_once(timeline([0, 0, 1], [0.0, 1.0, 5.0], [1.0, 2.0, 6.0])) == 1


def test_clients_that_are_close_stand_side_by_side():
    groups = np.array([0, 1, 0, 2, 1, 0, 2])
    order = side_by_side((groups[:, None] != groups).astype(float))
    changes = (np.diff(groups[order]) != 0).sum()
    assert sorted(order) == list(range(7))
    assert changes == 2


def test_numbers_are_told_in_units():
    assert [duration(s) for s in (2e-5, 0.0123, 3.21, 600, 9000)] == ["20 us", "12.3 ms", "3.2 s", "10 min", "2.5 h"]
    assert [size(b) for b in (0, 12, 2048, 3 * 2**30)] == ["0 B", "12 B", "2 KiB", "3 GiB"]


def test_images_on_the_command_line(elsewhere, capsys):
    problem = (
        'problem={name="digits",clients=6,samples=300,model={name="linear"},partition={name="by_classes",classes=3}}'
    )
    arguments = ["demo", "--set", problem, "horizon=20", 'algorithms=[{name="fedasync"}]', "--seed", "3"]
    assert main(["inspect", *arguments]) == 0
    words = capsys.readouterr().out
    for needle in (
        "digits",
        "6 clients that take part",
        "TV of classes",
        "W1 between",
        "gamma_G",
        "gamma_H",
        "fedasync",
    ):
        assert needle in words
    assert "Seed 3. Pictures: demo-inspect.html" in words
    written = (elsewhere / "demo-inspect.html").read_text()
    for needle in ("Classes of each client", "Total variation", "1-Wasserstein", "An estimate", "fedasync"):
        assert needle in written


def test_a_file_of_others_is_not_overwritten(elsewhere, capsys):
    Path("page.html").write_text("<html>my thesis</html>")
    for out, needle in (("page.html", "is no page of"), (".", "is a folder"), ("no/where.html", "no folder")):
        assert main(["inspect", "demo", "--out", out]) == 2
        output, error = capsys.readouterr()
        assert output == ""
        assert error.count("\n") == 1
        assert needle in error
    assert Path("page.html").read_text() == "<html>my thesis</html>"
    assert main(["inspect", "demo", "--seed", "x"]) == 2
    assert "--seed is 'x'" in capsys.readouterr().err
    assert main(["inspect", "nothing"]) == 2
    assert sorted(path.name for path in elsewhere.iterdir()) == ["page.html"]
